"""A worker's server, for every test that asks for one."""

from collections.abc import AsyncIterator

import pytest

from tests.support.rest_server import RestServer, rest_server


@pytest.fixture
async def server() -> AsyncIterator[RestServer]:
    async with rest_server() as served:
        yield served
