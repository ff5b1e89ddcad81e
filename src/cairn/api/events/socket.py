"""WS /events: accepts connections, and handles each message."""

import asyncio
from itertools import count, islice

import structlog
from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from websockets.frames import CloseCode

from cairn.api.events.hub import EventHub
from cairn.api.events.messages import (
    BlocksSubscribed,
    BlocksUnsubscribed,
    Command,
    FollowAddresses,
    FollowTransaction,
    PaymentsSubscribed,
    PaymentsUnsubscribed,
    RequestId,
    ServerMessage,
    SubscribeBlocks,
    Subscription,
    TxSubscribed,
    TxUnsubscribed,
    UnfollowAddresses,
    UnfollowTransaction,
    UnsubscribeBlocks,
    decode_message,
    encode_frame,
    error_message,
    id_of,
    parse_addresses,
    parse_amounts,
    parse_command,
    parse_subscriptions,
    parse_tx_hash,
)
from cairn.api.events.subscribers import Subscriber
from cairn.api.routing import Operation
from cairn.api.server.access import OriginList, client_of, find_origin
from cairn.api.server.websocket_protocol import EventsProtocol
from cairn.api.server.websocket_session import EXTENSION
from cairn.config import Settings
from cairn.core.gateway import CoreGateway, DroppedTx, PendingTx
from cairn.domain.answers import TxQueued, queued_reason
from cairn.domain.errors import (
    Fatal,
    FollowLimit,
    NodeError,
    Rejected,
    Unavailable,
    UnsupportedMediaType,
    UpgradeRequired,
)
from cairn.domain.json_fields import hex_text
from cairn.domain.types import TxHash
from cairn.time_shares import in_slices

BURST = 64
"""Messages of one client whose answers are written together."""
AT_ONCE = 64
"""Unanswered questions at the same time: a thousand of one client must not delay another's submission."""
RETRY_S = 0.5

log = structlog.get_logger("cairn.events")


class EventsEndpoint:
    """The ASGI application behind /events; it needs `EventsProtocol` as the server's WebSocket protocol."""

    def __init__(self, gateway: CoreGateway, hub: EventHub, origins: OriginList, settings: Settings) -> None:
        self._hub = hub
        self._settings = settings
        self._origins = origins
        # It registers with the hub.
        self._statuses = FollowStatus(gateway, hub)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection: EventsProtocol = scope["extensions"][EXTENSION]["connection"]
        await receive()
        try:
            subscriptions = self._admit(scope, connection)
        except NodeError as refused:
            connection.refuse(refused)
            return
        connection.limit(self._settings, self._settings.ws_max_message_bytes)
        await send({"type": "websocket.accept"})
        client = client_of(scope["client"][0]) if scope["client"] else ""
        subscriber = self._hub.attach(connection, client, form=parse_amounts(scope["query_string"]))
        try:
            for subscription in subscriptions:
                self._attempt(subscriber, subscription)
            await self._listen(subscriber, connection, receive)
        except Fatal as failure:
            self._hub.fail(failure)
            connection.close(CloseCode.INTERNAL_ERROR, "the node failed")
        except Exception:
            log.exception("an event socket failed")
            connection.close(CloseCode.INTERNAL_ERROR, "the node failed")
        finally:
            self._hub.detach(subscriber)

    def _admit(self, scope: Scope, connection: EventsProtocol) -> list[Subscription]:
        """The subscriptions in the URL. Raises the refusal of this client."""
        check_client(scope, connection, self._origins)
        subscriptions = parse_subscriptions(scope["query_string"])
        if sum(isinstance(each, FollowTransaction) for each in subscriptions) > self._settings.ws_max_followed:
            raise FollowLimit(f"a socket follows at most {self._settings.ws_max_followed} transactions at once")
        self._hub.check_open()
        return subscriptions

    async def _listen(self, subscriber: Subscriber, connection: EventsProtocol, receive: Receive) -> None:
        # However many messages there are, others have their turn.
        async for handled in in_slices(count(1)):
            # A client that does not read gets no more answers until it does.
            await connection.writable.wait()
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            self._handle(subscriber, message.get("text"))
            if handled % BURST == 0:
                subscriber.flush_replies()

    def _handle(self, subscriber: Subscriber, text: str | None) -> None:
        request_id: RequestId | UnsetType = UNSET
        try:
            if text is None:
                raise UnsupportedMediaType("messages are JSON in text frames")
            message = decode_message(text)
            request_id = id_of(message)
            command = parse_command(message)
        except Rejected as refused:
            self._report(subscriber, refused, request_id)
        else:
            self._attempt(subscriber, command)

    def _attempt(self, subscriber: Subscriber, command: Command) -> None:
        try:
            self._perform(subscriber, command)
        except (Rejected, Unavailable) as refused:
            self._report(subscriber, refused, command.id)

    def _report(self, subscriber: Subscriber, refused: NodeError, request_id: RequestId | UnsetType) -> None:
        self._hub.reply(subscriber, encode_frame(error_message(refused, request_id)))

    def _perform(self, subscriber: Subscriber, command: Command) -> None:
        """Carry out a command and answer it, before any event that results from it."""
        hub = self._hub
        answer: ServerMessage
        match command:
            case SubscribeBlocks(from_height=wanted):
                height = hub.subscribe_blocks(subscriber, None if wanted is UNSET else wanted)
                answer = BlocksSubscribed(from_height=height, id=command.id)
            case UnsubscribeBlocks():
                hub.unsubscribe_blocks(subscriber)
                answer = BlocksUnsubscribed(id=command.id)
            case FollowTransaction(tx_hash=text):
                hub.follow(subscriber, parse_tx_hash(text))
                if command.queued is True:
                    self._statuses.ask(parse_tx_hash(text), subscriber)
                answer = TxSubscribed(tx_hash=text.lower(), id=command.id)
            case UnfollowTransaction(tx_hash=text):
                hub.unfollow(subscriber, parse_tx_hash(text))
                answer = TxUnsubscribed(tx_hash=text.lower(), id=command.id)
            case FollowAddresses(addresses=texts, from_height=wanted):
                height = hub.follow_addresses(subscriber, parse_addresses(texts), None if wanted is UNSET else wanted)
                answer = PaymentsSubscribed(from_height=height, followed=subscriber.followed_addresses, id=command.id)
            case UnfollowAddresses(addresses=given):
                hub.unfollow_addresses(subscriber, None if given is UNSET else parse_addresses(given))
                answer = PaymentsUnsubscribed(followed=subscriber.followed_addresses, id=command.id)
        hub.reply(subscriber, encode_frame(answer))


class EventsOverHttp:
    """Answers plain HTTP on the path of the WebSocket."""

    @Operation("GET /events", "events")
    async def refuse_plain_http(self, request: Request) -> Response:
        """Refuse plain HTTP. The OpenAPI document does not list it."""
        raise UpgradeRequired("connect with a WebSocket client; /asyncapi.json describes the messages")


def check_client(
    scope: Scope, connection: EventsProtocol, origins: OriginList, for_wallets: bool = False
) -> str | None:
    """Check the handshake, and that a page of this origin may connect. Raises the refusal.

    Returns the origin of a guest.
    """
    if connection.refusal is not None:
        raise connection.refusal
    origin = find_origin(scope["headers"])
    # Browsers do not apply CORS to WebSockets.
    if origin is None:
        return None
    host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
    return origin if origins.check(origin, host, for_wallets) == "guest" else None


class FollowStatus:
    """Asks the core for the status of followed transactions that the store does not show.

    One may have been dropped, or be queued, which those sockets are told that want to know.
    One question per transaction, however many sockets follow it; repeated until the core answers.
    """

    def __init__(self, gateway: CoreGateway, hub: EventHub) -> None:
        self._gateway = gateway
        self._hub = hub
        self._open: dict[TxHash, set[Subscriber]] = {}
        """The questions, with the sockets that want to know whether it is queued."""
        self._task: asyncio.Task[None] | None = None
        hub.on_unsure(self.ask)

    def ask(self, tx_hash: TxHash, *if_queued: Subscriber) -> None:
        self._open.setdefault(tx_hash, set()).update(if_queued)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._open:
                await self._ask_some()
        except Exception as failure:
            log.error("asking the core about followed transactions failed", exc_info=failure)
        finally:
            self._task = None

    async def _ask_some(self) -> None:
        batch = {tx_hash: self._open.pop(tx_hash) for tx_hash in list(islice(self._open, AT_ONCE))}
        asked = ((tx_hash, sockets) for tx_hash, sockets in batch.items() if self._hub.is_followed(tx_hash))
        answers = await asyncio.gather(*(self._answer(tx_hash, sockets) for tx_hash, sockets in asked))
        if not all(answers):
            await asyncio.sleep(RETRY_S)

    async def _answer(self, tx_hash: TxHash, if_queued: set[Subscriber]) -> bool:
        """Returns False when the core cannot say now; the question is then open again."""
        try:
            status = await self._gateway.find_tx(tx_hash)
        except Unavailable:
            self._open.setdefault(tx_hash, set()).update(if_queued)
            return False
        # A confirmed one needs nothing: its event comes with its block.
        if isinstance(status, DroppedTx):
            self._hub.on_dropped(tx_hash, status.reason)
        elif if_queued and isinstance(status, PendingTx) and status.waits_for_nonce is not None:
            frame = encode_frame(TxQueued(hex_text(tx_hash), queued_reason(status.waits_for_nonce)))
            for subscriber in if_queued:
                # It may have been told meanwhile how the transaction ended, or have left.
                if tx_hash in subscriber.followed:
                    self._hub.reply(subscriber, frame)
        return True
