"""Sockets that end in every way a node or a network ends them; the server is real, and plays the node.

They are unix sockets, on which what one side writes the other can read at once: time passes only by waiting.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, unix_serve
from websockets.http11 import Request, Response

from cairn.client import AsyncClient, events
from cairn.client.errors import (
    BlockNotFound,
    ChainReverted,
    FollowLimit,
    ForbiddenHost,
    InvalidHash,
    NodeUnreachable,
    Starting,
    StoreUnavailable,
    UnexpectedAnswer,
)
from cairn.client.events import EventChannel
from cairn.client.models import Confirmed, Dropped, Payment

pytestmark = pytest.mark.virtual_time

HASHES = [f"0x{number:060x}abcd" for number in range(1_500)]

URL = "http://node.example"
SOCKET = "node.sock"

Play = Callable[[ServerConnection], Awaitable[None]]


@pytest.fixture(autouse=True)
def _local_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every client finds its node on the same socket; the path of one must be short."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(events, "connect", partial(connect, unix=True, path=SOCKET))


def new_block(height: int) -> str:
    return json.dumps({"event": "newBlock", "blockHeight": height, "hash": f"0x{height:064x}"})


def refusal(code: str, status: int, **more: object) -> str:
    return json.dumps({"event": "error", "title": "", "status": status, "detail": "no", "code": code, **more})


async def read(socket: ServerConnection) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(await socket.recv())
    return message


async def as_told(reverted_to: int | None) -> int | None:
    """Nothing to find again after a reconnect."""
    return reverted_to


@asynccontextmanager
async def playing(
    *plays: Play, refuse: Callable[[ServerConnection, Request], Response | None] | None = None
) -> AsyncGenerator[str, None]:
    """A server that plays the next of its parts for each socket."""
    left = iter(plays)
    failures: list[BaseException] = []

    async def play(socket: ServerConnection) -> None:
        try:
            await next(left)(socket)
        except AssertionError as failure:
            failures.append(failure)
            raise

    async with unix_serve(play, SOCKET, process_request=refuse):
        yield URL
    assert not failures


def channel(url: str, timeout_s: float = 30, outage_timeout_s: float | None = 30) -> EventChannel:
    return EventChannel(url, timeout_s=timeout_s, outage_timeout_s=outage_timeout_s, silence_timeout_s=20, tls=None)


async def take_heights(node: EventChannel, from_height: int | None, count: int) -> list[int]:
    heights: list[int] = []
    async for block in node.blocks(from_height, as_told):
        heights.append(block.block_height)
        if len(heights) == count:
            break
    return heights


def part(expected_from: int | None, heights: range, end: Callable[[ServerConnection], Awaitable[None]]) -> Play:
    """A node that is asked for `expected_from`, tells these heights, and ends."""

    async def play(socket: ServerConnection) -> None:
        request = await read(socket)
        assert request.get("fromHeight") == expected_from
        first = heights.start if expected_from is None else expected_from
        await socket.send(json.dumps({"event": "subscribed", "subscription": "newBlock", "fromHeight": first}))
        for height in heights:
            await socket.send(new_block(height))
        await end(socket)

    return play


def closing(code: int, reason: str = "because") -> Callable[[ServerConnection], Awaitable[None]]:
    return lambda socket: socket.close(code, reason)


def reverting(height: int) -> Callable[[ServerConnection], Awaitable[None]]:
    return closing(4205, f"the chain was reverted to block {height}")


async def cutting(socket: ServerConnection) -> None:
    socket.transport.abort()


async def staying(socket: ServerConnection) -> None:
    await socket.wait_closed()


async def test_it_resumes_behind_the_last_block_however_a_socket_ends() -> None:
    parts = (
        part(5, range(5, 7), closing(1013)),
        part(7, range(7, 7), closing(1001)),
        part(7, range(7, 8), closing(1011)),
        part(8, range(8, 10), cutting),
        part(10, range(10, 12), staying),
    )
    async with playing(*parts) as url:
        assert await take_heights(channel(url), 5, 7) == list(range(5, 12))


async def test_without_a_height_it_resumes_from_the_height_of_the_first_answer() -> None:
    async with playing(part(None, range(9, 9), cutting), part(9, range(9, 11), staying)) as url:
        assert await take_heights(channel(url), None, 2) == [9, 10]


async def test_after_a_revert_the_replacing_blocks_follow() -> None:
    parts = (
        part(5, range(5, 9), reverting(6)),
        part(7, range(7, 8), reverting(10)),
        # Nothing below what was asked for.
        part(8, range(8, 8), reverting(2)),
        part(5, range(5, 6), closing(4205, "no height")),
        part(6, range(6, 7), staying),
    )
    async with playing(*parts) as url:
        assert await take_heights(channel(url), 5, 7) == [5, 6, 7, 8, 7, 5, 6]


async def test_without_a_height_a_revert_moves_the_next_height_back() -> None:
    async with playing(part(None, range(9, 9), reverting(3)), part(4, range(4, 5), staying)) as url:
        assert await take_heights(channel(url), None, 1) == [4]


async def test_the_height_of_a_revert_is_passed_to_rejoin() -> None:
    ended_by: list[int | None] = []

    async def rejoin(reverted_to: int | None) -> int | None:
        ended_by.append(reverted_to)
        return reverted_to

    async with playing(
        part(1, range(1, 2), closing(1001)), part(2, range(2, 3), reverting(1)), part(2, range(2, 3), staying)
    ) as url:
        async for block in channel(url).blocks(1, rejoin):
            if ended_by == [None, 1]:
                assert block.block_height == 2
                break


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (refusal("BLOCK_NOT_FOUND", 404), BlockNotFound),
        ("nothing like it", UnexpectedAnswer),
        (json.dumps({"event": "txDropped", "txHash": "0x", "reason": "expired"}), UnexpectedAnswer),
    ],
)
async def test_a_refusal_or_an_unexpected_message_is_raised(message: str, kind: type[Exception]) -> None:
    async def play(socket: ServerConnection) -> None:
        await socket.send(message)
        await staying(socket)

    async with playing(play) as url:
        with pytest.raises(kind):
            await take_heights(channel(url), 0, 1)


def refusing(
    times: int, code: str, status: int, retry_after: int = 0
) -> Callable[[ServerConnection, Request], Response | None]:
    left = [times]

    def refuse(connection: ServerConnection, request: Request) -> Response | None:
        if not left[0]:
            return None
        left[0] -= 1
        problem = {"title": "", "status": status, "detail": "no", "code": code}
        response = connection.respond(HTTPStatus(status), json.dumps(problem))
        response.headers["Retry-After"] = str(retry_after)
        return response

    return refuse


async def test_a_node_that_starts_is_waited_for() -> None:
    async with playing(part(0, range(0, 1), staying), refuse=refusing(2, "STARTING", 503)) as url:
        assert await take_heights(channel(url), 0, 1) == [0]


async def test_a_node_that_keeps_starting_or_refuses_raises_its_error() -> None:
    async with playing(refuse=refusing(100, "STARTING", 503, retry_after=60)) as url:
        with pytest.raises(Starting):
            await take_heights(channel(url, timeout_s=20), 0, 1)
    async with playing(refuse=refusing(100, "FORBIDDEN_HOST", 403)) as url:
        with pytest.raises(ForbiddenHost):
            await take_heights(channel(url), 0, 1)
    with pytest.raises(NodeUnreachable):
        await take_heights(channel(url, timeout_s=0.3), 0, 1)


async def unable(socket: ServerConnection) -> None:
    """A node that cannot look up now what it is asked to follow, as while its disk fails."""
    request = await read(socket)
    await socket.send(refusal("STORE_UNAVAILABLE", 503, id=request.get("id")))
    await staying(socket)


async def test_a_subscription_refused_for_now_is_made_again() -> None:
    async def follow(socket: ServerConnection) -> None:
        await read(socket)
        await socket.send(json.dumps({"event": "txDropped", "txHash": HASHES[0], "reason": "expired"}))

    async with playing(
        unable, unable, part(5, range(5, 7), closing(1001)), unable, part(7, range(7, 8), staying)
    ) as url:
        assert await take_heights(channel(url), 5, 3) == [5, 6, 7]
    async with playing(unable, follow) as url:
        ended = await anext(channel(url).outcomes(HASHES[:1], as_told))
        assert ended.tx_hash == HASHES[0]


async def test_a_subscription_that_stays_refused_raises_at_the_time_limit() -> None:
    loop = asyncio.get_running_loop()
    async with playing(*[unable] * 100) as url:
        with pytest.raises(StoreUnavailable):
            await take_heights(channel(url, timeout_s=20), 0, 1)
        assert loop.time() < 20
        with pytest.raises(StoreUnavailable):
            await anext(channel(url, timeout_s=20).outcomes(HASHES[:1], as_told))
    async with playing(part(0, range(0, 1), closing(1001)), *[unable] * 100) as url:
        with pytest.raises(StoreUnavailable):
            await take_heights(channel(url, outage_timeout_s=20), 0, 2)


async def test_an_outage_ends_at_its_time_limit() -> None:
    events: AsyncGenerator[object, None]
    async with playing(part(0, range(0, 1), staying)) as url:
        events = channel(url, outage_timeout_s=0.3).blocks(0, as_told)
        await anext(events)
    with pytest.raises(NodeUnreachable):
        await anext(events)


async def test_after_a_reconnect_only_what_has_not_ended_is_followed() -> None:
    async def first(socket: ServerConnection) -> None:
        asked = [(await read(socket))["txHash"] for _ in range(3)]
        assert asked == HASHES[:3]
        await socket.send(json.dumps({"event": "subscribed", "subscription": "txConfirmed", "txHash": HASHES[0]}))
        await socket.send(json.dumps({"event": "txConfirmed", "txHash": HASHES[1], "blockHeight": 4}))
        await cutting(socket)

    async def second(socket: ServerConnection) -> None:
        asked = [(await read(socket))["txHash"] for _ in range(2)]
        assert asked == [HASHES[0], HASHES[2]]
        await socket.send(json.dumps({"event": "txDropped", "txHash": HASHES[0], "reason": "replaced"}))
        await socket.send(json.dumps({"event": "txConfirmed", "txHash": HASHES[2], "blockHeight": 5}))
        await staying(socket)

    async with playing(first, second) as url:
        outcomes = [outcome async for outcome in channel(url).outcomes([*HASHES[:3], HASHES[0].upper()], as_told)]
    assert outcomes == [Confirmed(HASHES[1], 4), Dropped(HASHES[0], "replaced"), Confirmed(HASHES[2], 5)]


@pytest.mark.parametrize("limit", [3, 1_000])
async def test_no_more_is_followed_at_once_than_the_node_allows(limit: int) -> None:
    """What it follows ends whenever the client has nothing more to ask."""

    async def play(socket: ServerConnection) -> None:
        followed: list[str] = []
        while True:
            try:
                request = json.loads(await asyncio.wait_for(socket.recv(), 0.05))
            except TimeoutError:
                for tx_hash in followed:
                    await socket.send(json.dumps({"event": "txConfirmed", "txHash": tx_hash, "blockHeight": 1}))
                followed = []
                continue
            assert request["event"] == "txConfirmed"
            if len(followed) >= limit:
                await socket.send(refusal("FOLLOW_LIMIT", 429, id=request["id"]))
                continue
            followed.append(request["txHash"])
            answer = {"event": "subscribed", "subscription": "txConfirmed", "txHash": request["txHash"]}
            await socket.send(json.dumps(answer | {"id": request["id"]}))

    hashes = HASHES[: 20 if limit == 3 else len(HASHES)]
    async with playing(play) as url:
        outcomes = [outcome async for outcome in channel(url).outcomes(hashes, as_told)]
    assert sorted(outcome.tx_hash for outcome in outcomes) == hashes


@pytest.mark.parametrize(
    ("code", "status", "kind"), [("FOLLOW_LIMIT", 429, FollowLimit), ("INVALID_HASH", 400, InvalidHash)]
)
async def test_a_transaction_that_cannot_be_followed_is_an_error(code: str, status: int, kind: type[Exception]) -> None:
    async def play(socket: ServerConnection) -> None:
        await socket.send(refusal(code, status, id=(await read(socket))["id"]))
        await staying(socket)

    async with playing(play) as url:
        with pytest.raises(kind):
            await anext(channel(url).outcomes(HASHES[:1], as_told))


async def test_a_revert_that_no_socket_reported_moves_the_next_height_back() -> None:
    async def rejoin(reverted_to: int | None) -> int | None:
        return 6

    async with playing(part(5, range(5, 9), cutting), part(7, range(7, 8), staying)) as url:
        heights = []
        async for block in channel(url).blocks(5, rejoin):
            heights.append(block.block_height)
            if len(heights) == 5:
                break
    assert heights == [5, 6, 7, 8, 7]


async def test_an_error_of_rejoin_ends_the_following_of_transactions() -> None:
    async def play(socket: ServerConnection) -> None:
        await read(socket)
        await reverting(7)(socket)

    async def refuse(reverted_to: int | None) -> int | None:
        assert reverted_to is not None
        raise ChainReverted(reverted_to)

    async with playing(play) as url:
        with pytest.raises(ChainReverted) as reverted:
            await anext(channel(url).outcomes(HASHES[:1], refuse))
    assert reverted.value.height == 7


SHOPS = [f"0x{number:040x}" for number in range(700)]
Place = tuple[int, int]


def payment(place: Place, to: str = SHOPS[0]) -> str:
    fields = {"txHash": f"0x{place[0]:032x}{place[1]:032x}", "blockHeight": place[0], "transactionIndex": place[1]}
    return json.dumps({"event": "payment", **fields, "from": "0x" + "b0" * 20, "to": to, "value": 5})


def subscribed(first: int, **more: object) -> str:
    return json.dumps({"event": "subscribed", "subscription": "payment", "fromHeight": first, "followed": 1, **more})


def paying(
    expected_from: int | None, messages: list[Place | int], end: Callable[[ServerConnection], Awaitable[None]]
) -> Play:
    """A node that is asked for `expected_from`, tells of payments and blocks, and ends."""

    async def play(socket: ServerConnection) -> None:
        request = await read(socket)
        assert request["event"] == "payment"
        assert request.get("fromHeight") == expected_from
        await socket.send(subscribed(7 if expected_from is None else expected_from))
        assert await read(socket) == {"action": "subscribe", "event": "newBlock"}
        await socket.send(json.dumps({"event": "subscribed", "subscription": "newBlock", "fromHeight": 90}))
        for message in messages:
            await socket.send(new_block(message) if isinstance(message, int) else payment(message))
        await end(socket)

    return play


async def take_places(node: EventChannel, from_height: int | None, count: int) -> list[Place | int]:
    """Places of payments, and heights of blocks."""
    places: list[Place | int] = []
    async with aclosing(node.payments(SHOPS[:2], from_height, as_told)) as events:
        async for event in events:
            height = event.block_height
            places.append((height, event.transaction_index) if isinstance(event, Payment) else height)
            if len(places) == count:
                break
    return places


async def test_payments_resume_behind_the_last_one_however_a_socket_ends() -> None:
    parts = (
        paying(5, [(5, 0), (5, 3), (6, 1)], cutting),
        # Those of the block that had begun come again.
        paying(6, [(6, 1), (6, 2), (6, 9)], closing(1013)),
        paying(6, [(6, 1), (6, 2), (6, 9), 8, 9], closing(1001)),
        paying(9, [], closing(1011)),
        paying(9, [(9, 0), 10, (10, 0), (10, 1)], cutting),
        # This node is behind.
        paying(10, [8, 9, (10, 0), (10, 1), (10, 2)], staying),
    )
    expected: list[Place | int] = [
        (5, 0), (5, 3), (6, 1), (6, 2), (6, 9), 8, 9, (9, 0), 10, (10, 0), (10, 1), (10, 2),
    ]  # fmt: skip
    async with playing(*parts) as url:
        assert await take_places(channel(url), 5, len(expected)) == expected


async def test_payments_without_a_height_resume_from_the_height_of_the_answer() -> None:
    async with playing(paying(None, [], cutting), paying(7, [(8, 1)], staying)) as url:
        assert await take_places(channel(url), None, 1) == [(8, 1)]


async def test_payments_after_a_revert_are_the_replacing_ones() -> None:
    parts = (
        paying(5, [(5, 0), 20], reverting(12)),
        paying(13, [(14, 2)], reverting(2)),
        paying(5, [(5, 0)], staying),
    )
    async with playing(*parts) as url:
        assert await take_places(channel(url), 5, 4) == [(5, 0), 20, (14, 2), (5, 0)]


async def test_addresses_that_fill_several_messages_are_followed_before_the_replay_begins() -> None:
    """What the node tells before its last answer is part of the replay, too, or was before it."""

    async def play(socket: ServerConnection) -> None:
        asked: list[str] = []
        for number in range(3):
            request = await read(socket)
            assert len(json.dumps(request)) < 16 * 1024
            asked += request["addresses"]
            assert request.get("fromHeight") == (4 if number == 2 else None)
            await socket.send(payment((8, 3)))
            await socket.send(subscribed(4 if number == 2 else 9))
        assert asked == SHOPS
        for place in ((3, 0), (4, 0), (8, 3)):
            await socket.send(payment(place, SHOPS[-1]))
        await staying(socket)

    async with playing(play) as url, aclosing(channel(url).payments(SHOPS, 4, as_told)) as events:
        assert [(await anext(events)).block_height for _ in range(2)] == [4, 8]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (refusal("FOLLOW_LIMIT", 429), FollowLimit),
        (refusal("BLOCK_NOT_FOUND", 404), BlockNotFound),
        (payment((5, 0), SHOPS[2]), UnexpectedAnswer),
        (json.dumps({"event": "txDropped", "txHash": "0x", "reason": "expired"}), UnexpectedAnswer),
        ('{"event":"payment"}', UnexpectedAnswer),
    ],
)
async def test_a_refusal_or_an_unexpected_message_ends_the_payments(message: str, kind: type[Exception]) -> None:
    async def play(socket: ServerConnection) -> None:
        await socket.send(subscribed(5))
        await socket.send(message)
        await staying(socket)

    async with playing(play) as url:
        with pytest.raises(kind):
            await take_places(channel(url), 5, 1)


@pytest.mark.parametrize("first", [4, 6, 90])
async def test_events_that_begin_elsewhere_than_asked_for_are_refused(first: int) -> None:
    async def play(socket: ServerConnection) -> None:
        event = (await read(socket))["event"]
        await socket.send(json.dumps({"event": "subscribed", "subscription": event, "fromHeight": first}))
        await socket.send(new_block(first) if event == "newBlock" else payment((first, 0)))
        await staying(socket)

    refused = f"was asked for events from block 5 on, and gives them from {first} on"
    for take in (take_heights, take_places):
        async with playing(play) as url:
            with pytest.raises(UnexpectedAnswer, match=refused):
                await take(channel(url), 5, 1)


async def test_a_node_that_takes_no_message_of_this_size_is_an_error() -> None:
    async with playing(closing(1009)) as url:
        with pytest.raises(UnexpectedAnswer, match="ws_max_message_bytes"):
            await take_places(channel(url), 5, 1)


async def test_following_no_transaction_needs_no_node() -> None:
    async with AsyncClient("http://127.0.0.1:9") as client:
        assert [outcome async for outcome in client.confirmations([])] == []
