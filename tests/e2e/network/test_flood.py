"""A peer without stake sends transactions that nobody signed, as fast as it may: blocks and transfers go on."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from cairn.engine.network.checks import NOTICE_INTERVAL_S
from tests.support import altered_node, flood
from tests.support.cometbft import CometBFT
from tests.support.flood import Flood, Items, forged_bundles, mixed_rubbish
from tests.support.follower import Follower
from tests.support.network import Network, NetworkNode
from tests.support.node_process import clean_environment, command, wait_until
from tests.support.pace import PATIENCE_S, Pace
from tests.support.promises import assert_agreement, assert_each_once, assert_goes_on
from tests.support.steady_load import SteadyLoad

SECONDS = float(os.environ.get("FLOOD_SECONDS", "8"))
"""How long each flood lasts; `FLOOD_SECONDS=60` takes longer. The flooding node keeps all that it sends in memory."""
CALM_S = 4
ROUNDS = 3
PER_SECOND = 25
"""Transfers through each validator."""
LONGEST_GAP_S = 5
NOTICE = "peers send transactions that are refused"


@pytest.fixture(scope="module")
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    """Four validators, and one full node that takes whatever it is given."""
    with Network(scratch / "network", args=["--full-nodes=1"], linked=False) as network:
        network.nodes[4].configure(flood.CONFIGURATION)
        for node in network.nodes[:4]:
            node.launch()
        network.nodes[4].launch([sys.executable, "-P", altered_node.__file__, "gullible", str(scratch)])
        for node in network.nodes:
            node.await_ready()
        yield network


class Window(NamedTuple):
    """What a network did in some seconds."""

    confirmed_per_s: float
    longest_gap_s: float
    """Without a block."""


class Round(NamedTuple):
    """A network before a flood, and in it."""

    calm: Window
    flooded: Window
    longest_allowed_s: float
    """Without a block, on a machine as fast as it was meanwhile."""
    sent_bytes: int

    @property
    def is_borne(self) -> bool:
        has_long_gap = self.flooded.longest_gap_s > self.longest_allowed_s
        return not has_long_gap and self.flooded.confirmed_per_s >= self.calm.confirmed_per_s / 2 > 0


@pytest.mark.parametrize("items", [forged_bundles, mixed_rubbish])
def test_a_flood_of_what_nobody_signed_leaves_half_of_the_rate_and_no_long_gap(
    network: Network, items: Callable[[], Items]
) -> None:
    validators, sent = network.nodes[:4], items()
    rounds: list[Round] = []
    # Others may take the machine in the middle of a round: then the next one is compared with its own calm.
    while len(rounds) < ROUNDS and not any(seen.is_borne for seen in rounds):
        rounds.append(play_round(network, sent))
        # Shown with a failure, and by `pytest -s`.
        print(rounds[-1])
    assert rounds[-1].is_borne
    # Of this flood or of the one before: a notice that is like another of the last minute is held back until then.
    wait_until(lambda: all(map(count_notices, validators)), PATIENCE_S, "a notice of each validator")


def play_round(network: Network, items: Items) -> Round:
    """Nothing that was accepted meanwhile is lost or doubled."""
    *validators, peer = network.nodes
    await_quiet(validators)
    with Follower(validators[0].url) as follower:
        follower.await_height(validators[0].height())
        with Pace(network.is_paused) as pace, SteadyLoad([node.url for node in validators], PER_SECOND) as load:
            wait_until(lambda: len(load.accepted) > PER_SECOND, PATIENCE_S, "some load")
            calm = observe(validators[0], follower, CALM_S, least_blocks=2)
            with Flood(peer.home / "rpc.sock", items) as flooding:
                flooded = observe(validators[0], follower, SECONDS)
        for tx_hash in load.accepted:
            follower.follow(tx_hash)
        follower.await_confirmed(load.accepted)
    assert_each_once(assert_agreement(validators), load.accepted)
    return Round(calm, flooded, pace.stretch(LONGEST_GAP_S), flooding.sent_bytes)


def observe(node: NetworkNode, follower: Follower, seconds: float, least_blocks: int = 0) -> Window:
    """Look on for so long, and until there were so many blocks."""
    began, first = time.monotonic(), len(follower.blocks)
    time.sleep(seconds)
    wait_until(lambda: len(follower.blocks) >= first + least_blocks, PATIENCE_S, "blocks")
    ended, last = time.monotonic(), len(follower.blocks)
    times = [began, *follower.told_at[first:last], ended]
    blocks = [node.block(height) for height, _ in follower.blocks[first:last]]
    confirmed = sum(len(block["transactions"]) for block in blocks)
    return Window(confirmed / (ended - began), max(later - earlier for earlier, later in pairwise(times)))


def await_quiet(nodes: Sequence[NetworkNode]) -> None:
    """Return once nothing of an earlier flood is under way any more: while it is, every node notices it again."""
    seen = [sum(map(count_notices, nodes))]

    def is_quiet() -> bool:
        time.sleep(NOTICE_INTERVAL_S + 1)
        seen.append(sum(map(count_notices, nodes)))
        return seen[-1] == seen[-2]

    if seen[0]:
        wait_until(is_quiet, PATIENCE_S, "the end of a flood")


def count_notices(node: NetworkNode) -> int:
    assert node.process is not None
    return node.process.stderr.count(NOTICE)


def test_validators_that_list_their_peers_take_no_stranger(cometbft_tools: Path, scratch: Path) -> None:
    """As `cairn testnet` sets it up, once its full node is on no list any more."""
    with Network(scratch / "listed", validators=2, args=["--full-nodes=1"], linked=False) as network:
        first, second, stranger = network.nodes
        for node in (first, second):
            unlist = ["peers", "--home", str(node.home), "--remove", stranger.peer_id]
            subprocess.run(command(unlist), check=True, capture_output=True, env=clean_environment())
        stranger.launch()
        for node in (first, second):
            node.launch()
        for node in (first, second):
            node.await_ready()
        assert_goes_on([first, second])
        stranger.await_reason("no peer is connected")
        assert (peers_of(first), peers_of(second)) == ([second.peer_id], [first.peer_id])
        assert stranger.height() == 0


def peers_of(node: NetworkNode) -> list[str]:
    """The ids of those that its CometBFT is connected to."""
    connected = CometBFT(node.home, node.home).call("net_info")["peers"]
    return [peer["node_info"]["id"] for peer in connected]
