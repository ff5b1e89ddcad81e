from collections.abc import Iterator

import pytest

from tests.support.node_process import NodeProcess


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "0.1", "--workers", "2") as node:
        yield node
