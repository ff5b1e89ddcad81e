"""The installed program does what the forked one does, which most tests start instead (tests/support/forked.py)."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cairn.domain.genesis import DEV_KEYS
from tests.support.commands import run_here
from tests.support.forked import FORK_SERVER
from tests.support.node_process import NodeProcess, clean_environment, command
from tests.support.pace import PATIENCE_S
from tests.support.terminal import Terminal

ADDRESS = "0x" + DEV_KEYS[0][0].hex()
COMMANDS = {
    "Node": ["init", "home"],
    "Operate": ["config", "check", "--home", "home"],
    "Operate, refused": ["verify", "--home", "home"],
    "Network": ["genesis", "show", "home/genesis.json"],
    "Wallet": ["keys", "list"],
    "Wallet, refused": ["send", "nobody", ADDRESS, "1coin"],
    "Look": ["account", ADDRESS, "--json"],
    "Look, shown": ["block", "0"],
    "Look, from nobody": ["chain", "--node", "http://127.0.0.1:1"],
    "Prove, refused": ["check", "home/cairn.toml", "--genesis", "home/genesis.json"],
    "Help": ["version"],
    "Help, of all": ["--help"],
    "Help, for a mistake": ["sned"],
}


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "86400", "--workers", "1") as node:
        yield node


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("installed")
    run_here(["init", str(made / "home")])
    return made


def ends(args: Sequence[str], directory: Path, url: str) -> tuple[int, str, str]:
    done = subprocess.run(
        args,
        capture_output=True,
        text=True,
        cwd=directory,
        env=clean_environment({"CAIRN_NODE": url, "CAIRN_KEYS": "keys", "COLUMNS": "100"}),
        timeout=PATIENCE_S,
        start_new_session=True,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_ends_and_prints_the_same(
    name: str, node: NodeProcess, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forked = ends(command(COMMANDS[name]), directory, node.url)
    monkeypatch.setattr(FORK_SERVER, "is_used", False)
    assert ends(command(COMMANDS[name]), directory, node.url) == forked


def test_python_has_it_as_a_module(node: NodeProcess, directory: Path) -> None:
    as_module = [sys.executable, "-m", "cairn.cli", "block", "0"]
    assert ends(as_module, directory, node.url) == ends(command(["block", "0"]), directory, node.url)


@pytest.mark.parametrize("is_forked", [True, False])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_a_node(number: signal.Signals, is_forked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FORK_SERVER, "is_used", is_forked)
    with NodeProcess.start_dev("--workers", "1") as node:
        assert os.getsid(node.process.pid) == node.process.pid
        assert f"\nName:\t{'cairn'}\n" in "\n" + Path(f"/proc/{node.process.pid}/status").read_text()
        node.process.send_signal(number)
        assert node.wait_exit() == (-number if number == signal.SIGKILL else 0)


@pytest.mark.parametrize("is_forked", [True, False])
def test_ctrl_c_ends_it_at_a_terminal(is_forked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FORK_SERVER, "is_used", is_forked)
    with Terminal(command(["dev", "--port", "0", "--workers", "1"]), clean_environment()) as terminal:
        terminal.expect("Listening on")
        terminal.press_ctrl_c()
        assert terminal.wait() == 0
