"""The event channel over real sockets: what is asked and answered, and what is refused."""

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import pytest
from structlog.testing import capture_logs
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Opcode
from websockets.typing import Origin

from cairn.api.description.asyncapi import asyncapi_document
from cairn.config import Settings
from cairn.core.gateway import DroppedTx
from cairn.domain.errors import Corrupt, StoreUnavailable
from cairn.domain.types import TxHash
from tests.support.event_client import (
    ask,
    connect_raw,
    connect_to,
    read_to_the_end,
    receive,
    receive_many,
    say,
    upgrade_head,
    wait_for,
)
from tests.support.event_server import EventServer, MemoryChain, block_hash_of, event_server, hex_of, tx_hash_of

pytestmark = pytest.mark.uvloop

TX = hex_of(tx_hash_of(1))
DESCRIBED: dict[str, Any] = asyncapi_document()["components"]["messages"]


@pytest.fixture
async def server() -> AsyncIterator[EventServer]:
    async with event_server() as served:
        yield served


def new_block(height: int) -> dict[str, object]:
    return {"event": "newBlock", "blockHeight": height, "hash": hex_of(block_hash_of(height))}


def confirmed(number: int, height: int) -> dict[str, object]:
    return {"event": "txConfirmed", "txHash": hex_of(tx_hash_of(number)), "blockHeight": height}


def assert_described(message: dict[str, Any]) -> None:
    jsonschema.validate(message, DESCRIBED[message["event"]]["payload"])


async def test_each_request_is_answered_and_its_events_follow() -> None:
    async with event_server(MemoryChain(3)) as server, connect_to(server) as client:
        answer = await ask(client, action="subscribe", event="newBlock", fromHeight=1, id="a")
        assert answer == {"event": "subscribed", "subscription": "newBlock", "fromHeight": 1, "id": "a"}
        assert await receive_many(client, 2) == [new_block(1), new_block(2)]
        answer = await ask(client, action="subscribe", event="txConfirmed", txHash=TX, id=1)
        assert answer == {"event": "subscribed", "subscription": "txConfirmed", "txHash": TX, "id": 1}
        server.commit([tx_hash_of(0), tx_hash_of(1)])
        assert await receive_many(client, 2) == [new_block(3), confirmed(1, 3)]
        answer = await ask(client, action="unsubscribe", event="newBlock")
        assert answer == {"event": "unsubscribed", "subscription": "newBlock"}
        answer = await ask(client, action="unsubscribe", event="txConfirmed", txHash=TX.upper().replace("X", "x"))
        assert answer == {"event": "unsubscribed", "subscription": "txConfirmed", "txHash": TX}
        server.commit()
        # Confirmed already: told at once.
        await say(client, action="subscribe", event="txConfirmed", txHash=TX)
        assert [message["event"] for message in await receive_many(client, 2)] == ["subscribed", "txConfirmed"]


async def test_subscriptions_on_the_url_are_answered_and_told_in_order(server: EventServer) -> None:
    server.chain.append([tx_hash_of(1)])
    server.chain.append([tx_hash_of(2)])
    query = f"?txConfirmed={TX}&newBlock&fromHeight=1&txConfirmed={hex_of(tx_hash_of(2))}"
    async with connect_to(server, query) as client:
        messages = await receive_many(client, 7)
        for message in messages:
            assert_described(message)
        assert [message["event"] for message in messages[:3]] == ["subscribed"] * 3
        assert messages[3:] == [new_block(1), confirmed(1, 1), new_block(2), confirmed(2, 2)]


async def test_a_drop_before_or_after_following_is_reported(server: EventServer) -> None:
    server.core.statuses[tx_hash_of(1)] = DroppedTx("nonce used")
    async with connect_to(server, f"?txConfirmed={TX}&txConfirmed={hex_of(tx_hash_of(2))}") as client:
        await receive_many(client, 2)
        assert await receive(client) == {"event": "txDropped", "txHash": TX, "reason": "nonce used"}
        server.hub.on_dropped(tx_hash_of(2), "evicted")
        message = await receive(client)
        assert_described(message)
        assert message["reason"] == "evicted"


ERRORS: list[tuple[str | bytes, str, int]] = [
    ("{", "MALFORMED_JSON", 400),
    ("[]", "INVALID_FIELD", 400),
    ('{"action":"subscribe","event":"newBlock","fromHeight":-1}', "INVALID_FIELD", 400),
    ('{"action":"subscribe","event":"txConfirmed","txHash":"0x1"}', "INVALID_HASH", 400),
    (b'{"action":"subscribe","event":"newBlock"}', "UNSUPPORTED_MEDIA_TYPE", 415),
]


async def test_an_error_leaves_the_socket_open(server: EventServer) -> None:
    async with connect_to(server) as client:
        for message, code, status in ERRORS:
            await client.send(message)
            error = await receive(client)
            assert_described(error)
            assert (error["event"], error["code"], error["status"]) == ("error", code, status), message
        assert (await ask(client, action="subscribe", event="newBlock"))["event"] == "subscribed"


async def test_a_subscription_from_a_block_that_is_not_kept_is_refused_as_described(server: EventServer) -> None:
    server.chain.base = server.commit()
    async with connect_to(server) as client:
        error = await ask(client, action="subscribe", event="newBlock", fromHeight=0)
        assert_described(error)
        assert (error["event"], error["code"], error["status"]) == ("error", "BLOCK_NOT_KEPT", 404)


async def test_the_id_comes_back_with_an_error_too(server: EventServer) -> None:
    async with connect_to(server) as client:
        assert (await ask(client, action="shout", id=2**70))["id"] == 2**70
        assert "id" not in await ask(client, action="shout", id=None)


async def test_a_thousand_transactions_may_be_followed_and_one_more_is_refused(server: EventServer) -> None:
    async with connect_to(server) as client:
        for number in range(1_001):
            await say(client, action="subscribe", event="txConfirmed", txHash=hex_of(tx_hash_of(number)), id=number)
        answers = await receive_many(client, 1_001)
        assert [answer["id"] for answer in answers] == list(range(1_001))
        assert {answer["event"] for answer in answers[:-1]} == {"subscribed"}
        assert_described(answers[-1])
        assert (answers[-1]["code"], answers[-1]["status"]) == ("FOLLOW_LIMIT", 429)
        server.commit([tx_hash_of(number) for number in range(1_001)])
        assert await receive_many(client, 1_000) == [confirmed(number, 1) for number in range(1_000)]
        # Those have ended: there is room again.
        answer = await ask(client, action="subscribe", event="txConfirmed", txHash=hex_of(tx_hash_of(1_001)))
        assert answer["event"] == "subscribed"


async def test_a_request_while_the_store_is_unavailable_is_answered_with_an_error(server: EventServer) -> None:
    async with connect_to(server) as client:
        server.chain.broken = StoreUnavailable("the disk is full")
        error = await ask(client, action="subscribe", event="txConfirmed", txHash=TX)
        assert_described(error)
        assert error["code"] == "STORE_UNAVAILABLE"
        server.chain.broken = None
        assert (await ask(client, action="subscribe", event="txConfirmed", txHash=TX))["event"] == "subscribed"


class Failing(MemoryChain):
    """A chain with a mistake in it."""

    def find_location(self, tx_hash: TxHash) -> tuple[int, int] | None:
        raise ZeroDivisionError


async def test_a_failure_of_ours_ends_that_socket_with_1011() -> None:
    with capture_logs() as logged:
        async with (
            event_server(Failing()) as server,
            connect_to(server, "?newBlock") as other,
            connect_to(server) as client,
        ):
            await say(client, action="subscribe", event="txConfirmed", txHash=TX)
            assert await read_to_the_end(client) == ([], 1011)
            server.commit()
            assert [message["event"] for message in await receive_many(other, 2)] == ["subscribed", "newBlock"]
    assert [entry["event"] for entry in logged] == ["an event socket failed"]


async def test_damage_ends_the_socket_and_is_reported(server: EventServer) -> None:
    async with connect_to(server) as client:
        server.chain.broken = Corrupt("a byte is not what it was")
        await say(client, action="subscribe", event="txConfirmed", txHash=TX)
        assert await read_to_the_end(client) == ([], 1011)
        assert server.chain.failures == [server.chain.broken]


# Before the upgrade.


async def refusal(server: EventServer, head: str) -> tuple[int, dict[str, str], dict[str, Any]]:
    async with connect_raw(server) as client:
        status, headers, body = await client.request(head)
        assert headers["content-type"] == "application/problem+json"
        assert await client.reader.read() == b""
        problem: dict[str, Any] = json.loads(body)
        assert problem["status"] == status
        assert problem.keys() >= {"type", "title", "detail", "code"}
        return status, headers, problem


REFUSALS = [
    (upgrade_head("/events?oldBlock"), 400, "INVALID_QUERY"),
    (upgrade_head("/events?fromHeight=1"), 400, "INVALID_QUERY"),
    (upgrade_head("/events?txConfirmed=0x1"), 400, "INVALID_HASH"),
    (upgrade_head("/events?" + "&".join([f"txConfirmed={TX}"] * 4)), 429, "FOLLOW_LIMIT"),
    (upgrade_head("/events?" + "&".join([f"txConfirmed={TX}"] * 200)), 431, "HEADERS_TOO_LARGE"),
    (upgrade_head(Cookie="x" * 9_000), 431, "HEADERS_TOO_LARGE"),
    (upgrade_head(Origin="https://evil.example"), 403, "FORBIDDEN_ORIGIN"),
    (upgrade_head(Origin="null"), 403, "FORBIDDEN_ORIGIN"),
    (upgrade_head(Origin="https://evil.example\nOrigin: http://127.0.0.1"), 400, "MALFORMED_REQUEST"),
    (upgrade_head(Sec_WebSocket_Key=""), 400, "MALFORMED_REQUEST"),
    (upgrade_head(Sec_WebSocket_Key="short"), 400, "MALFORMED_REQUEST"),
    (upgrade_head(Sec_WebSocket_Version="8"), 400, "MALFORMED_REQUEST"),
    (upgrade_head().replace("GET", "PUT"), 405, "METHOD_NOT_ALLOWED"),
]


async def test_a_handshake_that_is_refused_gets_a_problem(caplog: pytest.LogCaptureFixture) -> None:
    async with event_server(settings=Settings(ws_max_followed=3)) as server:
        for head, status, code in REFUSALS:
            got, headers, problem = await refusal(server, head)
            assert (got, problem["code"]) == (status, code), head
            # What the server puts on every answer.
            assert headers["x-chain-id"] == "1337", head
    assert noteworthy(caplog) == []


def noteworthy(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What an operator would be shown as a warning or worse."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


class Unreadable(MemoryChain):
    @property
    def height(self) -> int:
        raise ZeroDivisionError


async def test_a_failure_of_ours_before_the_upgrade_is_a_problem_too() -> None:
    with capture_logs() as logged:
        async with event_server(Unreadable()) as server:
            status, headers, problem = await refusal(server, upgrade_head())
            assert (status, problem["code"]) == (500, "INTERNAL")
            assert headers["x-chain-id"] == "1337"
            assert "ZeroDivisionError" not in str(problem)
    assert [(entry["event"], entry["log_level"]) for entry in logged] == [("a WebSocket failed", "error")]


async def test_a_handshake_is_refused_while_the_node_starts_or_stops(caplog: pytest.LogCaptureFixture) -> None:
    async with event_server(MemoryChain(0)) as server:
        status, headers, problem = await refusal(server, upgrade_head())
        assert (status, problem["code"]) == (503, "STARTING")
        assert int(headers["retry-after"]) > 0
        server.commit()
        async with connect_to(server) as client:
            server.hub.close_all(1001)
            with pytest.raises(ConnectionClosed) as closed:
                await client.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
        with pytest.raises(InvalidStatus) as refused:
            await connect_to(server)
        assert json.loads(refused.value.response.body or b"")["code"] == "SHUTTING_DOWN"
    assert noteworthy(caplog) == []


@pytest.mark.parametrize("origin", ["http://{authority}", "https://page.example"])
async def test_a_page_of_an_allowed_origin_may_connect(origin: str) -> None:
    async with (
        event_server(settings=Settings(cors_origins=("https://page.example",))) as server,
        connect_to(server, origin=Origin(origin.format(authority=server.authority))) as client,
    ):
        assert (await ask(client, action="subscribe", event="newBlock"))["event"] == "subscribed"


async def test_frames_are_never_compressed(server: EventServer) -> None:
    async with connect_raw(server) as client:
        status, headers, _ = await client.upgrade(Sec_WebSocket_Extensions="permessage-deflate")
        assert status == 101
        assert "sec-websocket-extensions" not in headers


# Clients that break the rules, and clients that vanish.


BROKEN_RULES: list[tuple[list[tuple[bytes, Opcode, bool, bool]], int]] = [
    ([(b"x" * 17_000, Opcode.TEXT, True, True)], 1009),
    ([(b"x" * 10_000, Opcode.TEXT, False, True), (b"x" * 10_000, Opcode.CONT, True, True)], 1009),
    ([(b"\xff", Opcode.TEXT, True, True)], 1007),
    ([(b"{}", Opcode.TEXT, True, False)], 1002),
    ([(b"x" * 2_000_000, Opcode.BINARY, True, True)], 1009),
    ([(b"{}", Opcode.TEXT, False, True), *[(b"", Opcode.CONT, False, True)] * 3_000], 1008),
]


async def test_a_broken_rule_of_the_protocol_ends_the_socket_with_its_code(server: EventServer) -> None:
    for frames, code in BROKEN_RULES:
        async with connect_raw(server) as client:
            await client.upgrade()
            for frame in frames:
                client.send_frame(*frame)
            # The client is still sending, and yet the close frame must reach it.
            assert await client.read_close_code() == code
            assert await client.reader.read() == b""


async def test_a_message_in_fragments_is_one_message(server: EventServer) -> None:
    async with connect_to(server) as client:
        await client.send(['{"action":"subscribe",', '"event":"newBlock"', "}"])
        assert (await receive(client))["event"] == "subscribed"


async def test_a_client_that_vanishes_is_forgotten_and_others_are_served(server: EventServer) -> None:
    async with connect_to(server, "?newBlock") as client:
        assert (await receive(client))["event"] == "subscribed"
        for number in range(20):
            async with connect_raw(server) as gone:
                await gone.upgrade(f"/events?newBlock&fromHeight=0&txConfirmed={TX}")
                if number % 2:
                    gone.writer.write_eof()
            # Aborted here, while the node writes.
            server.commit()
        assert [message["blockHeight"] for message in await receive_many(client, 20)] == list(range(1, 21))
    await wait_for(lambda: not server.hub.is_followed(tx_hash_of(1)))


async def test_a_stop_closes_sockets_with_1001(server: EventServer) -> None:
    async with connect_to(server, "?newBlock") as client, connect_raw(server) as half:
        await receive(client)
        half.writer.write(b"GET /events HTTP/1.1\r\n")
        server.server.stop()
        with pytest.raises(ConnectionClosed) as closed:
            await receive(client)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
