"""What clients have sent and nobody has answered yet is bounded, for all and for each, and is let go."""

import asyncio
import gc
import os
import struct
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import cast

import pytest

from cairn import memory
from cairn.api import chain_view
from cairn.api.rpc.dispatch import Dispatcher
from cairn.api.server import http_server as server_module
from cairn.api.server.client_budgets import UNCOUNTED_BYTES, ClientBudget, ReceivedBytes
from cairn.api.server.websocket_protocol import EventsProtocol
from cairn.config import Settings
from cairn.domain.errors import TooManyUnansweredBytes
from tests.support.core_fixtures import signed
from tests.support.rest_server import CONFIRMED, Answer, Client, RestServer, get, post, post_tx, rest_server, wait_until

pytestmark = pytest.mark.uvloop

KIB = 1_024
SMALL = replace(Settings(), workers=1, max_unanswered_bytes=256 * KIB)
"""One client gets 128 KiB of it. Four bodies of the largest size would not fit, which only `load_settings` refuses."""
KNOWN = get(f"/tx/0x{CONFIRMED.hash.hex()}")
OTHER = "127.0.0.2"
UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


def unfinished(size_bytes: int, path: str = "/txs") -> bytes:
    """A request without the last byte of its body."""
    return post(b" " * size_bytes, path=path)[:-1]


def assert_refused(answer: Answer) -> None:
    assert (answer.status, answer.json()["code"]) == (503, "TOO_MANY_UNANSWERED_BYTES")
    assert int(answer.headers["retry-after"]) > 0
    assert answer.headers["connection"] == "close"


# The account of one connection.


def test_a_small_request_is_not_counted() -> None:
    shares = ClientBudget(10)
    ReceivedBytes(shares, "192.0.2.1").hold(UNCOUNTED_BYTES)
    assert shares.taken == 0


def test_what_a_connection_holds_is_counted_from_there_on_and_given_back() -> None:
    shares = ClientBudget(1_000)
    received = ReceivedBytes(shares, "192.0.2.1")
    for size, taken in ((UNCOUNTED_BYTES + 100, 100), (UNCOUNTED_BYTES + 300, 300), (UNCOUNTED_BYTES + 1, 1), (0, 0)):
        received.hold(size)
        assert shares.taken == taken


def test_a_client_holds_at_most_as_much_as_is_free_over_all_its_connections() -> None:
    shares = ClientBudget(1_000)
    first, second, other = (ReceivedBytes(shares, client) for client in ("192.0.2.1", "192.0.2.1", "192.0.2.2"))
    first.hold(UNCOUNTED_BYTES + 300)
    second.hold(UNCOUNTED_BYTES + 200)
    with pytest.raises(TooManyUnansweredBytes):
        second.hold(UNCOUNTED_BYTES + 201)
    assert shares.taken == 500, "what it had, it has"
    other.hold(UNCOUNTED_BYTES + 250)
    with pytest.raises(TooManyUnansweredBytes):
        other.hold(UNCOUNTED_BYTES + 251)


def test_a_connection_of_a_proxy_counts_for_the_client_that_asks_now() -> None:
    shares = ClientBudget(1_000)
    first, second = ReceivedBytes(shares, "192.0.2.9"), ReceivedBytes(shares, "192.0.2.9")
    first.hold(UNCOUNTED_BYTES + 400)
    first.move_to("192.0.2.1")
    second.hold(UNCOUNTED_BYTES + 300)
    assert shares.taken == 700
    with pytest.raises(TooManyUnansweredBytes):
        second.move_to("192.0.2.1")
    first.hold(0)
    assert shares.taken == 0, "nothing is left of what was refused"


# On the wire; `rest_server` looks whether anything is still counted at the end.


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_unfinished_bodies_of_one_client_are_refused_and_another_is_served(is_chunked: bool) -> None:
    async with rest_server(SMALL) as server:
        request = unfinished(40 * KIB)
        if is_chunked:
            head, _, body = request.partition(b"\r\n\r\n")
            head = head.replace(b"Content-Length: 40960", b"Transfer-Encoding: chunked")
            request = head + b"\r\n\r\na000\r\n" + body
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(server.client()) for _ in range(10)]
            for client in clients:
                client.write(request)
            await server.heard(len(clients) * len(request))
            assert 20 * KIB < server.held_bytes <= 128 * KIB
            # The same client's small requests, and another's of any size.
            async with server.client() as small, server.client(address=OTHER) as other:
                small.write(post_tx(signed(0)))
                await server.submissions(1)
                server.core.admit_all()
                assert (await small.answer()).status == 200
                assert (await other.ask(post(b"[" + b" " * 40 * KIB + b"]", path="/txs"))).status == 200
                assert (await other.ask(KNOWN)).status == 200
            server.pass_time(11)
            await wait_until(lambda: server.held_bytes == 0)
            answers = [await client.answer() for client in clients]
            # What is refused counts until the application has heard of it, so it may be a single one.
            late = [answer for answer in answers if answer.status == 408]
            assert 1 <= len(late) < len(clients) / 2
            for answer in answers:
                if answer not in late:
                    assert_refused(answer)


async def test_a_refused_body_is_not_executed() -> None:
    async with rest_server(SMALL) as server, server.client() as holding, server.client() as client:
        holding.write(unfinished(120 * KIB))
        await server.heard(120 * KIB)
        padded = post_tx(signed(0)).partition(b"\r\n\r\n")[2] + b" " * 100 * KIB
        client.write(post(padded))
        assert_refused(await client.answer())
        assert server.core.submitted == []


async def test_large_heads_are_counted() -> None:
    async with rest_server(SMALL) as server:
        head = get("/", "X-Filler: " + "x" * 60 * KIB)
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(server.client()) for _ in range(5)]
            for count, client in enumerate(clients[:3], 1):
                client.write(head[:-4])
                await server.heard(count * len(head[:-4]))
            clients[3].write(head[:-4])
            assert_refused(await clients[3].answer())
            assert (await clients[0].ask(head[-4:])).status == 200
            await wait_until(lambda: server.held_bytes < 90 * KIB)
            assert (await clients[4].ask(head)).status == 200, "what the first one held is free again"


async def test_a_body_that_nobody_reads_is_counted_until_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_view, "PRESENCE_INTERVAL_S", 0.02)
    async with rest_server(SMALL) as server:
        slow = get(f"/tx/0x{'ab' * 32}?wait=60", f"Content-Length: {60 * KIB}") + b" " * 60 * KIB
        async with server.client() as first, server.client() as second, server.client() as third:
            first.write(slow)
            second.write(slow)
            await wait_until(lambda: server.held_bytes > 100 * KIB)
            third.write(slow)
            assert_refused(await third.answer())
            first.reset()
            second.reset()


async def test_what_waits_behind_an_answer_is_counted_and_too_much_ends_the_connection_after_it() -> None:
    async with rest_server(replace(SMALL, max_unanswered_bytes=32 * KIB)) as server, server.client() as client:
        client.write(post_tx(signed(0)))
        await server.submissions(1)
        client.write(get("/") * 2_000)
        await wait_until(lambda: all(each.is_refused for each in server.connections))
        assert server.held_bytes == 0, "it is not kept"
        server.core.admit_all()
        assert (await client.answer()).status == 200
        assert_refused(await client.answer())
        assert await client.rest() == b"", "the first was answered, and what was too much was not"


async def test_the_budget_is_that_of_the_latest_settings() -> None:
    async with rest_server(replace(SMALL, max_unanswered_bytes=64 * KIB)) as server, AsyncExitStack() as stack:
        first, second, third = [await stack.enter_async_context(server.client()) for _ in range(3)]
        first.write(unfinished(100 * KIB))
        assert_refused(await first.answer())
        server.server.adjust(SMALL)
        second.write(unfinished(100 * KIB))
        await wait_until(lambda: server.held_bytes > 80 * KIB)
        # What is held stays, but nobody gets more, not even a byte.
        server.server.adjust(replace(SMALL, max_unanswered_bytes=64 * KIB))
        third.write(unfinished(20 * KIB))
        assert_refused(await third.answer())
        assert server.held_bytes > 80 * KIB
        second.write(b" ")
        assert_refused(await second.answer())
        await wait_until(lambda: server.held_bytes == 0)


async def test_a_client_that_goes_away_is_not_counted_any_more() -> None:
    async with rest_server(SMALL) as server:
        for leave in (Client.abort, Client.reset, Client.finish):
            async with server.client() as client:
                client.write(unfinished(100 * KIB))
                await server.heard(100 * KIB)
                assert server.held_bytes > 80 * KIB
                leave(client)
                await wait_until(lambda: server.held_bytes == 0)


async def test_a_client_that_pipelines_without_end_is_counted_for_what_is_unanswered_only() -> None:
    async with rest_server(SMALL) as server, server.client() as client:
        for _ in range(40):
            client.write(post(b"[]" + b" " * 20 * KIB, path="/txs") * 2)
            assert [(await client.answer()).status for _ in range(2)] == [200, 200]
        await wait_until(lambda: server.held_bytes == 0)


async def test_behind_a_proxy_each_client_has_its_own_share() -> None:
    async with (
        rest_server(replace(SMALL, trusted_proxies=("127.0.0.1",), rate_limit_per_s=0)) as server,
        AsyncExitStack() as stack,
    ):
        clients = [await stack.enter_async_context(server.client()) for _ in range(4)]
        named = [unfinished(100 * KIB).replace(b"\r\n", b"\r\nX-Forwarded-For: 192.0.2.%d\r\n" % number, 1)
                 for number in (1, 1, 2, 2)]  # fmt: skip
        clients[0].write(named[0])
        await wait_until(lambda: server.held_bytes > 80 * KIB)
        clients[1].write(named[1])
        assert_refused(await clients[1].answer())
        # The other gets half of the rest, so that somebody else finds some, too.
        clients[2].write(named[2][: 60 * KIB])
        await wait_until(lambda: server.held_bytes > 140 * KIB)


# WebSockets.


def frame(payload: bytes, is_last: bool = True, opcode: int = 1) -> bytes:
    head = struct.pack("!BB", (0x80 if is_last else 0) | opcode, 0x80 | (126 if len(payload) > 125 else len(payload)))
    return head + (struct.pack("!H", len(payload)) if len(payload) > 125 else b"") + bytes(4) + payload


async def test_thousands_of_messages_at_once_wait_as_bytes(server: RestServer) -> None:
    async with server.client() as client:
        assert (await client.ask(get("/events", *UPGRADE))).status == 101
        [socket] = server.server.connections
        queued = 0
        put = socket._session.put  # type: ignore[attr-defined]

        def counting_put(message: object) -> None:
            nonlocal queued
            put(message)
            queued = max(queued, socket._session._queue.qsize())  # type: ignore[attr-defined]

        socket._session.put = counting_put  # type: ignore[attr-defined]
        client.write(frame(b"") * 10_000)
        errors = b""
        while errors.count(b'"event":"error"') < 10_000:
            errors += await client.some()
        assert 0 < queued <= 200, "a piece of a kilobyte has no more"


async def test_fragments_of_messages_are_counted() -> None:
    async with rest_server(replace(SMALL, ws_max_message_bytes=100 * KIB)) as server, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(server.client()) for _ in range(4)]
        for client in clients:
            assert (await client.ask(get("/rpc", *UPGRADE))).status == 101
        for client in clients:
            client.write(frame(b" " * 60 * KIB, is_last=False))
        sockets = cast("list[EventsProtocol]", server.server.connections)
        await wait_until(lambda: sum(each.close_sent for each in sockets) == 2)
        assert 100 * KIB < server.held_bytes <= 128 * KIB
        for each in sockets:
            each.transport.abort()
        # 1013, try again later.
        endings = [await client.rest() for client in clients]
        assert sorted(ending[2:4] for ending in endings) == [b"", b"", *[struct.pack("!H", 1013)] * 2]


async def test_a_message_is_counted_until_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    released = asyncio.Event()

    async def answer(self: Dispatcher, message: bytes | str, caller: object) -> bytes:
        await released.wait()
        return b"%d" % len(message)

    monkeypatch.setattr(Dispatcher, "answer", answer)
    async with rest_server(SMALL) as server, server.client() as client:
        assert (await client.ask(get("/rpc", *UPGRADE))).status == 101
        client.write(frame(b" " * 60 * KIB))
        await wait_until(lambda: server.held_bytes > 50 * KIB)
        client.write(frame(b" " * 60 * KIB, is_last=False))
        await wait_until(lambda: server.held_bytes > 100 * KIB)
        released.set()
        assert b"%d" % (60 * KIB) in await client.some()
        await wait_until(lambda: server.held_bytes < 60 * KIB)


# Memory.


async def test_refused_bytes_are_freed_without_the_garbage_collector() -> None:
    """A traceback that is kept would keep what was read with it."""
    async with rest_server(SMALL) as server:
        gc.collect()
        gc.disable()
        try:
            # The first ones leave the allocator, and the buffers below it, as large as they stay.
            await refuse_large(server, 10)
            before = resident_bytes()
            await refuse_large(server, 40)
            assert resident_bytes() - before < 4_000 * KIB
        finally:
            gc.enable()


async def refuse_large(server: RestServer, number: int) -> None:
    for _ in range(number):
        async with server.client() as client:
            client.write(unfinished(2_000 * KIB))
            assert_refused(await client.answer())
            client.abort()
        await server.no_connections()


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_memory_is_given_back_after_much_was_held_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: list[int] = []

    monkeypatch.setattr(server_module, "WORTH_TRIMMING_BYTES", 1_000 * KIB)

    async with rest_server() as server:
        monkeypatch.setattr(memory, "trim", lambda: trimmed.append(server.held_bytes))
        async with server.client() as client:
            client.write(unfinished(2_000 * KIB))
            await wait_until(lambda: server.held_bytes > 1_900 * KIB)
            server.pass_time(1)
            assert trimmed == []
            client.abort()
            await wait_until(lambda: server.held_bytes == 0)
            server.pass_time(1)
        assert trimmed == [0], "once"
