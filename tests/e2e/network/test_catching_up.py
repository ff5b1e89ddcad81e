"""A node whose CometBFT believes too early that it has all blocks says that it is not ready until it has them."""

from pathlib import Path

import msgspec

from tests.support.network import Network

LONG = 120
HALT_AFTER_S = 3
HELD_AFTER_BYTES = 50_000
"""Enough for some blocks, and with what is read at once beyond it not nearly enough for all."""


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
        first.await_height(LONG)
        first.stop()
        first.configure({"consensus.create_empty_blocks": False, "consensus.create_empty_blocks_interval": "500ms"})
        first.start()
        # The other two meet each other first, and neither has a block: both believe that there are none.
        network.split([0], "cut")
        for node in (behind, companion):
            node.launch()
        for node in (behind, companion):
            node.await_reason("no block for")
        network.split([0], "held", HELD_AFTER_BYTES)
        network.split([companion.index], "cut")
        # It knows that there are blocks; what it says does not depend on how fast it gets them.
        behind.await_reason("catching up")
        assert behind.height() < LONG
        network.split([0], "up")
        network.split([companion.index], "cut")
        while (height := behind.height()) < LONG:
            status, _ = behind.readiness()
            assert status != 200 or behind.height() >= LONG, f"ready at height {height}"
        behind.await_ready()
