"""A node joins a long chain from a snapshot: it replays no history, and is a node like the others from there on."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cairn.cli.network.join import state_sync_settings
from cairn.cometbft import TomlValue
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.types import Address
from tests.support.follower import Follower
from tests.support.network import Network, NetworkNode
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S, Pace
from tests.support.ports import free_ports
from tests.support.promises import assert_goes_on
from tests.support.steady_load import sign_dev_transfer

LONG = 1_000
JOIN_LIMIT_S = 30
SNAPSHOT_INTERVAL = 50
CROWD = [Address(b"\x77" * 16 + number.to_bytes(4, "big")) for number in range(20_000)]
"""Enough accounts for a snapshot of several parts."""
PARTS = 3

HASTY: dict[str, TomlValue] = {
    "consensus.timeout_commit": "1ms",
    "consensus.create_empty_blocks": True,
    "consensus.create_empty_blocks_interval": "0s",
}
CALM: dict[str, TomlValue] = {
    "consensus.timeout_commit": "100ms",
    "consensus.create_empty_blocks": False,
    "consensus.create_empty_blocks_interval": "300ms",
}


@pytest.fixture(scope="module")
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    """Four validators at more than a thousand blocks, and a full node that has not run yet."""
    with Network(scratch / "network", args=["--full-nodes=1"], traced=True) as network:
        # With nearly all votes, the first makes the long chain alone, and so in seconds: it is nobody else's turn.
        genesis = network.genesis
        validators = [
            msgspec.structs.replace(validator, power=1_000_000 if validator.name == "node0" else 1)
            for validator in genesis.validators
        ]
        alloc = genesis.alloc | dict.fromkeys(CROWD, 10**18)
        network.genesis = msgspec.structs.replace(genesis, validators=tuple(validators), alloc=alloc)
        network.set(snapshot_interval=SNAPSHOT_INTERVAL)
        first, *others, _ = network.nodes
        for node, port in zip(network.nodes, free_ports(5), strict=True):
            node.configure(CALM | {"rpc.laddr": f"tcp://127.0.0.1:{port}"})
        make_long_chain(first)
        for node in others:
            give_chain(first, node)
        for node in (first, *others):
            node.launch()
        for node in (first, *others):
            node.await_ready()
        yield network


def make_long_chain(node: NetworkNode) -> None:
    """Money moves before and after the thousandth block; a snapshot is taken after that."""
    node.configure(HASTY)
    node.start()
    for nonce in range(20):
        transfer(node, nonce)
    for height in range(LONG // 4, LONG + 1, LONG // 4):
        node.await_height(height)
    tx_hash = transfer(node, 20)
    height = node.public.await_confirmed(tx_hash)["blockHeight"]
    assert height >= LONG
    snapshots = node.home / "data" / "snapshots"
    wait_until(lambda: any(int(path.name) >= height for path in snapshots.glob("*[0-9]")), PATIENCE_S, "a snapshot")
    node.stop()
    node.configure(CALM)


def give_chain(giver: NetworkNode, taker: NetworkNode) -> None:
    """As if it had followed all along: how nodes fetch a chain block by block is another test."""
    shutil.copytree(giver.home / "data", taker.home / "data")
    # What the giver has voted, and is about to vote, is its own.
    own = shutil.ignore_patterns("priv_validator_state.json", "cs.wal")
    engine = Path("cometbft", "data")
    shutil.copytree(giver.home / engine, taker.home / engine, ignore=own, dirs_exist_ok=True)


def transfer(node: NetworkNode, nonce: int) -> str:
    tx_hash, body = sign_dev_transfer(0, Address(bytes([nonce + 1]) * 20), 10**15 + nonce, nonce)
    answer = node.public.post(body)
    assert answer.status_code == 200, answer.text
    return tx_hash


def test_a_fifth_node_joins_from_a_snapshot(network: Network) -> None:
    *others, newcomer = network.nodes
    newcomer.configure(state_sync_settings([node.rpc_address for node in others[:2]], time.time()))
    with Pace(network.is_paused) as pace:
        began = time.monotonic()
        newcomer.launch()
        newcomer.await_ready()
        joined_s = time.monotonic() - began
    print(f"joined in {joined_s:.1f} s at pace {pace.slowness:.1f}")
    assert joined_s < pace.stretch(JOIN_LIMIT_S)
    assert newcomer.height() > LONG
    assert newcomer.public.get("/block/1").status_code == 404
    lowest = newcomer.public.read("/blocks", limit=1000)[-1]["blockHeight"]
    assert lowest > LONG
    assert_goes_on(network.nodes)
    # CometBFT ends when the nodes that it trusts do not answer within ten seconds, and is started again.
    calls = [call.name for run in newcomer.abci_runs() for call in run]
    assert calls.count("ApplySnapshotChunk") >= PARTS
    top = min(newcomer.height(), others[0].height())
    assert newcomer.blocks(lowest, top) == others[0].blocks(lowest, top)
    for address in [*(bytes([number + 1]) * 20 for number in range(21)), DEV_KEYS[0][0], CROWD[0], CROWD[-1]]:
        path = f"/account/0x{address.hex()}"
        assert newcomer.public.read(path) == others[0].public.read(path)
    serves_like_the_others(network, lowest)


def serves_like_the_others(network: Network, lowest: int) -> None:
    *others, newcomer = network.nodes
    with Follower(newcomer.url, lowest) as told:
        tx_hash = transfer(newcomer, 21)
        told.follow(tx_hash)
        told.await_confirmed({tx_hash})
        height = told.heights[tx_hash]
        for node in others:
            assert node.public.await_confirmed(tx_hash)["blockHeight"] == height
        told.await_height(height)
        assert [at for at, _ in told.blocks[: height - lowest + 1]] == list(range(lowest, height + 1))
    newcomer.stop()
    newcomer.start()
    assert newcomer.public.await_confirmed(tx_hash)["blockHeight"] == height
    assert_goes_on(network.nodes)
