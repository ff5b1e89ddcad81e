"""One dev chain for the libraries. It makes empty blocks too: some wait for the next block before they look again."""

from collections.abc import Iterator

import pytest

from tests.support.node_process import NodeProcess


@pytest.fixture(scope="session")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "0.3", "--empty-blocks", "--workers", "2") as process:
        yield process
