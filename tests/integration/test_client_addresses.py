"""What clients share is counted by the address that each comes from, on every way to it."""

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect

from cairn.api.events import subscribers
from cairn.api.rpc import subscriptions
from cairn.core import filters
from cairn.core.gateway import FilterKind
from tests.support.event_client import ask, connect_patiently
from tests.support.event_server import event_server, hex_of, tx_hash_of
from tests.support.rest_node import rest_node
from tests.support.rest_server import rest_server

HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"
PLACES = 4
"""Of these, one client gets two."""


def connect_from(address: str, port: int, path: str) -> connect:
    # The system takes the connection without the server, so this does not block.
    raw = socket.create_connection((HERE, port), source_address=(address, 0))
    raw.setblocking(False)
    return connect_patiently(f"ws://{HERE}:{port}{path}", sock=raw)


async def call(client: ClientConnection, method: str, *params: object) -> Any:
    return await ask(client, jsonrpc="2.0", id=1, method=method, params=params)


async def test_the_filters_of_one_client_leave_some_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "MAX_FILTERS", PLACES)
    async with rest_node(tmp_path) as node:
        taken = []
        for address in ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2"):
            transport = httpx.ASGITransport(node.app, client=(address, 5))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                answer = await http.post("/rpc", json={"jsonrpc": "2.0", "id": 1, "method": "eth_newBlockFilter"})
            taken.append("result" in answer.json())
        assert taken == [True, True, False, True]


async def test_the_filters_of_a_socket_are_those_of_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = []

    async def create_filter(kind: FilterKind, client: str) -> str:
        clients.append(client)
        return "0x1"

    async with rest_server() as server:
        monkeypatch.setattr(server.core, "create_filter", create_filter)
        for address in (HERE, ELSEWHERE):
            async with connect_from(address, server.port, "/rpc") as client:
                assert (await call(client, "eth_newBlockFilter"))["result"] == "0x1"
        assert clients == [HERE, ELSEWHERE]


async def test_the_pending_transactions_of_one_client_leave_some_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_PLACES", PLACES)
    async with rest_server() as server:
        async with (
            connect_from(HERE, server.port, "/rpc") as first,
            connect_from(HERE, server.port, "/rpc") as second,
            connect_from(ELSEWHERE, server.port, "/rpc") as other,
        ):
            answers = [
                await call(client, "eth_subscribe", "newPendingTransactions")
                for client in (first, second, second, other)
            ]
        assert ["result" in answer for answer in answers] == [True, True, False, True]


async def test_transactions_followed_by_one_client_leave_some_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribers, "MAX_FOLLOWED", PLACES)
    async with event_server() as server:
        port: int = server.listener.getsockname()[1]
        async with (
            connect_from(HERE, port, "/events") as first,
            connect_from(HERE, port, "/events") as second,
            connect_from(ELSEWHERE, port, "/events") as other,
        ):
            answers = [
                await ask(client, action="subscribe", event="txConfirmed", txHash=hex_of(tx_hash_of(number)))
                for number, client in enumerate((first, second, second, other))
            ]
        assert [answer["event"] for answer in answers] == ["subscribed", "subscribed", "error", "subscribed"]
        assert answers[2]["code"] == "FOLLOW_LIMIT"
