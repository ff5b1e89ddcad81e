"""The small server: clients that misbehave keep nobody out, and each connection is answered once, in time."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest
from structlog.testing import capture_logs

from cairn.api.server import small_server
from cairn.api.server.small_server import MAX_HEAD_BYTES, Reply, SmallRequest, SmallServer
from tests.support.pace import PATIENCE_S
from tests.support.small_servers import Listening, serving

MOST = 4
ASKED = b"GET /x?y HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def shown(request: SmallRequest) -> Reply:
    if request.path == b"/fail":
        raise KeyError("secret")
    return Reply(HTTPStatus.OK, request.path, ())


@pytest.fixture
async def listening(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Listening]:
    """However slow the machine is, no connection takes too long by accident."""
    monkeypatch.setattr(small_server, "TIMEOUT_S", PATIENCE_S)
    async with serving(SmallServer(shown, MOST)) as made:
        yield made


async def test_a_request_in_pieces_is_answered_once_and_the_connection_closed(listening: Listening) -> None:
    # The second request comes with the end of the first: later, it would meet a connection that is closed and reset.
    answer = await listening.ask(ASKED[:10], ASKED[10:-2], ASKED[-2:] + ASKED)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nconnection: close" in head
    assert b"\r\ncontent-length: 2\r\n" in head
    assert body == b"/x"


async def test_head_has_no_body(listening: Listening) -> None:
    answer = await listening.ask(ASKED.replace(b"GET", b"HEAD"))
    assert b"content-length: 2\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


async def test_a_failure_is_answered_and_logged(listening: Listening) -> None:
    with capture_logs() as logged:
        answer = await listening.ask(ASKED.replace(b"/x", b"/fail"))
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"secret" not in answer
    assert [repr(line["exc_info"]) for line in logged] == ["KeyError('secret')"]


async def test_a_head_that_never_ends_is_cut_off(listening: Listening) -> None:
    assert await listening.ask(b"GET /x HTTP/1.1\r\nX: ", b"x" * (MAX_HEAD_BYTES + 1)) == b""


@pytest.mark.parametrize("attacker", ["127.0.0.1", "127.0.0.2"])
@pytest.mark.parametrize("said", [b"", b"GET /x HT"])
async def test_silent_and_slow_clients_keep_nobody_out(listening: Listening, attacker: str, said: bytes) -> None:
    silent = [await listening.connect(attacker) for _ in range(10 * MOST)]
    for _, writer in silent:
        writer.write(said)
    await listening.held(MOST)
    for _ in range(20):
        assert (await listening.ask(ASKED)).startswith(b"HTTP/1.1 200 ")
    for _, writer in silent:
        writer.close()


async def test_the_client_with_most_connections_makes_room(listening: Listening) -> None:
    reader, writer = await listening.connect()
    await listening.held(1)
    silent = [await listening.connect("127.0.0.2") for _ in range(10 * MOST)]
    await listening.held(MOST)
    writer.write(ASKED)
    async with asyncio.timeout(PATIENCE_S):
        assert (await reader.read()).endswith(b"/x"), "it has waited, and was not cut"
    for _, each in (*silent, (reader, writer)):
        each.close()


class Slow:
    """A server that answers nobody before it may go on."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.server = SmallServer(self._answer, MOST)

    async def _answer(self, request: SmallRequest) -> Reply:
        await self.go_on.wait()
        return await shown(request)

    async def answers(self, client: str, count: int) -> None:
        """Returns once so many requests of the client are being answered."""
        async with asyncio.timeout(PATIENCE_S):
            while sum(not each.is_idle and each.client == client for each in self.server.connections) != count:
                await asyncio.sleep(0.001)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    monkeypatch.setattr(small_server, "TIMEOUT_S", PATIENCE_S)
    return Slow()


async def test_a_client_that_asks_on_all_places_keeps_itself_out_and_nobody_else(slow: Slow) -> None:
    async with serving(slow.server) as listening:
        asked = [asyncio.ensure_future(listening.ask(ASKED, address="127.0.0.2")) for _ in range(MOST)]
        await slow.answers("127.0.0.2", MOST)
        assert await listening.ask(ASKED, address="127.0.0.2") == b"", "its own earlier ones are not cut for it"
        others = []
        for count in range(1, MOST // 2 + 1):
            others.append(asyncio.ensure_future(listening.ask(ASKED)))
            await slow.answers("127.0.0.1", count)
        assert await listening.ask(ASKED) == b"", "both have as many"
        slow.go_on.set()
        for answer in asyncio.as_completed(others):
            assert (await answer).endswith(b"/x")
        assert sum([(await answer).endswith(b"/x") for answer in asked]) == MOST - len(others)


async def test_who_is_about_to_ask_does_not_make_room_for_a_client_that_has_more(slow: Slow) -> None:
    async with serving(slow.server) as listening:
        reader, writer = await listening.connect()
        await listening.held(1)
        asked = [asyncio.ensure_future(listening.ask(ASKED, address="127.0.0.2")) for _ in range(MOST - 1)]
        await slow.answers("127.0.0.2", MOST - 1)
        assert await listening.ask(ASKED, address="127.0.0.2") == b""
        slow.go_on.set()
        writer.write(ASKED)
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.read()).endswith(b"/x")
        writer.close()
        await asyncio.gather(*asked)


async def test_a_connection_has_its_time_however_much_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_server, "TIMEOUT_S", 0.05)
    async with serving(SmallServer(shown, MOST)) as listening:
        reader, writer = await listening.connect()
        async with asyncio.timeout(PATIENCE_S):
            while not reader.at_eof() and reader.exception() is None:
                writer.write(b"x")
                await asyncio.sleep(0.001)
        await listening.held(0)
        writer.close()
