"""`cairn doctor` on the home of a validator: what is special to networks, planted and found."""

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cairn.cli.network.peers import Peers, read_peers
from cairn.cli.node.home import Home
from cairn.cli.operate.examination import examine
from cairn.cli.operate.findings import Finding
from cairn.cometbft import CometBFT, edit_toml
from cairn.store.directory import mark_format
from tests.support.network import make_homes
from tests.support.ports import free_base_port
from tests.support.sound_machine import SoundMachine


@pytest.fixture(scope="module")
def made(cometbft_tools: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    directory = tmp_path_factory.mktemp("doctor") / "net"
    base_port = free_base_port(2)
    make_homes(directory, 2, [f"--base-port={base_port}"])
    return directory, base_port


@pytest.fixture
def home(made: tuple[Path, int], tmp_path: Path) -> Iterator[Home]:
    """The first of two validators, while somebody listens on the other's p2p port."""
    directory, _ = made
    shutil.copytree(directory / "node0", tmp_path / "node0")
    found = Home(tmp_path / "node0")
    with socket.create_server(("127.0.0.1", peer_port(found))):
        yield found


def engine(home: Home) -> CometBFT:
    return CometBFT(Path(), home.directory / "cometbft")


def peer_port(home: Home) -> int:
    [peer] = read_peers(engine(home)).listed
    return int(peer.rpartition(":")[2])


def findings(home: Home) -> list[Finding]:
    """Those beside the dev accounts, which every network of the tests has."""
    found = examine(home, {}, 7, SoundMachine())[0]
    return [each for each in found if each.code != "PUBLIC_KEYS"]


def codes(home: Home) -> list[str]:
    return [finding.code for finding in findings(home)]


def write_settings(home: Home, text: str) -> None:
    with home.config_file.open("a") as file:
        file.write(text + "\n")


def take_other_program(home: Home) -> None:
    program = home.directory / "other"
    program.write_text("#!/bin/sh\necho 0.34.24\n")
    program.chmod(0o755)
    write_settings(home, f"cometbft_binary = '{program}'")


def change_chain_id(home: Home) -> None:
    path = engine(home).genesis_file
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"chain_id": "another"}))


def lose_identity(home: Home) -> None:
    home.begun_file.touch()
    home.data_dir.mkdir()
    mark_format(home.data_dir)
    (home.directory / "cometbft" / "config" / "node_key.json").unlink()


FAULTS: dict[str, Callable[[Home], object]] = {
    "COMETBFT_MISSING": lambda home: write_settings(home, "cometbft_binary = '/nowhere/cometbft'"),
    "COMETBFT_VERSION": take_other_program,
    "COMETBFT_HOME": lambda home: (home.directory / "cometbft" / "config" / "priv_validator_key.json").unlink(),
    "GENESIS_MISMATCH": change_chain_id,
    "IDENTITY_MISSING": lose_identity,
    "SETTING_WITHOUT_EFFECT": lambda home: write_settings(home, "block_time_s = 5"),
    "VALIDATOR_OPEN": lambda home: engine(home).configure(Peers(read_peers(engine(home)).listed).settings()),
    "HALT_AFTER_SHORT": lambda home: write_settings(home, "halt_after_s = 3"),
    "KEY_READABLE": lambda home: (home.directory / "cometbft" / "config" / "priv_validator_key.json").chmod(0o644),
}


def test_a_validator_that_can_start_has_no_finding_but_public_keys_that_administer_its_network(home: Home) -> None:
    assert findings(home) == []
    [public] = examine(home, {}, 7, SoundMachine())[0]
    assert "administer the network (dev0, dev1, dev2)" in public.problem


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_of_a_validator_is_found(home: Home, code: str) -> None:
    FAULTS[code](home)
    assert codes(home) == [code]


@pytest.mark.parametrize(("peers", "level"), [(1, "error"), (2, "warning")])
def test_peers_that_nobody_can_reach_are_named(home: Home, peers: int, level: str) -> None:
    with ExitStack() as open_ports:
        silent = open_ports.enter_context(socket.socket())
        # Bound, and not listened on: nobody else takes it meanwhile.
        silent.bind(("127.0.0.1", 0))
        address = f"{'1' * 40}@127.0.0.1:{silent.getsockname()[1]}"
        known = read_peers(engine(home))
        listed = (address,) if peers == 1 else (*known.listed, address)
        engine(home).configure(Peers(listed, is_closed=True).settings())
        [finding] = findings(home)
    assert (finding.code, finding.level) == ("PEERS_UNREACHABLE", level)
    assert f"1 of {peers} listed peers" in finding.problem
    assert "Connection refused" in finding.problem


@pytest.mark.parametrize("setting", ["p2p.laddr", "rpc.laddr"])
def test_a_port_of_cometbft_that_is_taken_is_found(home: Home, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = engine(home).config_file
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        config.write_text(edit_toml(config.read_text(), {setting: address}))
        [finding] = findings(home)
    assert finding.code == "PORT_UNAVAILABLE"
    assert finding.problem.startswith(f"{setting} of CometBFT: ")
