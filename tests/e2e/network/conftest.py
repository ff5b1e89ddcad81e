"""Where the networks of the tests live: their homes have short paths, since they hold unix sockets."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scratch import scratch_parent


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cairn-net-", dir=scratch_parent()) as directory:
        yield Path(directory)
