"""What a network promises whatever happens to its nodes, checked over the public interface."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any

from tests.support.follower import Follower
from tests.support.network import Network, NetworkNode
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.steady_load import SteadyLoad

PER_SECOND = 8
"""Transfers through each node."""
GOES_ON_BLOCKS = 5


@contextmanager
def under_load(network: Network) -> Iterator[SteadyLoad]:
    """Transfers through every node while the block runs; afterwards nothing of what was promised is broken."""
    with followers(network.nodes) as told:

        def follow(tx_hash: str) -> None:
            for follower in told:
                follower.follow(tx_hash)

        with SteadyLoad([node.url for node in network.nodes], PER_SECOND, follow) as load:
            wait_until(lambda: len(load.accepted) > 2 * PER_SECOND, PATIENCE_S, "some load")
            yield load
        for follower in told:
            try:
                follower.await_confirmed(load.accepted)
            except TimeoutError as error:
                missing = load.accepted - follower.confirmed.keys()
                raise TimeoutError(f"{error}\n{standings(network.nodes, missing)}") from None
        chain = assert_agreement(network.nodes)
        assert_each_once(chain, load.accepted)
        for follower in told:
            assert_told_once(follower, chain, load.accepted)


def standings(nodes: Sequence[NetworkNode], missing: Collection[str]) -> str:
    """How each node sees some of what a follower was not told of."""
    lines = [f"{len(missing)} are missing, some of them:"]
    for tx_hash in sorted(missing)[:5]:
        seen = [node.public.get(f"/tx/{tx_hash}").json() for node in nodes]
        lines.append(f"  {tx_hash}: {[(tx.get('status'), tx.get('blockHeight')) for tx in seen]}")
    return "\n".join(lines)


def assert_goes_on(nodes: Sequence[NetworkNode]) -> None:
    """New blocks, not only one that was under way."""
    target = max(node.height() for node in nodes) + GOES_ON_BLOCKS
    for node in nodes:
        node.await_height(target)


@contextmanager
def followers(nodes: Sequence[NetworkNode]) -> Iterator[list[Follower]]:
    """A follower of each node's events."""
    with ExitStack() as stack:
        yield [stack.enter_context(Follower(node.url)) for node in nodes]


def assert_agreement(nodes: Sequence[NetworkNode]) -> list[dict[str, Any]]:
    """Every node shows the same blocks, byte for byte, up to where the highest is now; they link back to genesis."""
    top = max(node.height() for node in nodes)
    for node in nodes:
        node.await_height(top)
    first, *others = (node.blocks(0, top) for node in nodes)
    for node, other in zip(nodes[1:], others, strict=True):
        for mine, theirs in zip(first, other, strict=True):
            assert theirs == mine, f"node {node.index} differs from node {nodes[0].index}"
    for parent, block in pairwise(first):
        assert (block["blockHeight"], block["previousHash"]) == (parent["blockHeight"] + 1, parent["hash"])
    return first


def assert_each_once(chain: Sequence[Mapping[str, Any]], accepted: Collection[str]) -> None:
    """Nothing accepted is missing from the chain, and nothing is in it twice."""
    held = Counter(tx_hash for block in chain for tx_hash in block["transactions"])
    assert set(held.values()) <= {1}, "a transaction is in two blocks"
    lost = set(accepted) - held.keys()
    assert not lost, f"{len(lost)} of {len(accepted)} accepted transactions are lost"


def assert_told_once(follower: Follower, chain: Sequence[Mapping[str, Any]], accepted: Collection[str]) -> None:
    """The follower heard of every block in order, and of every accepted transaction, once."""
    follower.await_height(chain[-1]["blockHeight"])
    told = follower.blocks[: len(chain)]
    assert told == [(block["blockHeight"], block["hash"]) for block in chain]
    follower.await_confirmed(set(accepted))
    assert set(follower.confirmed.values()) <= {1}, "a confirmation was told twice"
    heights = {tx_hash: block["blockHeight"] for block in chain for tx_hash in block["transactions"]}
    for tx_hash in accepted:
        assert follower.heights[tx_hash] == heights[tx_hash]
    assert not follower.dropped, follower.dropped
    assert not follower.errors
