from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.abci_node import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path / "data")
    yield made
    made.close()
