"""A node in the test's own process, for every test that asks for one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.rest_node import RestNode, rest_node


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RestNode]:
    async with rest_node(tmp_path) as started:
        yield started
