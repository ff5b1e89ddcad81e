"""Who makes the blocks changes under load: a fifth validator comes, the first one goes, and the votes count so."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cairn.domain.genesis import DEV_KEYS
from tests.support.network import Network, NetworkNode
from tests.support.node_process import clean_environment, command, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.promises import assert_goes_on, under_load

RECIPIENTS = [f"0x{number:040x}" for number in range(0xFEE1, 0xFEE6)]
SETTLED_BLOCKS = 3
"""An update counts from the second block after the one that holds it."""


@pytest.fixture(scope="module")
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    """Four validators, each with its own account for fees, and a full node."""
    args = ["--full-nodes=1", *(f"--fee-recipient={recipient}" for recipient in RECIPIENTS[:4])]
    with Network(scratch / "network", args=args, traced=True) as network:
        network.start()
        yield network


@pytest.fixture(scope="module")
def keys(scratch: Path) -> list[Path]:
    """Files with the keys of the first dev accounts; three of them are administrators."""
    files = []
    for number, (_, key) in enumerate(DEV_KEYS[:4]):
        file = scratch / f"{number}.key"
        file.touch(mode=0o600)
        file.write_text(key.hex())
        files.append(file)
    return files


def change(node: NetworkNode, *args: str, keys: list[Path]) -> subprocess.CompletedProcess[str]:
    key_files = [f"--key-file={file}" for file in keys]
    return subprocess.run(
        command(["validators", *args, *key_files, f"--node={node.url}", f"--timeout={PATIENCE_S}"]),
        capture_output=True,
        text=True,
        env=clean_environment(),
    )


def names(node: NetworkNode) -> list[str]:
    return sorted(validator["name"] for validator in node.public.read("/validators")["validators"])


def told_changes(node: NetworkNode) -> list[Any]:
    """What the node's log says of changes of validators."""
    assert node.process is not None
    return [json.loads(line) for line in node.process.stderr.splitlines() if "the validators change" in line]


def proposers(node: NetworkNode, first: int) -> set[str]:
    """Whose blocks the chain has from `first` on."""
    return {block["proposer"].lower() for block in node.blocks(first, node.height())}


def await_proposers(node: NetworkNode, first: int, expected: set[str]) -> None:
    wait_until(
        lambda: proposers(node, first) >= expected, PATIENCE_S, f"blocks of {expected}: {proposers(node, first)}"
    )
    assert proposers(node, first) == expected


def test_a_change_needs_its_administrators(network: Network, keys: list[Path]) -> None:
    node = network.nodes[1]
    for signers in ([keys[0]], [keys[0], keys[3]]):
        refused = change(node, "remove", "--name=node0", keys=signers)
        assert refused.returncode != 0
        assert "refused" in refused.stderr
    assert names(node) == ["node0", "node1", "node2", "node3"]


def test_a_fifth_validator_comes_and_the_first_one_goes(network: Network, keys: list[Path]) -> None:
    first, *others = network.nodes
    with under_load(network):
        added = change(
            first, "add", f"--home={others[3].home}", f"--fee-recipient={RECIPIENTS[4]}", keys=[keys[0], keys[1]]
        )
        assert added.returncode == 0, added.stderr
        assert_goes_on(network.nodes)
        await_proposers(first, first.height() + SETTLED_BLOCKS, set(RECIPIENTS))
        removed = change(others[3], "remove", "--name=node0", keys=[keys[1], keys[2]])
        assert removed.returncode == 0, removed.stderr
        assert_goes_on(network.nodes)
        for node in network.nodes:
            assert names(node) == ["node1", "node2", "node3", "node4"]
            [came, went] = told_changes(node)
            assert (came["added"][0].split()[0], came["removed"]) == ("node4", [])
            assert (went["added"], went["removed"]) == ([], ["node0"])
        await_proposers(first, first.height() + SETTLED_BLOCKS, set(RECIPIENTS[1:]))
        # Five nodes of which two are gone: more than two thirds of the votes only if the first has none any more.
        first.kill()
        others[0].kill()
        assert_goes_on(others[1:])
        first.start()
        others[0].start()
