"""A real node joins a real network from a snapshot: it has the state, serves it, and goes on with the others."""

import itertools
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from cairn.cli.network.join import state_sync_settings
from tests.support.network import Network, NetworkNode
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.ports import free_ports
from tests.support.scratch import scratch_parent
from tests.support.wallet import dev_account, new_account, sign_transfer

INTERVAL = 5


@pytest.fixture
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cairn-sync-", dir=scratch_parent()) as directory:
        yield Path(directory)


def test_a_node_joins_from_a_snapshot(cometbft_tools: Path, scratch: Path) -> None:
    with Network(scratch / "n", validators=1, args=["--full-nodes=1"], linked=False) as network:
        giver, joiner = network.nodes
        [rpc_port] = free_ports(1)
        # Blocks come with transactions only: however long the newcomer takes, none that it needs is removed meanwhile.
        giver.configure({"rpc.laddr": f"tcp://127.0.0.1:{rpc_port}", "consensus.create_empty_blocks_interval": "1h"})
        giver.set(snapshot_interval=INTERVAL, retain_blocks=INTERVAL)
        giver.start()
        stranger = new_account()
        shelf = giver.home / "data" / "snapshots"
        nonces = itertools.count()
        # Two more blocks must follow a snapshot before a light client can vouch for it.
        while not 2 * INTERVAL < newest(shelf) <= giver.height() - 2:
            nonce = next(nonces)
            giver.public.await_confirmed(
                giver.public.submit(sign_transfer(dev_account(0), stranger.address, 1_000 + nonce, nonce))
            )
        joiner.configure(state_sync_settings([f"127.0.0.1:{rpc_port}"], time.time()))
        joiner.start()
        joiner.await_height(giver.height())

        for node in (giver, joiner):
            assert node.public.get("/block/1").status_code == 404
        oldest = joiner.public.read("/blocks", limit=100)[-1]["blockHeight"]
        assert oldest >= 2 * INTERVAL
        assert joiner.block(oldest) == giver.block(oldest)
        mine = joiner.public.read(f"/account/{stranger.address}")
        assert mine == giver.public.read(f"/account/{stranger.address}")
        # And it is a node like any other: what is sent to it is confirmed everywhere.
        tx_hash = joiner.public.submit(sign_transfer(dev_account(1), stranger.address, 5, 0))
        confirmed = joiner.public.await_confirmed(tx_hash)
        assert giver.public.await_confirmed(tx_hash) == confirmed
        joiner.stop()
        joiner.launch()
        wait_until(lambda: shows(joiner, tx_hash), PATIENCE_S, "the transaction after a restart")
        assert joiner.public.read(f"/tx/{tx_hash}") == confirmed


def shows(node: NetworkNode, tx_hash: str) -> bool:
    """Whether it is so far that it shows the transaction."""
    with suppress(httpx.TransportError):
        return node.public.get(f"/tx/{tx_hash}").status_code == 200
    return False


def newest(shelf: Path) -> int:
    return max((int(path.name) for path in shelf.glob("*") if path.name.isdigit()), default=0)
