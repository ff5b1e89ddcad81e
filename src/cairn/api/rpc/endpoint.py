"""POST /rpc."""

from starlette.requests import Request
from starlette.responses import Response

from cairn.api.access import RateLimiter
from cairn.api.bodies import read_json_body
from cairn.api.reads import json_response
from cairn.api.rpc.dispatch import Dispatcher
from cairn.config import Settings


class RpcEndpoint:
    def __init__(self, dispatcher: Dispatcher, limiter: RateLimiter, settings: Settings) -> None:
        self._dispatcher = dispatcher
        self._limiter = limiter
        self._settings = settings

    async def post(self, request: Request) -> Response:
        body = await read_json_body(request, self._settings.max_body_bytes)
        client = request.client.host if request.client else ""
        answer = await self._dispatcher.answer(body, CallCounter(self._limiter, client, already_counted=1))
        return Response(status_code=204) if answer is None else json_response(answer)


class CallCounter:
    """Counts each call of a client against its rate limit, as a request of its own."""

    def __init__(self, limiter: RateLimiter, client: str, already_counted: int = 0) -> None:
        """`already_counted`: an HTTP request was counted for its first call."""
        self._limiter = limiter
        self._client = client
        self._free = already_counted
        self._is_limited = limiter.limits(client)

    def __call__(self) -> bool:
        if self._free:
            self._free -= 1
            return True
        return not self._is_limited or self._limiter.take(self._client)
