"""POST /rpc, and WS /rpc: the same methods, and subscriptions."""

from itertools import count

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from websockets.frames import CloseCode

from cairn.api.bodies import json_response, read_json_body
from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.api.events.socket import check_client
from cairn.api.routing import Answer, Operation
from cairn.api.rpc.caller import Caller
from cairn.api.rpc.dispatch import Dispatcher, handlers_of
from cairn.api.rpc.subscriptions import ArrivalFeed, HeadTexts, Subscriptions, text_frame_parts
from cairn.api.server.access import GUEST, OriginList, RateLimiter
from cairn.api.server.http_heads import absence_in
from cairn.api.server.websocket_protocol import EventsProtocol
from cairn.api.server.websocket_session import EXTENSION
from cairn.config import Settings
from cairn.core.gateway import CoreGateway
from cairn.domain.errors import NodeError
from cairn.domain.json_fields import described
from cairn.time_shares import in_slices

log = structlog.get_logger("cairn.rpc")


class RpcEndpoint:
    def __init__(self, dispatcher: Dispatcher, limiter: RateLimiter, settings: Settings) -> None:
        self._dispatcher = dispatcher
        self._limiter = limiter
        self._settings = settings

    @Operation(
        "POST /rpc",
        "json-rpc",
        Answer(
            "The answer, or the answers of a batch in any order. A failed call has `error`.", described("RpcAnswers")
        ),
        Answer("No answer: all calls were notifications.", status=204),
        body=described("RpcMessage"),
    )
    async def call_rpc(self, request: Request) -> Response:
        """Call Ethereum's JSON-RPC, for wallets and libraries.

        One call, or a batch of them. The path also accepts WebSockets. docs/json-rpc.md lists the methods.
        """
        body = await read_json_body(request, self._settings.max_batch_body_bytes)
        address = request.client.host if request.client else ""
        guest = request.scope.get(GUEST)
        caller = Caller(address, self._limiter, absence_in(request.receive), already_counted=1, guest=guest)
        answer = await self._dispatcher.answer(body, caller)
        return Response(status_code=204) if answer is None else json_response(answer)


class RpcSocketEndpoint:
    """The ASGI application behind the WebSocket at /rpc; it needs `EventsProtocol` as the server's protocol."""

    def __init__(
        self, calls: Dispatcher, gateway: CoreGateway, view: ChainView, hub: EventHub, limiter: RateLimiter,
        origins: OriginList, settings: Settings,
    ) -> None:  # fmt: skip
        self._calls = calls
        self._hub = hub
        self._limiter = limiter
        self._settings = settings
        self._origins = origins
        self._heads = HeadTexts(view)
        self._arrivals = ArrivalFeed(gateway, view, hub.shares)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection: EventsProtocol = scope["extensions"][EXTENSION]["connection"]
        await receive()
        try:
            guest = check_client(scope, connection, self._origins, for_wallets=True)
            self._hub.check_open()
        except NodeError as refused:
            connection.refuse(refused)
            return
        connection.limit(self._settings, self._settings.max_batch_body_bytes)
        await send({"type": "websocket.accept"})
        address = scope["client"][0] if scope["client"] else ""
        caller = Caller(address, self._limiter, connection.has_left, guest=guest)
        subscriptions = Subscriptions(connection, caller.client, self._hub, self._heads, self._arrivals)
        try:
            await self._listen(connection, subscriptions, caller, receive)
        except Exception:
            log.exception("a JSON-RPC socket failed")
            connection.close(CloseCode.INTERNAL_ERROR, "the node failed")
        finally:
            subscriptions.close()

    async def _listen(
        self, connection: EventsProtocol, subscriptions: Subscriptions, caller: Caller, receive: Receive
    ) -> None:
        dispatcher = self._calls.having(handlers_of(subscriptions))
        # However many messages there are, others have their turn.
        async for _ in in_slices(count()):
            # A client that does not read gets no more answers until it does.
            await connection.writable.wait()
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            answer = await dispatcher.answer(message.get("text") or message.get("bytes") or b"", caller)
            if answer is not None:
                for part in text_frame_parts(answer):
                    connection.write(part)
            subscriptions.begin()
