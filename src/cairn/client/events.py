"""The event channel: sockets that are opened again when they end, and continue where they were.

The node reads its events from the store, by height, so a client needs to remember only the last height.
"""

import asyncio
import re
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import msgspec
from msgspec.json import Decoder
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.frames import CloseCode

from cairn.client.errors import (
    ApiError,
    FollowLimit,
    NodeUnreachable,
    Problem,
    Unavailable,
    UnexpectedAnswer,
    error_of,
)
from cairn.client.models import Confirmed, Dropped, Outcome
from cairn.client.transport import UNREADABLE, Amounts, Deadline, delays, problem_error
from cairn.domain.answers import NewBlock, Payment
from cairn.loopback import is_loopback

OPEN_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 2.0
"""How long to wait for the close handshake."""
MAX_FOLLOWED = 1_000
"""Transactions that one socket follows, unless the node's limit is lower."""
MAX_UNANSWERED = 64
"""Requests that are sent before their answers are read, so that neither side waits for the other to read."""
ADDRESSES_IN_A_MESSAGE = 300
"""Of the 16 KiB that a node takes, unless configured otherwise."""
BUFFERED_MESSAGES = 256
CHAIN_REVERTED = 4205
"""Close code after a revert of a dev chain; the reason names the block that is now the latest."""

Rejoin = Callable[[int | None], Awaitable[int | None]]
"""Called before a new socket replaces one that ended: with the height of the revert, if a revert ended it.

Returns the height of a revert that the socket did not report, because it had ended for another reason.
"""


class SubscribedAnswer(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="subscribed"):
    from_height: int | None = None
    """The first height whose event this socket gets."""


class Refused(Problem, frozen=True, tag_field="event", tag="error"):
    id: str | None = None
    """The id of the refused request; the socket stays open."""


Event = NewBlock | Confirmed | Dropped | Payment
Message = Event | SubscribedAnswer | Refused

_MESSAGE: dict[Amounts, Decoder[Message]] = {"number": Decoder(Message), "string": Decoder(Message, strict=False)}
_encode = msgspec.json.Encoder().encode


class EventChannel:
    """`WS /events` of one node."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float,
        outage_timeout_s: float | None,
        silence_timeout_s: float,
        tls: ssl.SSLContext | None,
        amounts: Amounts = "number",
    ) -> None:
        self._url = "ws" + url.removeprefix("http") + "/events" + ("?amounts=string" if amounts == "string" else "")
        self._decoder = _MESSAGE[amounts]
        self._timeout_s = timeout_s
        self._outage_timeout_s = outage_timeout_s
        self._ping_interval_s = silence_timeout_s / 2
        """The ping's answer gets the same time again."""
        self._tls = (tls or True) if url.startswith("https:") else None

    async def blocks(self, from_height: int | None, rejoin: Rejoin) -> AsyncGenerator[NewBlock, None]:
        """Each height once and in order. After a revert it continues above the block that is then the latest."""
        next_height = from_height

        async def resume(told: int | None) -> int | None:
            nonlocal next_height
            height = await rejoin(told)
            if height is not None and next_height is not None:
                next_height = max(from_height or 0, min(next_height, height + 1))
            return height

        async with aclosing(self._sockets(resume)) as sockets:
            async for socket in sockets:
                request: dict[str, object] = {"action": "subscribe", "event": "newBlock"}
                if next_height is not None:
                    request["fromHeight"] = next_height
                with socket.while_open():
                    await socket.send(_encode(request))
                    while True:
                        match await socket.receive():
                            case SubscribedAnswer(from_height=int(first)):
                                _check_first(next_height, first)
                                # From here on the height is known, even if this socket ends before its first block.
                                next_height = first
                            case NewBlock() as block:
                                if next_height not in (None, block.block_height):
                                    raise UnexpectedAnswer(f"{self._url} sent {block} instead of height {next_height}")
                                next_height = block.block_height + 1
                                yield block
                            case Refused() as refused:
                                raise error_of(refused)
                            case other:
                                raise UnexpectedAnswer(f"{self._url} sent {other} when asked for blocks")

    async def payments(
        self, addresses: Sequence[str], from_height: int | None, rejoin: Rejoin
    ) -> AsyncGenerator[Payment | NewBlock, None]:
        """Each payment of these addresses, once and in order, and the new blocks: all payments before one have come.

        After a revert it continues above the block that is then the latest.
        """
        followed = {address.lower() for address in addresses}
        place = _PaymentPlace(from_height)

        async def resume(told: int | None) -> int | None:
            height = await rejoin(told)
            if height is not None:
                place.revert(height)
            return height

        async with aclosing(self._sockets(resume)) as sockets:
            async for socket in sockets:
                with socket.while_open():
                    place.reach(await _follow_addresses(socket, addresses, place.height))
                    # Now, so that the payments of a block come after it, and those before it were followed by then.
                    await socket.send(_encode({"action": "subscribe", "event": "newBlock"}))
                    while True:
                        match await socket.receive():
                            case Payment() as payment:
                                if not {payment.sender, payment.to} & followed:
                                    raise UnexpectedAnswer(
                                        f"{self._url} sent {payment}, which is of no followed address"
                                    )
                                if socket.has_taken_back(payment.block_height):
                                    break
                                if place.is_next(payment):
                                    yield payment
                            case NewBlock() as block:
                                if socket.has_taken_back(block.block_height):
                                    break
                                # Below: this node is behind the one before it, and has not come there yet.
                                if block.block_height >= (place.height or 0):
                                    place.reach(block.block_height)
                                    yield block
                            case SubscribedAnswer():
                                pass
                            case Refused() as refused:
                                raise error_of(refused)
                            case other:
                                raise UnexpectedAnswer(f"{self._url} sent {other} when asked for payments")

    async def outcomes(self, tx_hashes: Iterable[str], rejoin: Rejoin) -> AsyncGenerator[Outcome, None]:
        """The outcome of each transaction, once, until all are known."""
        unsettled = dict.fromkeys(tx_hash.lower() for tx_hash in tx_hashes)
        async with aclosing(self._sockets(rejoin)) as sockets:
            async for socket in sockets:
                following = _Following(unsettled)
                with socket.while_open():
                    while unsettled:
                        for tx_hash in following.take():
                            await socket.send(_follow(tx_hash))
                        match await socket.receive():
                            case Confirmed() | Dropped() as outcome if outcome.tx_hash in unsettled:
                                following.ended()
                                del unsettled[outcome.tx_hash]
                                yield outcome
                            case SubscribedAnswer():
                                following.answered()
                            case Refused(id=str(tx_hash)) as refused:
                                following.refused(tx_hash, error_of(refused))
                            case other:
                                raise UnexpectedAnswer(f"{self._url} sent {other} when asked for transactions")
                    return

    async def _sockets(self, rejoin: Rejoin) -> AsyncGenerator["_Socket", None]:
        """Open sockets, one after the other; each is closed before the next is opened."""
        deadline, pauses = Deadline(self._timeout_s), delays()
        while True:
            async with self._open(deadline) as connection:
                socket = _Socket(connection, self._decoder)
                yield socket
            if connection.close_code == CloseCode.MESSAGE_TOO_BIG:
                # It would be the same the next time.
                raise UnexpectedAnswer(f"{self._url} does not accept messages of this size; see ws_max_message_bytes")
            if socket.refusal is None or socket.had_event:
                deadline, pauses = Deadline(self._outage_timeout_s), delays()
            # Pause, so as not to flood a node that closes every socket at once.
            pause_s = next(pauses)
            if socket.refusal is None:
                await asyncio.sleep(pause_s)
            elif not await deadline.pause(pause_s):
                raise socket.refusal
            await rejoin(_reverted_to(connection))

    @asynccontextmanager
    async def _open(self, deadline: Deadline) -> AsyncGenerator[ClientConnection, None]:
        socket = await self._connect(deadline)
        try:
            yield socket
        finally:
            try:
                await socket.close()
            finally:
                # The close handshake may be cancelled, when an abandoned iterator ends with its event loop.
                socket.transport.abort()

    async def _connect(self, deadline: Deadline) -> ClientConnection:
        failure: ApiError | NodeUnreachable
        for delay_s in delays():
            try:
                return await connect(
                    self._url,
                    compression=None,
                    open_timeout=deadline.left_s(at_most=OPEN_TIMEOUT_S),
                    ping_interval=self._ping_interval_s,
                    ping_timeout=self._ping_interval_s,
                    close_timeout=CLOSE_TIMEOUT_S,
                    max_queue=BUFFERED_MESSAGES,
                    ssl=self._tls,
                    proxy=None if is_loopback(urlsplit(self._url).hostname or "") else True,
                )
            except InvalidStatus as refused:
                answer = refused.response
                failure = problem_error(answer.status_code, bytes(answer.body), answer.headers.get("Retry-After"))
                if not failure.is_transient:
                    raise failure from None
                delay_s = max(delay_s, failure.retry_after_s or 0.0)
            except (OSError, EOFError, WebSocketException) as error:
                text = str(error) or type(error).__name__
                failure = NodeUnreachable(f"{self._url} does not answer: {text}", was_sent=False)
            if not await deadline.pause(delay_s):
                raise failure
        raise AssertionError("the delays never end")


class _Socket:
    """One connection, and why it ended."""

    def __init__(self, connection: ClientConnection, decoder: Decoder[Message]) -> None:
        self._connection = connection
        self._decoder = decoder
        self.had_event = False
        """Whether the node sent an event on it, and not only answers."""
        self.refusal: Unavailable | None = None
        """The node cannot do now what it was asked: another socket may find it able to."""

    async def send(self, text: bytes) -> None:
        await self._connection.send(text, text=True)

    async def receive(self) -> Message:
        text = await self._connection.recv(decode=False)
        try:
            message = self._decoder.decode(text)
        except UNREADABLE as error:
            raise UnexpectedAnswer(f"the event channel does not follow the protocol: {error}") from None
        self.had_event |= isinstance(message, Event)
        return message

    async def ask(self, request: dict[str, object]) -> SubscribedAnswer:
        """Send a subscription, and pass over the events that come before its answer. Raises the refusal."""
        await self.send(_encode(request))
        while True:
            match await self.receive():
                case SubscribedAnswer() as answer:
                    return answer
                case Refused() as refused:
                    raise error_of(refused)

    def has_taken_back(self, height: int) -> bool:
        """Whether the chain was reverted to a block below that height since the socket told of it."""
        reverted_to = _reverted_to(self._connection)
        return reverted_to is not None and height > reverted_to

    @contextmanager
    def while_open(self) -> Iterator[None]:
        """Leave the block when the connection is lost or the node refuses for now; other errors are raised."""
        try:
            yield
        except ConnectionClosed:
            pass
        except Unavailable as refusal:
            self.refusal = refusal


class _PaymentPlace:
    """How far the payments have come."""

    def __init__(self, from_height: int | None) -> None:
        self._least = from_height or 0
        self._next = None if from_height is None else (from_height, 0)
        """Height and index from which on none has come; None until the node has said where it begins."""

    @property
    def height(self) -> int | None:
        return None if self._next is None else self._next[0]

    def reach(self, height: int, index: int = 0) -> None:
        """All payments before that place have come."""
        self._next = max(self._next or (0, 0), (height, index))

    def is_next(self, payment: Payment) -> bool:
        """Whether it has not come before; now it has.

        A new socket begins with the first of a block. And before the last of the addresses is followed, payments of
        the others may be due from a lower height.
        """
        place = (payment.block_height, payment.transaction_index)
        if self._next is not None and place < self._next:
            return False
        self._next = (place[0], place[1] + 1)
        return True

    def revert(self, height: int) -> None:
        """The blocks above `height` were taken back, and no payment of them was given."""
        if self._next is not None:
            self._next = min(self._next, (max(self._least, height + 1), 0))


async def _follow_addresses(socket: _Socket, addresses: Sequence[str], from_height: int | None) -> int:
    """Follow the addresses. Returns the height from which all their payments come, behind this answer."""
    first = 0
    for start in range(0, len(addresses), ADDRESSES_IN_A_MESSAGE):
        some = list(addresses[start : start + ADDRESSES_IN_A_MESSAGE])
        request: dict[str, object] = {"action": "subscribe", "event": "payment", "addresses": some}
        # Only the last one begins the replay: it is for all of them.
        if from_height is not None and start + ADDRESSES_IN_A_MESSAGE >= len(addresses):
            request["fromHeight"] = from_height
        answer = await socket.ask(request)
        first = answer.from_height or 0
    _check_first(from_height, answer.from_height)
    return first


def _check_first(asked: int | None, first: int | None) -> None:
    """Check that the events begin where they were asked to: one that lacks the blocks refuses by `BlockNotKept`."""
    if asked not in (None, first):
        raise UnexpectedAnswer(f"the node was asked for events from block {asked} on, and gives them from {first} on")


class _Following:
    """The transactions that one socket follows, within the node's limit."""

    def __init__(self, tx_hashes: Iterable[str]) -> None:
        self._waiting = deque(tx_hashes)
        self._limit = MAX_FOLLOWED
        self._followed = 0
        self._unanswered = 0

    def take(self) -> list[str]:
        """The transactions to ask for next."""
        room = min(self._limit - self._followed, MAX_UNANSWERED - self._unanswered, len(self._waiting))
        taken = [self._waiting.popleft() for _ in range(room)]
        self._followed += len(taken)
        self._unanswered += len(taken)
        return taken

    def answered(self) -> None:
        self._unanswered -= 1

    def ended(self) -> None:
        self._followed -= 1

    def refused(self, tx_hash: str, error: ApiError) -> None:
        """At the node's limit, wait until another one has ended. Raises any other error."""
        self._unanswered -= 1
        self._followed -= 1
        if not isinstance(error, FollowLimit) or not self._followed:
            raise error
        self._limit = min(self._limit, self._followed)
        self._waiting.appendleft(tx_hash)


def _follow(tx_hash: str) -> bytes:
    return _encode({"action": "subscribe", "event": "txConfirmed", "txHash": tx_hash, "id": tx_hash})


def _reverted_to(ended: ClientConnection) -> int | None:
    """The height that the chain was reverted to, if that is why the socket ended."""
    named = re.search(r"\d+", ended.close_reason or "")
    return int(named[0]) if ended.close_code == CHAIN_REVERTED and named else None
