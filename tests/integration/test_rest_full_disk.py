"""A node whose disk is full takes nothing more in, and tells all that it has."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from cairn.api.app import make_api
from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.core.link import LinkClient
from cairn.core.process import CoreProcess
from cairn.domain.genesis import dev_genesis
from cairn.store import directory
from tests.support.core_fixtures import ACCOUNTS, KEYS, settings, signed
from tests.support.pace import PATIENCE_S
from tests.support.public import assert_problem
from tests.support.rest_node import body_of, hash_of

SENDER = "0x" + ACCOUNTS[0].hex()
PATHS = ["/block/latest", "/chain", "/mempool", "/blocks", f"/account/{SENDER}", f"/account/{SENDER}/txs"]


@asynccontextmanager
async def whole_node(tmp_path: Path) -> AsyncIterator[tuple[httpx.AsyncClient, LinkClient, ChainView]]:
    """A core that opens its store anew when it must, and a worker beside it, over their real link."""
    lifeline, keep = os.pipe()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    view = ChainView(scratch)
    core = asyncio.create_task(
        CoreProcess(dev_genesis(), tmp_path / "data", settings(), KEYS).run(tmp_path / "core.sock", lifeline)
    )
    client = LinkClient(tmp_path / "core.sock", view)
    link = asyncio.create_task(client.run())
    app = make_api(client, view, EventHub(view, settings()), settings()).app
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            await reached(view, "ready")
            yield http, client, view
    finally:
        view.close()
        link.cancel()
        with suppress(asyncio.CancelledError):
            await link
        os.kill(os.getpid(), signal.SIGTERM)
        await core
        asyncio.get_running_loop().remove_reader(lifeline)
        os.close(lifeline)
        os.close(keep)


async def reached(view: ChainView, phase: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while view.phase != phase or view.height < 0:
            await asyncio.sleep(0.01)


async def read_all(http: httpx.AsyncClient) -> dict[str, Any]:
    answers = {path: await http.get(path) for path in PATHS}
    assert {path: answer.status_code for path, answer in answers.items()} == dict.fromkeys(PATHS, 200)
    return {path: answer.json() for path, answer in answers.items()}


async def test_blocks_and_accounts_can_be_read_while_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with whole_node(tmp_path) as (http, client, view):
        for nonce in (0, 1, 9):
            assert (await http.post("/tx", json=body_of(signed(nonce)))).status_code == 200
            if nonce == 0:
                await client.mine()
        before = await read_all(http)
        level = before["/chain"]["mempool"]
        assert (level["pending"], level["queued"]) == (1, 1)
        monkeypatch.setattr(directory, "LEAST_FREE_BYTES", 1 << 62)
        assert (await http.get("/ready")).status_code == 503
        await reached(view, "unavailable")
        assert_problem(await http.post("/tx", json=body_of(signed(2))), 503, "STORE_UNAVAILABLE")
        assert await read_all(http) == before
        pending = await http.get(f"/tx/{hash_of(signed(1))}")
        assert pending.json()["status"] == "pending"
        assert_problem(await http.get(f"/tx/{hash_of(signed(5))}"), 503, "STORE_UNAVAILABLE")
        monkeypatch.undo()
        await reached(view, "ready")
        assert await read_all(http) == before
