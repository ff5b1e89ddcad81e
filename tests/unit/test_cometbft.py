"""The CometBFT beside a node: found, configured, started, and gone with its parent."""

import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cairn import cometbft
from cairn.cometbft import LARGEST_LOG_BYTES, TIMER_SLACK_S, CometBFT, edit_toml, find_binary
from cairn.domain.errors import InvalidConfig
from tests.support.node_process import is_alive, wait_until
from tests.support.pace import PATIENCE_S

CONFIG = """\
moniker = "a"
# laddr = of nobody
[rpc]
# A comment with [brackets]
laddr = "tcp://127.0.0.1:26657"
unsafe = false

[p2p]
laddr = "tcp://0.0.0.0:26656"
size = 5
keep-it = 1
"""


def program(directory: Path, text: str) -> Path:
    path = directory / "cometbft"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_each_section_s_own_key_is_set_and_all_else_stays() -> None:
    changes: dict[str, str | int | bool] = {
        "moniker": 'n"1',
        "rpc.unsafe": True,
        "p2p.laddr": "tcp://127.0.0.1:1",
        "p2p.size": 7,
        "p2p.keep-it": 2,
    }
    edited = edit_toml(CONFIG, changes)
    assert tomllib.loads(edited) == {
        "moniker": 'n"1',
        "rpc": {"laddr": "tcp://127.0.0.1:26657", "unsafe": True},
        "p2p": {"laddr": "tcp://127.0.0.1:1", "size": 7, "keep-it": 2},
    }
    assert edit_toml(edited, {"moniker": "a", "rpc.unsafe": False, "p2p.laddr": "tcp://0.0.0.0:26656", "p2p.size": 5,
                              "p2p.keep-it": 1}) == CONFIG  # fmt: skip


@pytest.mark.parametrize("text", ['n"1', "a\\n", "a\nb", "a\x7fb", "a\0b", "Größe 🪨", "a\u2028b"])
def test_a_text_of_any_characters_reads_back_from_the_configuration(text: str) -> None:
    assert tomllib.loads(edit_toml(CONFIG, {"moniker": text}))["moniker"] == text


@pytest.mark.parametrize("path", ["laddr", "rpc.size", "mempool.size", "p2p.unsafe"])
def test_a_key_that_is_not_there_is_named(path: str) -> None:
    with pytest.raises(InvalidConfig, match=re.escape(path.rpartition(".")[0] or path)):
        edit_toml(CONFIG, {path: 1})


def test_the_named_program_is_found(tmp_path: Path) -> None:
    path = program(tmp_path, "exit 0")
    assert find_binary(str(path)) == path
    with pytest.raises(InvalidConfig, match="nothing-here is not a program: `make cometbft`"):
        find_binary(str(tmp_path / "nothing-here"))


def test_without_a_name_the_checkout_s_own_comes_before_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir()
    own, other = program(tmp_path / "own", "exit 0"), program(tmp_path, "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cometbft, "CHECKOUT_BINARY", own)
    assert find_binary("") == own
    own.unlink()
    assert find_binary("") == other
    other.unlink()
    with pytest.raises(InvalidConfig, match="there is no cometbft on the PATH"):
        find_binary("")


def test_another_version_is_refused(tmp_path: Path) -> None:
    CometBFT(program(tmp_path, "echo 0.38.25"), tmp_path).check_version()
    with pytest.raises(InvalidConfig, match="is CometBFT 1.0.1; this node works with 0.38.x"):
        CometBFT(program(tmp_path, "echo 1.0.1"), tmp_path).check_version()


def test_the_error_output_of_cometbft_is_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cometbft init --home .* failed: no disk"):
        CometBFT(program(tmp_path, "echo no disk >&2; exit 1"), tmp_path).run("init")
    with pytest.raises(InvalidConfig, match="cannot run .*missing: No such file"):
        CometBFT(tmp_path / "missing", tmp_path).run("init")


def test_the_rpc_address_comes_from_its_configuration(tmp_path: Path) -> None:
    engine = CometBFT(tmp_path, tmp_path)
    with pytest.raises(InvalidConfig, match="config.toml is missing"):
        engine.configured_rpc()
    engine.config_file.parent.mkdir()
    engine.config_file.write_text(CONFIG)
    assert engine.configured_rpc() == "tcp://127.0.0.1:26657"
    engine.configure({"rpc.laddr": ""})
    with pytest.raises(InvalidConfig, match="rpc.laddr is '': the node needs it"):
        engine.configured_rpc()
    engine.config_file.write_text("=")
    with pytest.raises(InvalidConfig, match=r"cannot read .*config\.toml"):
        engine.configured_rpc()


def test_a_missing_key_is_refused_unless_a_remote_signer_has_it(tmp_path: Path) -> None:
    engine = CometBFT(tmp_path, tmp_path)
    engine.config_file.parent.mkdir()
    engine.config_file.write_text('priv_validator_key_file = "config/key.json"\npriv_validator_laddr = ""\n')
    with pytest.raises(InvalidConfig, match=r"config/key\.json is missing, and CometBFT would make a new key"):
        engine.check_key()
    (tmp_path / "config" / "key.json").touch()
    engine.check_key()
    (tmp_path / "config" / "key.json").unlink()
    engine.configure({"priv_validator_laddr": "unix:///run/signer.sock"})
    engine.check_key()


def become(engine: CometBFT, abci_socket: Path, rpc: str) -> "subprocess.Popen[bytes]":
    code = (
        "import sys; from pathlib import Path; from cairn.cometbft import CometBFT;"
        "CometBFT(Path(sys.argv[1]), Path(sys.argv[2])).become(Path(sys.argv[3]), sys.argv[4])"
    )
    return subprocess.Popen([sys.executable, "-c", code, engine.binary, engine.home, abci_socket, rpc])


def test_cometbft_is_started_with_our_socket_and_its_log_file(tmp_path: Path) -> None:
    engine = CometBFT(program(tmp_path, 'echo "$@"; echo oops >&2'), tmp_path)
    log = tmp_path / "cometbft.log"
    with log.open("wb") as old:
        old.truncate(LARGEST_LOG_BYTES + 1)
    stale, signer = tmp_path / "rpc.sock", tmp_path / "signer.sock"
    stale.touch()
    with socket.socket(socket.AF_UNIX) as listener:
        # As a killed CometBFT leaves it.
        listener.bind(str(signer))
    engine.config_file.parent.mkdir()
    engine.config_file.write_text(f'priv_validator_laddr = "unix://{signer}"\n')
    assert become(engine, tmp_path / "abci.sock", f"unix://{stale}").wait(PATIENCE_S) == 0
    options = f"--abci socket --proxy_app unix://{tmp_path}/abci.sock --rpc.laddr unix://{stale}"
    assert log.read_text() == f"start --home {tmp_path} {options}\noops\n"
    assert (tmp_path / "cometbft.log.1").stat().st_size > LARGEST_LOG_BYTES
    assert not stale.exists()
    assert not signer.exists()


needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system cannot do it")


@needs_linux
def test_timer_slack_is_set(tmp_path: Path) -> None:
    engine = CometBFT(program(tmp_path, "cat /proc/self/timerslack_ns"), tmp_path)
    assert become(engine, tmp_path / "abci.sock", "tcp://127.0.0.1:1").wait(PATIENCE_S) == 0
    assert int((tmp_path / "cometbft.log").read_text()) == round(TIMER_SLACK_S * 1e9)


@needs_linux
def test_cometbft_is_killed_when_its_parent_ends(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, time; from cairn.cometbft import die_with_parent\n"
        "if os.fork() == 0:\n"
        "    die_with_parent(signal.SIGKILL); print(os.getpid(), flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(child), PATIENCE_S, "the child's end")
