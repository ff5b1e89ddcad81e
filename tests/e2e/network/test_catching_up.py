"""A node whose CometBFT believes too early that it has all blocks says that it is not ready until it has them."""

import time
from pathlib import Path

import msgspec
import pytest

from tests.support.network import Network

LONG = 200
HALT_AFTER_S = 3
CATCH_UP_S = 120


@pytest.mark.timeout(480)
def test_peers_without_blocks_do_not_make_a_node_ready(cometbft_tools: Path, scratch: Path) -> None:
    with Network(scratch / "network", validators=3, traced=True) as network:
        # With nearly all votes, the first makes the chain alone.
        genesis = network.genesis
        powers = {"node0": 1_000_000}
        validators = [msgspec.structs.replace(each, power=powers.get(each.name, 1)) for each in genesis.validators]
        network.genesis = msgspec.structs.replace(genesis, validators=tuple(validators))
        network.set(halt_after_s=HALT_AFTER_S)
        first, behind, companion = network.nodes
        first.configure(
            {
                "consensus.timeout_commit": "1ms",
                "consensus.create_empty_blocks": True,
                "consensus.create_empty_blocks_interval": "0s",
            }
        )
        first.start()
        first.await_height(LONG, 120)
        first.stop()
        first.configure({"consensus.create_empty_blocks": False, "consensus.create_empty_blocks_interval": "500ms"})
        first.start()
        # The other two meet each other first, and neither has a block: both believe that there are none.
        network.split([0], "cut")
        for node in (behind, companion):
            node.launch()
        for node in (behind, companion):
            node.await_reason("no block for", 40)
        network.split([0], "up")
        network.split([companion.index], "cut")
        said = set()
        deadline = time.monotonic() + CATCH_UP_S
        while behind.height() < LONG:
            assert time.monotonic() < deadline, f"it is at height {behind.height()}"
            status, reason = behind.readiness()
            assert status != 200 or behind.height() >= LONG
            said.add(reason.partition(", height")[0])
            time.sleep(0.1)
        assert any("catching up" in reason for reason in said), said
        behind.await_ready()
