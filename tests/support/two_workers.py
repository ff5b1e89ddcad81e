"""Two workers of one node: one has answers ready, the other reads and asks for everything anew."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
from websockets.asyncio.client import ClientConnection

from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.api.rpc.block_methods import BlockMethods
from cairn.api.rpc.ready_answers import ReadyAnswers
from cairn.api.worker import make_server
from cairn.board import Board
from cairn.config import Settings
from cairn.core.gateway import ChainInfo
from cairn.core.link import LinkClient
from cairn.core.process import CoreProcess
from cairn.domain.genesis import dev_genesis
from cairn.domain.types import Account, Address, BlockHash, SealedBlock, TxHash
from tests.support.core_fixtures import CHAIN_ID, KEYS
from tests.support.event_client import connect_patiently
from tests.support.pace import PATIENCE_S
from tests.support.rest_server import Answer, Client, get, post
from tests.support.untold import untold_slowness

APPLICATION = "Content-Encoding: identity"
"""A header that leaves a request to the application, and changes nothing else."""
PAUSE_S = 0.002
LATE_S = 0.1
MOST_TRIES = 200
"""While blocks are made, the two workers may be asked about different ones."""


class PlainView(ChainView):
    """Keeps nothing, and does not know the board."""

    def is_at_head(self) -> bool:
        return False

    def account_at(self, address: Address, height: int) -> Account:
        self._accounts.clear()
        return super().account_at(address, height)

    def find_confirmed(self, tx_hash: TxHash) -> bytes | None:
        self._txs.clear()
        return super().find_confirmed(tx_hash)

    def find_block(self, block_hash: BlockHash) -> bytes | None:
        self._blocks.clear()
        return super().find_block(block_hash)


_find_ready, _find_small_block = ReadyAnswers.find, BlockMethods._find_small_block


def find_if_ready(self: ReadyAnswers, key: bytes) -> msgspec.Raw | None:
    return None if isinstance(self._view, PlainView) else _find_ready(self, key)


def find_if_small(self: BlockMethods, height: int, full: bool) -> msgspec.Raw | None:
    return None if isinstance(self._view, PlainView) else _find_small_block(self, height, full)


class HardOfHearing:
    """Passes the notices of new blocks on to a view, but late: until then it knows of them by the board alone."""

    def __init__(self, view: ChainView) -> None:
        self._view = view
        self._late: list[asyncio.TimerHandle] = []
        self.on_phase, self.on_dropped, self.on_arrived = view.on_phase, view.on_dropped, view.on_arrived

    def on_info(self, info: ChainInfo) -> None:
        # What is announced before is of another chain, perhaps.
        for notice in self._late:
            notice.cancel()
        self._late.clear()
        self._view.on_info(info)

    def on_commit(self, height: int, block: SealedBlock | None = None) -> None:
        self._late.append(asyncio.get_running_loop().call_later(LATE_S, self._view.on_commit, height, block))


class Asked:
    """A worker, and how a test asks it."""

    def __init__(self, client: Client, ws: ClientConnection, headers: tuple[str, ...]) -> None:
        self._client = client
        self._ws = ws
        self._headers = headers

    async def get(self, path: str) -> Answer:
        return _without_date(await self._client.ask(get(path, *self._headers)))

    async def post(self, body: bytes, path: str = "/rpc") -> Answer:
        return _without_date(await self._client.ask(post(body, *self._headers, path=path)))

    async def call_on_socket(self, body: bytes) -> bytes:
        """The answer to a message that has one."""
        await self._ws.send(body.decode())
        answer = await asyncio.wait_for(self._ws.recv(), PATIENCE_S)
        assert isinstance(answer, str)
        return answer.encode()

    async def call(self, method: str, *params: object) -> Any:
        answer = await self.post(message(method, *params))
        content = answer.json()
        assert "error" not in content, content
        return content["result"]


class Differs(AssertionError):
    """The worker that has answers ready does not answer as the other one."""


class TwoWorkers:
    def __init__(self, ready: Asked, plain: Asked, *views: ChainView) -> None:
        self.ready = ready
        self.plain = plain
        self._views = views

    async def compare(self, ask: "Callable[[Asked], Any]") -> None:
        """Ask both, the ready one between two equal answers of the other. Raises `Differs`."""
        for _ in range(MOST_TRIES):
            before = await ask(self.plain)
            found = await ask(self.ready)
            if before == await ask(self.plain):
                if found != before:
                    raise Differs(f"{found!r}\n\nbut the other worker answers\n\n{before!r}")
                return
        raise AssertionError("the answer changes all the time")

    async def agree_on_oldest(self) -> None:
        """Let both know which blocks were removed, until the next block; otherwise each learns that at its own time."""
        for worker in (self.ready, self.plain):
            await worker.call("eth_blockNumber")
        oldest = max(view.base for view in self._views)
        for view in self._views:
            view._reader().base = oldest

    async def settled(self) -> None:
        """Return once both serve, such as after a revert."""
        for worker in (self.ready, self.plain):
            async with asyncio.timeout(PATIENCE_S):
                while (await worker.get("/ready")).status != 200:
                    await asyncio.sleep(PAUSE_S)


def message(method: str, *params: object, **more: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params} | more)


def _without_date(answer: Answer) -> Answer:
    return answer._replace(headers={name: value for name, value in answer.headers.items() if name != "date"})


@asynccontextmanager
async def two_workers(directory: Path, chosen: Settings) -> AsyncIterator[TwoWorkers]:
    core_socket, board = directory / "core.sock", Board()
    lifeline, keep = os.pipe()
    core = asyncio.create_task(
        CoreProcess(dev_genesis(), directory / "data", chosen, KEYS, board=board).run(core_socket, lifeline)
    )
    try:
        with (
            untold_slowness(),
            patch.object(ReadyAnswers, "find", find_if_ready),
            patch.object(BlockMethods, "_find_small_block", find_if_small),
        ):
            async with AsyncExitStack() as stack:
                (directory / "ready").mkdir()
                (directory / "plain").mkdir()
                ready_view = ChainView(directory / "ready", CHAIN_ID, board=board)
                ready = await stack.enter_async_context(_worker(ready_view, chosen, core_socket))
                plain_view = PlainView(directory / "plain", CHAIN_ID)
                plain = await stack.enter_async_context(_worker(plain_view, chosen, core_socket, APPLICATION))
                workers = TwoWorkers(ready, plain, ready_view, plain_view)
                await workers.settled()
                yield workers
    finally:
        if not core.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await core
        asyncio.get_running_loop().remove_reader(lifeline)
        os.close(lifeline)
        os.close(keep)


@asynccontextmanager
async def _worker(view: ChainView, chosen: Settings, core_socket: Path, *headers: str) -> AsyncIterator[Asked]:
    hub = EventHub(view, chosen)
    view.subscribe(hub)
    link = LinkClient(core_socket, view if isinstance(view, PlainView) else HardOfHearing(view))
    server = make_server(link, view, hub, chosen)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    linking, serving = asyncio.create_task(link.run()), asyncio.create_task(server.serve(listener))
    client = Client(*await asyncio.open_connection("127.0.0.1", port, limit=2**24))
    try:
        async with asyncio.timeout(PATIENCE_S):
            while (await client.ask(get("/ready"))).status != 200:
                await asyncio.sleep(PAUSE_S)
        # About once a second it looks what is to be on every answer, which depends on the chain.
        server.sweep()
        async with connect_patiently(f"ws://127.0.0.1:{port}/rpc", compression=None, max_size=None) as ws:
            yield Asked(client, ws, headers)
    finally:
        client.close()
        server.stop()
        await serving
        linking.cancel()
        with suppress(asyncio.CancelledError):
            await linking
        view.close()
