"""Networks for the tests: their homes have short paths, since they hold unix sockets."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.network import Network, scratch_parent


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cairn-net-", dir=scratch_parent()) as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    """Four validators that run."""
    with Network(scratch / "network", traced=True) as network:
        network.start()
        yield network
