"""Nodes killed, parted and frozen under load: the rest goes on while it may, and nothing is lost, doubled or forked."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.network import Network, NetworkNode
from tests.support.pace import Pace
from tests.support.promises import assert_goes_on, under_load

HALT_AFTER_S = 4
HALTED_S = 5
STILL_HALTED_S = 7
LATE_BLOCKS = 3
"""A process that stood still may yet pass on votes of those that are gone, and so end a block that was under way."""
RECOVERY_S = 10
"""From the return of what was missing to the next block."""


@pytest.fixture(scope="module")
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    """Four validators that soon say when there are no blocks any more."""
    with Network(scratch / "network", traced=True) as network:
        network.set(halt_after_s=HALT_AFTER_S)
        network.start()
        yield network


def assert_halts(nodes: Sequence[NetworkNode]) -> int:
    """No block is made any more, and each node says that it is not ready, and why. Returns the height."""
    for _ in range(LATE_BLOCKS + 1):
        for node in nodes:
            node.await_silence(HALTED_S)
        heights = [node.height() for node in nodes]
        for node in nodes:
            node.await_silence(STILL_HALTED_S)
        if [node.height() for node in nodes] == heights:
            return max(heights)
    raise AssertionError(f"blocks are still made: {heights} and then {[node.height() for node in nodes]}")


@contextmanager
def assert_recovers(network: Network, nodes: Sequence[NetworkNode], height: int) -> Iterator[None]:
    """What happens in the `with` block brings these nodes a block above `height` within the time that is promised."""
    with Pace(network.is_paused) as pace:
        began = time.monotonic()
        yield
        nodes[0].await_height(height + 1)
        took_s = time.monotonic() - began
    assert took_s < pace.stretch(RECOVERY_S)
    for node in nodes:
        node.await_ready()


def test_with_one_validator_killed_commits_go_on(network: Network) -> None:
    *others, victim = network.nodes
    with under_load(network):
        victim.kill()
        assert_goes_on(others)
        victim.start()
        assert_goes_on(network.nodes)


def test_with_two_killed_there_is_no_commit_until_one_returns(network: Network) -> None:
    first, second, third, fourth = network.nodes
    with under_load(network):
        third.kill()
        fourth.kill()
        height = assert_halts([first, second])
        with assert_recovers(network, [first, second, third], height):
            third.launch()
        fourth.start()


def test_halves_that_are_parted_stand_still_until_they_meet(network: Network) -> None:
    with under_load(network):
        network.split([0, 1], "cut")
        height = assert_halts(network.nodes)
        with assert_recovers(network, network.nodes, height):
            network.heal()


@pytest.mark.parametrize("state", ["cut", "held"])
def test_a_node_cut_off_alone_stands_still_and_catches_up(network: Network, state: str) -> None:
    *others, lonely = network.nodes
    with under_load(network):
        network.split([lonely.index], "cut" if state == "cut" else "held")
        assert_goes_on(others)
        lonely.await_not_ready()
        network.heal()
        lonely.await_ready()
        assert_goes_on(network.nodes)


def test_a_frozen_node_stops_nobody_and_catches_up(network: Network) -> None:
    frozen, *others = network.nodes
    with under_load(network):
        frozen.freeze()
        try:
            # Each validator's turn comes twice, also that of the frozen one.
            assert_goes_on(others)
            assert_goes_on(others)
        finally:
            frozen.thaw()
        frozen.await_ready()
        assert_goes_on(network.nodes)
