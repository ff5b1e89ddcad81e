"""Two processes sign with one validator's key: every node says so, by name, and goes on saying it."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.network import Network, NetworkNode
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.ports import free_ports
from tests.support.promises import assert_goes_on
from tests.support.public import get_anew
from tests.support.steady_load import SteadyLoad

PER_SECOND = 5
"""Transfers through each of the two, so that what they propose differs."""
TOLD = "a validator broke the rules of consensus"


@pytest.fixture(scope="module")
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    """Four validators, and a copy of the last one: another home with another p2p key, and no memory of its votes."""
    with Network(scratch / "network", args=["--full-nodes=1"], linked=False) as network:
        *_, victim, twin = network.nodes
        key_file = "priv_validator_key.json"
        (twin.cometbft_config / key_file).write_bytes((victim.cometbft_config / key_file).read_bytes())
        [port] = free_ports(1)
        network.nodes[0].set(metrics_port=port)
        network.start()
        yield network


def evidence(node: NetworkNode) -> list[dict[str, Any]]:
    return list(node.public.read("/validators")["evidence"])


def counted_evidence(node: NetworkNode) -> int:
    """As its metrics say, which the alert CairnEvidence goes by."""
    url = json.loads((node.home / "running.json").read_text())["metricsUrl"]
    [count] = re.findall(r"^cairn_evidence_total (\d+)$", get_anew(url).text, re.MULTILINE)
    return int(count)


def is_told(node: NetworkNode, name: str) -> bool:
    """Whether a line of its log names who broke the rules."""
    assert node.process is not None
    return any(TOLD in line and name in line.partition(TOLD)[2] for line in node.process.stderr.splitlines())


def missed(node: NetworkNode, name: str) -> int:
    validators = node.public.read("/validators")["validators"]
    return int(next(each["missedBlocks"] for each in validators if each["name"] == name))


def test_every_node_tells_who_signs_twice_and_who_is_missing(network: Network) -> None:
    first, second, _, victim, twin = network.nodes
    assert counted_evidence(first) == 0
    with SteadyLoad([victim.url, twin.url], PER_SECOND):
        wait_until(lambda: bool(evidence(first)), PATIENCE_S, "evidence in a block")
    twin.kill()
    assert_goes_on([first, second])
    told = evidence(first)
    assert {(piece["name"], piece["kind"]) for piece in told} == {("node3", "duplicateVote")}
    height = first.height()
    assert all(1 <= piece["blockHeight"] <= height for piece in told)
    assert len({piece["address"] for piece in told}) == 1
    wait_until(lambda: evidence(second) == evidence(first), PATIENCE_S, "the same evidence")
    wait_until(lambda: counted_evidence(first) == len(evidence(first)), PATIENCE_S, "the evidence in the metrics")
    for node in (first, second):
        wait_until(partial(is_told, node, "node3"), PATIENCE_S, f"node {node.index} to log it")
    # It is part of the state, so it is there after a restart.
    second.stop()
    second.start()
    wait_until(lambda: evidence(second) == evidence(first), PATIENCE_S, "the same evidence after a restart")
    before = missed(first, "node3")
    victim.kill()
    wait_until(lambda: missed(first, "node3") > before, PATIENCE_S, "a missing vote of node3")
    victim.start()
