"""A core whose answers a test writes: for what a real one does only when it is stuck or broken."""

import asyncio
from asyncio import Future
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import httpx
import msgspec

from cairn.api.app import make_api
from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.config import Settings
from cairn.core.calls import Method, methods_of
from cairn.core.gateway import Admission, ChainInfo, CoreGateway, DevCalls, PendingPage, TxStatus, not_dev_chain
from cairn.domain.answers import Checks
from cairn.domain.errors import NodeError, StoreUnavailable
from cairn.domain.types import Address, Tx, TxHash

INFO = ChainInfo(
    chain_id=1337,
    gas_price=10**9,
    block_gas_limit=210_000_000,
    max_data_bytes=256,
    engine="embedded",
    store_path="",
    signs_for=[],
)
DEV_METHODS = list(methods_of(DevCalls))
_A = TypeVar("_A")


class ScriptedGateway(CoreGateway):
    def __init__(self) -> None:
        self.checks: Checks | NodeError = Checks("ok", "ok")
        self.check_delay_s = 0.0
        self.tx_status: TxStatus | None = None
        """Of every transaction."""
        self.checked = 0
        self.is_watched = False
        """Whether it was asked to tell of arrivals."""
        self.submitted: list[tuple[Tx, Future[Admission]]] = []
        """Each waits until the test answers it."""

    def submit(self, tx: Tx) -> "Future[Admission]":
        future: Future[Admission] = asyncio.get_running_loop().create_future()
        self.submitted.append((tx, future))
        return future

    def admit_all(self) -> None:
        for tx, future in self.submitted:
            if not future.done():
                future.set_result(Admission(tx.hash))

    async def perform(self, method: Method[_A], request: msgspec.Struct) -> _A:
        if method in DEV_METHODS:
            raise not_dev_chain()
        raise StoreUnavailable("scripted: not here")

    async def check(self) -> Checks:
        self.checked += 1
        await asyncio.sleep(self.check_delay_s)
        if isinstance(self.checks, NodeError):
            raise self.checks
        return self.checks

    async def find_tx(self, tx_hash: TxHash) -> TxStatus | None:
        return self.tx_status

    async def list_pending(self, limit: int, after: str | None, sender: Address | None) -> PendingPage:
        return PendingPage([], 0, None)

    def watch_arrivals(self, on: bool) -> None:
        self.is_watched = on


def request(
    method: str,
    path: str,
    gateway: CoreGateway | None = None,
    view: ChainView | None = None,
    settings: Settings | None = None,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
) -> httpx.Response:
    """One request to the application, without a server. In names of headers, `_` is `-`."""
    view, settings = view or ChainView(Path("unused"), chain_id=INFO.chain_id), settings or Settings()
    app = make_api(gateway or ScriptedGateway(), view, EventHub(view, settings), settings).app
    named = {name.replace("_", "-"): value for name, value in (headers or {}).items()}

    async def main() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            return await http.request(method, path, headers=named, content=content)

    return asyncio.run(main())
