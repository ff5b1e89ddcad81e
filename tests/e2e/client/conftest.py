from collections.abc import Iterator

import pytest

from cairn.client import AsyncClient
from cairn.client.transport import Amounts
from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "0.01", "--workers", "2") as node:
        yield node


def patient(url: str, amounts: Amounts = "number") -> AsyncClient:
    """A client that never takes the node for dead because the machine is busy."""
    return AsyncClient(url, timeout_s=PATIENCE_S, silence_timeout_s=PATIENCE_S, amounts=amounts)
