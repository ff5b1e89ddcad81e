"""A node killed at each point between a decided block and the end of its commit, under load, again and again."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import altered_node
from tests.support.altered_node import CRASH_POINTS
from tests.support.network import Network
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.promises import assert_goes_on, under_load


@pytest.fixture(scope="module")
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    """Four validators that run."""
    with Network(scratch / "network", traced=True) as network:
        network.start()
        yield network


def crashing(alteration: str, directory: Path) -> list[str]:
    directory.mkdir()
    # -P: the modules beside it must not stand in for the standard library's.
    return [sys.executable, "-P", altered_node.__file__, alteration, str(directory)]


def points_reached(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_the_whole_node_killed_at_each_point(network: Network, scratch: Path) -> None:
    victim = network.nodes[3]
    program = crashing("crash-node", scratch / "nodes")
    with under_load(network):
        victim.kill()
        for number in range(len(CRASH_POINTS)):
            victim.launch(program)
            victim.await_gone()
            assert len(points_reached(scratch / "nodes")) == number + 1
        victim.start()
        assert_goes_on(network.nodes)
    assert points_reached(scratch / "nodes") == set(CRASH_POINTS)
    # The trace is held against the grammar at the end; it has all of these lives in it.
    first, *recoveries = victim.abci_runs()
    assert [call.name for call in first[:2]] == ["Info", "InitChain"]
    assert len(recoveries) > len(CRASH_POINTS)
    for calls in recoveries:
        assert calls[0].name == "Info"
        assert calls[0].height


def test_the_core_alone_killed_at_each_point(network: Network, scratch: Path) -> None:
    victim = network.nodes[3]
    program = crashing("crash-core", scratch / "cores")
    with under_load(network):
        victim.kill()
        victim.launch(program)
        for number in range(len(CRASH_POINTS)):
            wait_until(lambda: len(points_reached(scratch / "cores")) > number, PATIENCE_S, CRASH_POINTS[number])  # noqa: B023
        victim.await_ready()
        assert_goes_on(network.nodes)
