"""A validator that starts with a key that its network does not know."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cometbft import BINARY
from tests.support.network import Network
from tests.support.pace import PATIENCE_S


@pytest.fixture(scope="module")
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    with Network(scratch / "network") as network:
        network.start()
        yield network


def another_key() -> str:
    made = subprocess.run([BINARY, "gen-validator"], capture_output=True, text=True, check=True)
    return json.dumps(json.loads(made.stdout)["Key"])


def test_a_validator_with_another_key_is_not_ready_until_its_key_is_back(network: Network) -> None:
    *_, victim = network.nodes
    key_file = victim.cometbft_config / "priv_validator_key.json"
    key = key_file.read_text()
    victim.stop()
    key_file.write_text(another_key())
    victim.launch()
    victim.await_reason("by another key")
    # It follows the chain all the same, and takes transactions in.
    victim.await_height(network.nodes[0].height(), PATIENCE_S)
    victim.stop()
    key_file.write_text(key)
    victim.start()
