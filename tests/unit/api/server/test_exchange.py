"""The application's side of a request: what it receives, and what becomes of the answers it should not give."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.testing import capture_logs

from cairn.api.chain_view import ChainView
from cairn.api.server.access import RateLimiter
from cairn.api.server.exchange import Exchange
from cairn.api.server.http_protocol import HttpProtocol
from cairn.api.server.server_state import ServerState
from cairn.config import Settings
from cairn.domain.errors import BlockNotKept
from cairn.time_shares import TimeShares
from tests.support.pace import PATIENCE_S
from tests.support.rest_server import Client, get, post

START: Message = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
BODY: Message = {"type": "http.response.body", "body": b"ok"}


class NoHotRoute:
    def find_read(self, target: bytes) -> None:
        return None

    def find(self, request: Exchange) -> None:
        return None

    def failed(self, request: Exchange, failure: BaseException) -> bytes:
        raise AssertionError("no route can fail")

    def refresh(self, common_lines: bytes) -> None:
        pass


def run_with(app: ASGIApp, scenario: Callable[[Client, ServerState], Awaitable[None]]) -> None:
    async def main() -> None:
        settings, view = Settings(), ChainView(Path("unused"), chain_id=7)
        limiter = RateLimiter(settings, lambda: 0.0)
        state = ServerState(view, app, NoHotRoute(), limiter, TimeShares(), settings)
        ours, theirs = socket.socketpair()
        await asyncio.get_running_loop().connect_accepted_socket(lambda: HttpProtocol(state), ours)
        client = Client(*await asyncio.open_connection(sock=theirs))
        try:
            await asyncio.wait_for(scenario(client, state), PATIENCE_S)
        finally:
            client.close()
            while state.tasks or state.connections:
                await asyncio.sleep(0.001)
        assert state.unanswered_bytes.taken == 0

    asyncio.run(main())


def saying(*messages: Message) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return app


def test_the_application_is_told_what_was_asked() -> None:
    asked: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope)
        await saying(START, BODY)(scope, receive, send)

    async def scenario(client: Client, _: ServerState) -> None:
        assert (await client.ask(get("/a%20b/c?d=%20e", "X-Y: Z"))).body == b"ok"
        assert (await client.ask(get("http://other/f?g"))).body == b"ok"

    run_with(app, scenario)
    first, second = asked
    assert (first["method"], first["http_version"], first["scheme"]) == ("GET", "1.1", "http")
    assert (first["path"], first["raw_path"], first["query_string"]) == ("/a b/c", b"/a%20b/c", b"d=%20e")
    assert first["headers"] == [(b"host", b"localhost"), (b"x-y", b"Z")]
    assert (second["path"], second["query_string"]) == ("/f", b"g")


def test_a_body_is_received_as_it_arrives_and_then_the_end() -> None:
    received: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while not received or received[-1]["more_body"]:
            received.append(await receive())
        await saying(START, BODY)(scope, receive, send)
        received.append(await receive())

    async def scenario(client: Client, state: ServerState) -> None:
        request = post(b"abcdef")
        client.write(request[:-3])
        while not received:
            await asyncio.sleep(0.001)
        assert (await client.ask(request[-3:])).body == b"ok"
        while state.tasks:
            await asyncio.sleep(0.001)

    run_with(app, scenario)
    assert b"".join(message["body"] for message in received[:-1]) == b"abcdef"
    assert received[-1] == {"type": "http.disconnect"}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [BODY],
        [{"type": "websocket.accept"}],
        [{**START, "headers": [(b"a", b"\n")]}],
        [START],
        [START, START],
        [START, {**BODY, "body": b"long"}],
        [START, {**BODY, "body": b"s"}],
    ],
)
def test_without_a_proper_beginning_the_client_gets_500_and_the_connection_ends(messages: list[Message]) -> None:
    async def scenario(client: Client, _: ServerState) -> None:
        client.write(get("/") * 2)
        answer = await client.answer()
        assert (answer.status, answer.json()["code"], answer.headers["connection"]) == (500, "INTERNAL", "close")
        assert answer.headers["x-chain-id"] == "7"
        assert await client.rest() == b""

    with capture_logs() as logged:
        run_with(saying(*messages), scenario)
    assert len(logged) == (messages not in ([], [START]))


@pytest.mark.parametrize("messages", [[], [START], [{**BODY, "body": b"long"}], [{**BODY, "body": b""}]])
def test_what_goes_wrong_within_an_answer_ends_the_connection_without_a_second_one(messages: list[Message]) -> None:
    messages = [START, {**BODY, "body": b"o", "more_body": True}, *messages]

    async def scenario(client: Client, _: ServerState) -> None:
        client.write(get("/") * 2)
        answers = await client.rest()
        assert answers.count(b"HTTP/1.1") == 1
        assert answers.endswith(b"\r\n\r\no")

    with capture_logs():
        run_with(saying(*messages), scenario)


def test_an_answer_without_a_length_ends_with_the_connection_for_an_old_client() -> None:
    start = {**START, "headers": []}

    async def scenario(client: Client, state: ServerState) -> None:
        client.write(get("/").replace(b"HTTP/1.1", b"HTTP/1.0"))
        head, _, body = (await client.rest()).partition(b"\r\n\r\n")
        assert b"connection: close" in head
        assert b"transfer-encoding" not in head
        assert body == b"okok"

    run_with(saying(start, {**BODY, "more_body": True}, BODY), scenario)


def test_an_answer_without_a_length_is_sent_in_chunks_and_the_connection_goes_on() -> None:
    start = {**START, "headers": []}

    async def scenario(client: Client, state: ServerState) -> None:
        client.write(get("/") * 2 + get("/", "Connection: close"))
        whole = b"\r\n\r\n2\r\nok\r\n2\r\nok\r\n0\r\n\r\n"
        answers = await client.rest()
        assert answers.count(whole) == answers.count(b"transfer-encoding: chunked") == 3
        assert answers.count(b"connection: close") == 1

    run_with(saying(start, {**BODY, "more_body": True}, {**BODY, "body": b"", "more_body": True}, BODY), scenario)


@pytest.mark.parametrize("how", [None, KeyError, BlockNotKept, asyncio.CancelledError, "abort"])
def test_an_answer_in_chunks_that_is_cut_has_no_last_chunk(how: type[BaseException] | str | None) -> None:
    """It ends early, raises, its block is pruned, it is given up; or a stop or a slow client cuts the connection."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await saying({**START, "headers": []}, {**BODY, "more_body": True})(scope, receive, send)
        if isinstance(how, type):
            raise how("in the middle")
        if how == "abort":
            exchange: Exchange = send.__self__  # type: ignore[attr-defined]
            exchange.connection.transport.abort()
            await asyncio.sleep(0)
            await saying(BODY)(scope, receive, send)

    async def scenario(client: Client, state: ServerState) -> None:
        client.write(get("/") * 2)
        assert (await client.rest()).endswith(b"\r\n\r\n2\r\nok\r\n")

    with capture_logs():
        run_with(app, scenario)


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_needs_no_length(status: int) -> None:
    async def scenario(client: Client, state: ServerState) -> None:
        for _ in range(2):
            answer = await client.ask(get("/"))
            assert (answer.status, "connection" in answer.headers) == (status, False)

    run_with(saying({**START, "status": status, "headers": []}, {**BODY, "body": b""}), scenario)
