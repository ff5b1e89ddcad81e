"""The interface suite runs against the node at NODE_URL, or against a dev chain that it starts.

The node at NODE_URL is one of a dev chain, or, with NODE_ENGINE=cometbft, one of a network with the same accounts.
"""

import os
from collections.abc import Iterator

import pytest

from tests.support.node_process import NodeProcess
from tests.support.public import PublicNode


@pytest.fixture(scope="session")
def node() -> Iterator[PublicNode]:
    given = os.environ.get("NODE_URL")
    if given:
        public = PublicNode(given, os.environ.get("NODE_ENGINE", "embedded"))
        yield public
        public.close()
        return
    with NodeProcess.start_dev("--block-time", "0.2", "--workers", "2") as process:
        public = PublicNode(process.url)
        yield public
        public.close()
