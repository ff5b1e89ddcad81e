"""POST /rpc."""

from starlette.requests import Request
from starlette.responses import Response

from cairn.api.rest.bodies import read_json_body
from cairn.api.rest.lookups import json_response
from cairn.api.rest.operation import Answer, Operation
from cairn.api.rpc.caller import Caller
from cairn.api.rpc.dispatch import Dispatcher
from cairn.api.server.access import RateLimiter
from cairn.api.server.request_framing import absence_in
from cairn.config import Settings
from cairn.domain.json_fields import described


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
        address = request.client.host if request.client else ""
        caller = Caller(address, self._limiter, absence_in(request.receive), already_counted=1)
        answer = await self._dispatcher.answer(body, caller)
        return Response(status_code=204) if answer is None else json_response(answer)
