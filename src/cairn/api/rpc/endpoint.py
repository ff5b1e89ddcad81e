"""POST /rpc."""

from starlette.requests import Request
from starlette.responses import Response

from cairn.api.rest.bodies import JSON_MEDIA_TYPE, read_json_body
from cairn.api.rest.operation import Answer, Operation
from cairn.api.rpc.caller import is_caller_gone
from cairn.api.rpc.dispatch import Dispatcher
from cairn.api.rpc.filter_methods import asking_client
from cairn.api.rpc.simulation_methods import may_ask_more
from cairn.api.schemas import described
from cairn.api.server.access import CallCounter, RateLimiter, client_of
from cairn.config import Settings


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
        body = await read_json_body(request, self._settings.max_body_bytes)
        client = request.client.host if request.client else ""
        asking_client.set(client_of(client))
        is_caller_gone.set(request.is_disconnected)
        counter = CallCounter(self._limiter, client, already_counted=1)
        may_ask_more.set(counter.take)
        answer = await self._dispatcher.answer(body, counter)
        return Response(status_code=204) if answer is None else Response(answer, media_type=JSON_MEDIA_TYPE)
