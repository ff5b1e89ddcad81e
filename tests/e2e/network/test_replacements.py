"""A replacement that one node accepted while the others confirm the original: nobody is told that it was dropped."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.network import Network
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.public import assert_problem, receive
from tests.support.rpc import rpc
from tests.support.wallet import dev_account, new_account, sign_transfer

GWEI = 10**9


@pytest.fixture(scope="module")
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    with Network(scratch / "network") as network:
        network.start()
        yield network


def test_an_original_that_others_confirm_is_never_told_as_dropped(network: Network) -> None:
    first, *_, lonely = network.nodes
    sender, to = dev_account(0), new_account().address
    original, replacement = (sign_transfer(sender, to, 1, 0, gas_price=price) for price in (2 * GWEI, 4 * GWEI))
    # The others decide without it, and it hears nothing of that.
    network.split([lonely.index], "cut")
    with lonely.public.events(f"?txConfirmed={original.tx_hash}") as socket:
        assert receive(socket)["event"] == "subscribed"
        lonely.public.submit(original)
        lonely.public.submit(replacement)
        first.public.submit(original)
        first.public.await_confirmed(original.tx_hash)
        for path in (f"/tx/{original.tx_hash}", f"/tx/{original.tx_hash}?wait=1"):
            shown = lonely.public.read(path)
            assert (shown["status"], shown["notHeld"]) == ("pending", "replaced")
            assert shown["replacedBy"] == replacement.tx_hash
        assert rpc(lonely.public.url, "eth_getTransactionByHash", original.tx_hash)["blockNumber"] is None
        assert [item["txHash"] for item in lonely.public.read("/mempool")] == [replacement.tx_hash]
        told = subprocess.run(
            [sys.executable, "-m", "cairn.cli", "tx", original.tx_hash, "--node", lonely.public.url],
            capture_output=True,
            text=True,
            check=True,
        )
        assert f"pending, replaced here by {replacement.tx_hash}" in " ".join(told.stdout.split())
        # Sent again, it is as pending as before.
        lonely.public.submit(original)
        lonely.kill()
        lonely.launch()
        lonely.await_not_ready()
        wait_until(lambda: lonely.public.get(f"/tx/{original.tx_hash}").status_code == 200, PATIENCE_S, "the node")
        assert lonely.public.read(f"/tx/{original.tx_hash}")["replacedBy"] == replacement.tx_hash
    with lonely.public.events(f"?txConfirmed={original.tx_hash}&txConfirmed={replacement.tx_hash}") as socket:
        assert receive(socket)["event"] == "subscribed"
        network.heal()
        ends: dict[str, dict[str, Any]] = {}
        while len(ends) < 2:
            event = receive(socket)
            if event["event"] in ("txConfirmed", "txDropped"):
                ends[event["txHash"]] = event
    assert ends[original.tx_hash]["event"] == "txConfirmed"
    assert (ends[replacement.tx_hash]["event"], ends[replacement.tx_hash]["reason"]) == ("txDropped", "nonce used")
    for node in network.nodes:
        assert node.public.await_confirmed(original.tx_hash)["status"] == "confirmed"
    problem = assert_problem(lonely.public.get(f"/tx/{replacement.tx_hash}"), 404, "TX_DROPPED")
    assert problem["reason"] == "nonce used"
