"""`cairn join`: what it asks for, refuses and writes. tests/e2e/network/test_join.py joins a real network."""

import base64
import json
import random
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest
from typer.testing import CliRunner

from cairn.cli.main import app
from cairn.cli.network.join import site_of, state_sync_settings
from cairn.cli.node.home import Home
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import dev_genesis, encode_genesis
from cairn.store.chain import ChainStore
from tests.support.damaged_homes import remove, tree
from tests.support.json_server import Answer, JsonServer
from tests.support.snapshots import network_genesis

PEER = f"{'ab' * 20}@10.0.0.1:8651"
BLOCK_TIME = "2026-01-01T00:00:00.123456789Z"
BLOCK_TIME_S = 1_767_225_600
HOUR_S = 3_600


class FakeRpc(JsonServer):
    """As much of CometBFT's RPC as a newcomer asks for."""

    def __init__(self, snapshots: object, head: int, chain: str = "A") -> None:
        self.snapshots = snapshots
        self.head = head
        self.chain = chain
        super().__init__()

    def get(self, target: str) -> Answer:
        url = urlparse(target)
        return 200, self.answer(url.path, parse_qs(url.query))

    def answer(self, path: str, query: dict[str, list[str]]) -> object:
        if path == "/abci_query" and query["path"] == ['"snapshots"']:
            value = None if self.snapshots is None else base64.b64encode(json.dumps(self.snapshots).encode()).decode()
            return {"result": {"response": {"code": 0, "value": value}}}
        height = int(query["height"][0])
        if height > self.head:
            return {"error": {"data": f"height {height} must be less than or equal to {self.head}"}}
        commit = {"block_id": {"hash": f"{self.chain}{height}"}}
        return {"result": {"signed_header": {"header": {"height": str(height), "time": BLOCK_TIME}, "commit": commit}}}


@pytest.fixture
def rpc() -> Iterator[FakeRpc]:
    with FakeRpc([400, 900], 1_000) as fake:
        yield fake


@pytest.fixture
def second() -> Iterator[FakeRpc]:
    fake = FakeRpc([], 1_000)
    yield fake
    fake.close()


def test_the_trusted_block_is_that_of_the_newest_snapshot(rpc: FakeRpc, second: FakeRpc) -> None:
    trusted = state_sync_settings([rpc.address], BLOCK_TIME_S + 60.0)
    assert trusted == {
        "statesync.enable": True,
        "statesync.rpc_servers": f"{rpc.address},{rpc.address}",
        "statesync.trust_height": 900,
        "statesync.trust_hash": "A900",
        "statesync.trust_period": "168h0m0s",
        "statesync.discovery_time": "5s",
    }
    both = state_sync_settings([rpc.address, f" {second.address}"], BLOCK_TIME_S + 60.0)
    assert both["statesync.rpc_servers"] == f"{rpc.address},{second.address}"


@pytest.mark.parametrize(("age_s", "period"), [(-5, "168h0m0s"), (500 * HOUR_S + 1, "668h0m0s")])
def test_a_chain_that_has_been_idle_for_long_can_be_joined(rpc: FakeRpc, age_s: int, period: str) -> None:
    assert state_sync_settings([rpc.address], BLOCK_TIME_S + age_s)["statesync.trust_period"] == period


def test_servers_that_cannot_verify_it_are_refused(rpc: FakeRpc, second: FakeRpc) -> None:
    second.head = 901
    with pytest.raises(InvalidConfig, match=f"{second.address}: block 902 is not there, or not yet"):
        state_sync_settings([rpc.address, second.address], BLOCK_TIME_S)
    second.head, second.chain = 1_000, "B"
    with pytest.raises(InvalidConfig, match="have different blocks at height 900"):
        state_sync_settings([rpc.address, second.address], BLOCK_TIME_S)
    with pytest.raises(InvalidConfig, match="no snapshot is offered there yet"):
        state_sync_settings([second.address, rpc.address], BLOCK_TIME_S)
    second.snapshots = None
    with pytest.raises(InvalidConfig, match="does not say which snapshots it has"):
        state_sync_settings([second.address, rpc.address], BLOCK_TIME_S)


def test_a_state_sync_server_that_does_not_answer_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="--state-sync 127.0.0.1:1: CometBFT does not answer there"):
        state_sync_settings(["127.0.0.1:1"], 0.0)


def test_a_wrong_genesis_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    genesis, home = tmp_path / "genesis.json", tmp_path / "home"
    args = ["join", str(home), "--genesis", str(genesis), "--peers", PEER]
    missing = CliRunner().invoke(app, args)
    assert (missing.exit_code, missing.stderr) == (2, f"cairn: cannot read {genesis}: No such file or directory\n")
    genesis.write_text("{}")
    assert "chainId: missing" in CliRunner().invoke(app, args).stderr
    genesis.write_bytes(encode_genesis(dev_genesis()))
    assert "names no validators, so it is not the genesis of a network" in CliRunner().invoke(app, args).stderr
    assert not home.exists()


@pytest.mark.parametrize("left", ["genesis.json", "cairn.toml", "chain-begun", "data"])
def test_a_directory_with_files_is_refused(tmp_path: Path, left: str) -> None:
    genesis, home = tmp_path / "genesis.json", tmp_path / "home"
    genesis.write_bytes(encode_genesis(network_genesis()))
    Home(home).create(dev_genesis(), {})
    (home / "chain-begun").write_text("begun")
    ChainStore.open(home / "data", dev_genesis()).close()
    for path in list(home.iterdir()):
        if path.name != left:
            remove(path, random.Random())
    before = tree(home)
    for args in (["join", str(home), "--genesis", str(genesis), "--peers", PEER], ["init", str(home)]):
        refused = CliRunner().invoke(app, args)
        assert refused.exit_code == 2
        assert "nothing was written" in refused.stderr
        assert tree(home) == before


@pytest.mark.parametrize("host", [None, "127.0.0.1", "localhost", "127.0.0.2", "::1"])
def test_a_node_that_others_find_on_this_machine_has_neighbours(host: str | None) -> None:
    assert not site_of(Path("n"), host, None).is_alone
    assert site_of(Path("n"), "10.0.0.1", None).is_alone
