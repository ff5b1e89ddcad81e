"""What is refused or has ended is freed at once. What waits for the garbage collector makes everybody wait for that."""

import asyncio
import gc
import json
from typing import TypeVar

import msgspec
import pytest

from cairn.api.server.connection_slots import ConnectionSlot
from cairn.api.server.http_protocol import HttpProtocol
from cairn.api.server.request_reader import RequestReader
from cairn.core.calls import Method
from cairn.core.gateway import Admission
from cairn.domain.errors import NonceTooLow, StoreUnavailable
from cairn.domain.transactions import encode_tx
from cairn.domain.types import Tx
from tests.support.core_fixtures import signed
from tests.support.rest_node import body_of
from tests.support.rest_server import RestServer, get, post, post_tx, rest_server
from tests.support.scripted_gateway import ScriptedGateway

_A = TypeVar("_A")


class RefusingGateway(ScriptedGateway):
    """Refuses as the link does: with futures whose error comes later."""

    def submit(self, tx: Tx) -> "asyncio.Future[Admission]":
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Admission] = loop.create_future()
        loop.call_soon(answer.set_exception, NonceTooLow("refused"))
        return answer

    async def perform(self, method: Method[_A], request: msgspec.Struct) -> _A:
        return await self._refusal()

    def _refusal(self) -> "asyncio.Future[_A]":
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_A] = loop.create_future()
        loop.call_soon(answer.set_exception, StoreUnavailable("refused"))
        return answer


def call(method: str, *params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


RAW = "0x" + encode_tx(signed(0), 1337).hex()
ADDRESS = "0x" + "11" * 20
WITHOUT_NONCE = {name: value for name, value in body_of(signed(0)).items() if name != "nonce"}
REQUESTS = {
    "a transaction": post_tx(signed(0)),
    "a transaction without a nonce": post(json.dumps(WITHOUT_NONCE).encode()),
    "a batch of transactions": post(json.dumps([body_of(signed(0)), WITHOUT_NONCE]).encode(), path="/txs"),
    "a malformed body": post(b"{"),
    "an unknown path": get("/unknown"),
    "an unknown transaction": get("/tx/0x" + "11" * 32),
    "an account": get(f"/account/{ADDRESS}"),
    "the mempool of nobody": get("/mempool?from=nobody"),
    "the validators": get("/validators"),
    "an update of the validators": post(b"{}", path="/validators"),
    "a raw transaction": post(json.dumps(call("eth_sendRawTransaction", RAW)).encode(), path="/rpc"),
    "a raw transaction to wait for": post(json.dumps(call("eth_sendRawTransactionSync", RAW)).encode(), path="/rpc"),
    "a call": post(json.dumps(call("txpool_status")).encode(), path="/rpc"),
    "a batch of calls": post(
        json.dumps([call("txpool_content"), call("eth_sendRawTransaction", RAW), call("unknown")]).encode(), path="/rpc"
    ),
}  # fmt: skip


@pytest.mark.parametrize("request_bytes", REQUESTS.values(), ids=REQUESTS.keys())
@pytest.mark.uvloop
async def test_the_error_for_a_refused_request_is_freed_without_the_garbage_collector(
    monkeypatch: pytest.MonkeyPatch, request_bytes: bytes
) -> None:
    monkeypatch.setattr("tests.support.rest_server.ScriptedGateway", RefusingGateway)
    async with rest_server() as server, server.client() as client:
        # The first may import something.
        await client.ask(request_bytes)
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                assert b"code" in (await client.ask(request_bytes)).body
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            assert [repr(left) for left in gc.garbage if isinstance(left, BaseException)] == []
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()


ANSWERED = {
    "a probe": get("/health"),
    "a page of blocks": get("/blocks"),
    "a call": post(json.dumps(call("eth_chainId")).encode(), path="/rpc"),
    "an unknown path": get("/unknown"),
    "half a request": b"GET /health HTTP/1.1\r\nHost:",
}


@pytest.mark.parametrize("request_bytes", ANSWERED.values(), ids=ANSWERED.keys())
@pytest.mark.uvloop
async def test_a_connection_that_has_ended_is_freed_without_the_garbage_collector(
    server: RestServer, request_bytes: bytes
) -> None:
    async def connect(server: RestServer) -> None:
        async with server.client() as client:
            client.write(request_bytes)
            client.finish()
            await client.rest()
        await server.no_connections()

    await connect(server)
    gc.collect()
    gc.disable()
    try:
        await connect(server)
        left = [
            repr(each) for each in gc.get_objects() if isinstance(each, HttpProtocol | RequestReader | ConnectionSlot)
        ]
        assert left == []
    finally:
        gc.enable()
