"""`cairn peers`: whom a node lists, whom it takes, and what CometBFT reads of it."""

import base64
import hashlib
import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cairn.cli.main import app
from cairn.cli.network.peers import HANDSHAKE_SLOTS, MAX_UNLISTED_PEERS, Peers, own_address, read_peers, split_peers
from cairn.cometbft import CometBFT
from cairn.domain.errors import InvalidConfig

FIRST, SECOND, THIRD = (f"{digit * 40}@10.0.0.{digit}:8651" for digit in "123")
CONFIG = """moniker = "n"
[p2p]
laddr = "tcp://0.0.0.0:8651"
external_address = "10.0.0.9:8651"
persistent_peers = ""
unconditional_peer_ids = ""
max_num_inbound_peers = 40
[mempool]
size = 1
"""
KEY = bytes(range(64))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    config = tmp_path / "cometbft" / "config"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(CONFIG)
    key = {"priv_key": {"value": base64.b64encode(KEY).decode()}}
    (config / "node_key.json").write_text(json.dumps(key))
    return tmp_path


def engine(home: Path) -> CometBFT:
    return CometBFT(Path(), home / "cometbft")


def run(home: Path, *args: str) -> str:
    done = CliRunner().invoke(app, ["peers", "--home", str(home), *args])
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_peers_are_an_id_and_an_address_each() -> None:
    assert split_peers(f"{FIRST}, {'c' * 40}@[::1]:9") == [FIRST, f"{'c' * 40}@[::1]:9"]
    for wrong in ("", "10.0.0.1:8651", "ab12@10.0.0.1:1", f"{'a' * 40}@:1", f"{'a' * 40}@10.0.0.1", f"{FIRST},"):
        with pytest.raises(InvalidConfig, match="expected ID@HOST:PORT"):
            split_peers(wrong)


@pytest.mark.parametrize("count", [1, 3, HANDSHAKE_SLOTS + 1])
def test_each_listed_node_always_gets_in_and_many_may_wait_for_their_handshake(count: int) -> None:
    listed = tuple(f"{number:040x}@h:1" for number in range(count))
    settings = Peers(listed, is_closed=True).settings()
    places = str(settings["p2p.unconditional_peer_ids"]).split(",")
    assert set(places) == {peer[:40] for peer in listed}
    assert len(places) == max(HANDSHAKE_SLOTS, count)
    assert settings["p2p.max_num_inbound_peers"] == 0


def test_without_peers_the_lists_are_empty() -> None:
    assert Peers((), is_closed=True).settings() == {
        "p2p.persistent_peers": "",
        "p2p.unconditional_peer_ids": "",
        "p2p.max_num_inbound_peers": 0,
    }


def test_peers_read_back_from_the_configuration(home: Path) -> None:
    for peers in (Peers((FIRST, SECOND), ("3" * 40,), True), Peers((FIRST,)), Peers(())):
        engine(home).configure(peers.settings())
        assert read_peers(engine(home)) == peers


def test_a_change_is_shown_and_says_that_the_node_must_restart(home: Path) -> None:
    own = f"{hashlib.sha256(KEY[32:]).digest()[:20].hex()}@10.0.0.9:8651"
    assert own_address(engine(home)) == own
    added = run(home, "--add", FIRST, "--add", SECOND, "--closed")
    assert added.splitlines() == [
        f"This node: {own}",
        f"  {FIRST}",
        f"  {SECOND}",
        "Other nodes: none may connect.",
        "Restart the node: CometBFT reads its configuration when it starts.",
    ]
    shown = run(home)
    assert "Restart" not in shown
    moved = FIRST.replace("8651", "9")
    assert f"  {moved}\n" in run(home, "--add", moved, "--remove", "2" * 40)
    opened = run(home, "--open")
    assert f"Other nodes: up to {MAX_UNLISTED_PEERS} may connect." in opened
    assert read_peers(engine(home)) == Peers((moved,))
    assert tomllib.loads((home / "cometbft" / "config" / "config.toml").read_text())["mempool"] == {"size": 1}


def test_a_wrong_peer_is_refused_and_nothing_is_written(home: Path) -> None:
    for args, reason in (
        (["--remove", "2" * 40], "it is not among the listed peers"),
        (["--add", "somebody"], "--add somebody: expected ID@HOST:PORT"),
    ):
        refused = CliRunner().invoke(app, ["peers", "--home", str(home), *args])
        assert refused.exit_code == 2
        assert reason in refused.stderr
    assert (home / "cometbft" / "config" / "config.toml").read_text() == CONFIG


def test_a_home_that_cannot_be_used_is_told_without_numbers_and_with_what_to_do(home: Path) -> None:
    def said() -> str:
        refused = CliRunner().invoke(app, ["peers", "--home", str(home)])
        assert (refused.exit_code, "Errno" in refused.stderr) == (2, False)
        return refused.stderr

    config = home / "cometbft" / "config"
    (config / "node_key.json").write_text('{"priv_key": {"value": "?"}}')
    assert "node_key.json holds no key of a node: restore it from your backup" in said()
    (config / "node_key.json").unlink()
    assert "node_key.json: No such file or directory; restore it" in said()
    (config / "config.toml").write_text("[p2p")
    assert "config.toml is not TOML: " in said()
    (config / "config.toml").unlink()
    assert f"{home} is not the home of a node of a network: there is no " in said()
    (config / "config.toml").mkdir()
    assert "config.toml: Is a directory" in said()


def test_a_node_with_a_new_id_replaces_the_one_at_its_address() -> None:
    again = f"{'4' * 40}@{SECOND.partition('@')[2]}"
    assert Peers((FIRST, SECOND, THIRD)).with_peers([again]).listed == (FIRST, THIRD, again)
    assert Peers((FIRST,)).with_peers([SECOND]).listed == (FIRST, SECOND)
