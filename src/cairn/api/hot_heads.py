"""The heads of answers that are given without the application, made once for all."""

import asyncio
from collections.abc import Callable

from cairn.api.bodies import IMMUTABLE, REVALIDATE, encode_problem
from cairn.api.failures import error_of
from cairn.api.server.access import OriginList
from cairn.api.server.exchange import AnswerFuture, Exchange
from cairn.api.server.http_heads import NO_STORE, STATUS_LINES, Header, encode_lines, whole_response
from cairn.domain.errors import Fatal

JSON: Header = (b"content-type", b"application/json")


class Heads:
    """The heads of a route's answers, made again whenever the common headers change."""

    def __init__(self, origins: OriginList, on_fatal: Callable[[Fatal], None], for_wallets: bool) -> None:
        self._origins = origins
        self._on_fatal = on_fatal
        self._for_wallets = for_wallets
        self._headers: list[Header] = []
        self._common_lines = b""
        self.ok = b""
        """Of a 200, up to the value of its content-length."""
        self.no_content = b""
        self.revalidated = b""
        """Of a 200 that a client may keep if it asks each time whether it is still right, up to the tag in its ETag."""
        self.immutable = b""
        """The same, for what never changes."""

    def refresh(self, common_lines: bytes) -> None:
        self._common_lines = common_lines
        # The application answers whoever names an origin.
        self._headers = self._origins.headers_for(None, "own", self._for_wallets)
        self.ok = self._start(NO_STORE) + b"content-length: "
        self.revalidated, self.immutable = (
            self._start((b"cache-control", caching.encode())) + b'etag: "' for caching in (REVALIDATE, IMMUTABLE)
        )
        self.no_content = STATUS_LINES[204] + common_lines + encode_lines([*self._headers, NO_STORE]) + b"\r\n"

    def _start(self, caching: Header) -> bytes:
        return STATUS_LINES[200] + self._common_lines + encode_lines([JSON, *self._headers, caching])

    def failed(self, request: Exchange, failure: BaseException) -> bytes:
        """The whole answer to a request that was refused, or that could not be served."""
        error = error_of(failure, self._on_fatal, method=request.method, path=request.target.decode("latin-1"))
        request.is_plain = False
        request.status, headers, body = encode_problem(error)
        return whole_response(self._common_lines, request.status, [*headers, NO_STORE, *self._headers], body)

    def failure_of(self, request: Exchange, answering: AnswerFuture) -> bytes:
        """The whole answer, where there is no result."""
        # Raised, it would get a traceback, which would keep it.
        failure = asyncio.CancelledError() if answering.cancelled() else answering.exception()
        assert failure is not None
        return self.failed(request, failure)
