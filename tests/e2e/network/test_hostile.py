"""A validator that proposes blocks which break a rule: the others refuse each of them, and the chain goes on."""

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support import altered_node
from tests.support.abci_grammar import rounds_of
from tests.support.network import Network, NetworkNode
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.promises import assert_goes_on, under_load

LIES = {
    "nonce-ahead", "nonce-repeated", "twice-the-same", "overspend", "gas-too-low", "gas-too-high", "price-too-low",
    "another-chain", "forged-signature", "signature-turned-over", "no-transaction", "update-of-a-stranger",
    "one-good-one-bad", "one-bad-in-a-bundle", "in-two-bundles", "bundle-cut-short",
}  # fmt: skip
REFUSED = "refused a proposed block"
RECIPIENTS = [f"0x{number:040x}" for number in range(0xFEE1, 0xFEE5)]


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


def told(lies: Path) -> list[str]:
    return [path.name for path in lies.iterdir() if not path.suffix]


def refused(lies: Path) -> list[str]:
    return [path.stem for path in lies.iterdir() if path.suffix]


def has_refused(node: NetworkNode, lie: Path) -> bool:
    """Whether it refused a block of a height at which that lie was told. Not all are put before each node."""
    assert node.process is not None
    lines = [json.loads(line) for line in node.process.stderr.splitlines() if REFUSED in line]
    assert {line["proposer"] for line in lines} <= {"node3"}
    return not {line["height"] for line in lines}.isdisjoint(map(int, lie.read_text().split()))


def test_no_block_of_a_hostile_proposer_is_accepted(network: Network, scratch: Path) -> None:
    *honest, hostile = network.nodes
    lies = scratch / "lies"
    with under_load(network):
        for _ in LIES:
            wait_until(lambda: set(told(lies)) != set(refused(lies)), PATIENCE_S, f"a lie besides {refused(lies)}")
            [lie] = set(told(lies)) - set(refused(lies))
            for node in honest:
                wait_until(partial(has_refused, node, lies / lie), PATIENCE_S, f"node {node.index} to refuse {lie}")
            (lies / f"{lie}.refused").touch()
        assert set(refused(lies)) == LIES
        assert_goes_on(honest)
    top = honest[0].height()
    proposers = {block["proposer"].lower() for block in honest[0].blocks(1, top)}
    assert proposers == set(RECIPIENTS[:3])
    for node in honest:
        assert node.process is not None
        assert node.process.stderr.count(REFUSED) >= len(LIES)
        assert rounds_of(node.abci_runs()[-1]) >= 2
    assert honest[0].public.balance("0x" + "66" * 20) == 0
    hostile.kill()
    assert_goes_on(honest)
