"""A page of the mempool in several calls to the core is the page that one call would give."""

import asyncio
from pathlib import Path

import pytest

from cairn.api import mempool_pages
from cairn.api.mempool_pages import list_pending
from tests.support.core_fixtures import opened_core, signed


@pytest.mark.parametrize("at_once", [1, 3, 4, 100])
def test_it_is_as_in_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(mempool_pages, "ASKED_AT_ONCE", at_once)

    async def main() -> None:
        async with opened_core(tmp_path) as core:
            await asyncio.gather(*(core.submit(signed(nonce)) for nonce in range(10)))
            for limit in (1, 4, 9, 10, 50):
                assert await list_pending(core, limit, None, None) == await core.list_pending(limit, None, None)

    asyncio.run(main())
