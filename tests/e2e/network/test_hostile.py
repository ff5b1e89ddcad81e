"""A validator that proposes blocks which break a rule: the others refuse each of them, and the chain goes on."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import altered_node
from tests.support.abci_grammar import rounds_of
from tests.support.network import Network
from tests.support.node_process import wait_until
from tests.support.promises import assert_goes_on, under_load

LIES = {
    "nonce-ahead", "nonce-repeated", "twice-the-same", "overspend", "gas-too-low", "gas-too-high", "price-too-low",
    "another-chain", "forged-signature", "signature-turned-over", "no-transaction", "update-of-a-stranger",
    "one-good-one-bad", "one-bad-in-a-bundle", "in-two-bundles", "bundle-cut-short",
}  # fmt: skip
RECIPIENTS = [f"0x{number:040x}" for number in range(0xFEE1, 0xFEE5)]

pytestmark = pytest.mark.timeout(480)


@pytest.fixture(scope="module")
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    """Each validator's blocks pay another account, so that they can be told apart."""
    args = [f"--fee-recipient={recipient}" for recipient in RECIPIENTS]
    with Network(scratch / "network", args=args, traced=True) as network:
        lies = scratch / "lies"
        lies.mkdir()
        for node in network.nodes[:3]:
            node.launch()
        network.nodes[3].launch([sys.executable, "-P", altered_node.__file__, "hostile", str(lies)])
        for node in network.nodes:
            node.await_ready()
        yield network


def test_no_block_of_a_hostile_proposer_is_accepted(network: Network, scratch: Path) -> None:
    *honest, hostile = network.nodes
    with under_load(network):
        wait_until(lambda: {path.name for path in (scratch / "lies").iterdir()} == LIES, 300, "every lie to be told")
        assert_goes_on(honest)
    top = honest[0].height()
    proposers = {honest[0].block(height)["proposer"].lower() for height in range(1, top + 1)}
    assert proposers == set(RECIPIENTS[:3])
    for node in honest:
        assert node.process is not None
        assert node.process.stderr.count("refused a proposed block") >= len(LIES)
        assert rounds_of(node.abci_runs()[-1]) >= 2
    assert honest[0].public.balance("0x" + "66" * 20) == 0
    hostile.kill()
    assert_goes_on(honest)
