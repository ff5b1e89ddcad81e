"""Checks requests before uvicorn sees them: the size of the head, the framing of the body, the trailers.

The parser's callbacks come here first. Valid requests are passed to uvicorn's callbacks of the same names. An
invalid one stops the parser, and the connection refuses it.
"""

from typing import NoReturn

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from cairn.api.rest.probes import PROBE_PATHS
from cairn.api.server.connection_slots import Place
from cairn.api.server.fast_path import FastPath
from cairn.api.server.received_bytes import ReceivedBytes
from cairn.api.server.request_framing import check_framing, check_target
from cairn.domain.errors import HeadersTooLarge, MalformedRequest, NodeError, TooManyConnections, TooManyUnansweredBytes

MAX_HEAD_BYTES = 64 * 1024
"""Limit for the request target and all headers, with the trailers of a chunked body."""
MAX_EMPTY_BYTES = 64
"""Limit for empty lines before a request: some clients send one after a body, and HTTP says to ignore it."""
LINE_OVERHEAD = len(": \r\n")


class _Stopped(Exception):
    """Raised in a callback to stop the parser."""


class RequestParser:
    """The requests of one connection."""

    def __init__(self, connection: HttpToolsProtocol, lane: FastPath) -> None:
        self._connection = connection
        self._lane = lane
        self._place: Place | None = None
        self._is_proxy = False
        """The client of each request is who its head names."""
        self.serves_probes_only = False
        self.since: float | None = None
        """When the current request began, also on the fast path."""
        self.in_head = self.in_body = False
        self._asks_for_upgrade = False
        self._head_bytes = 0
        """Bytes of the complete lines of head and trailers."""
        self.unsaid_bytes = 0
        """Bytes of a line that is not complete yet."""
        self._received: ReceivedBytes | None = None
        self._held: dict[RequestResponseCycle, int] = {}
        """Bytes of the requests that the application has not let go yet."""
        self.held_bytes = 0
        """The sum of them."""
        self._objection: NodeError | None = None
        """Why a callback stopped the parser."""
        self.renew()

    def admitted(self, peer: str, place: Place, received: ReceivedBytes) -> None:
        self._place = place
        self._received = received
        self._is_proxy = self._lane.proxies.trusts(peer)
        self.serves_probes_only = place.is_for_probes

    def renew(self) -> None:
        """Start a new parser after an upgrade: the old one reads nothing more."""
        self._connection.parser = httptools.HttpRequestParser(self)
        # As uvicorn sets it: what follows a request that ends the connection is not parsed.
        self._connection.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def let_go(self, request: RequestResponseCycle) -> None:
        """The application has ended with the request, or never hears of it."""
        self.held_bytes -= self._held.pop(request, 0)

    def feed(self, data: bytes) -> None:
        """Raises the refusal; or `HttpParserUpgrade` with the end of a head that asks for an upgrade."""
        self.unsaid_bytes += len(data)
        if not self._parse(data):
            raise self._take_objection()
        if self.in_head or self.in_body:
            if self._head_bytes + self.unsaid_bytes > MAX_HEAD_BYTES:
                raise _head_too_large()
            if self.in_head:
                assert self._received is not None
                self._received.hold(self.held_bytes + self._head_bytes + self.unsaid_bytes)
        elif self.unsaid_bytes > MAX_EMPTY_BYTES and self._is_next_awaited():
            raise MalformedRequest("there are empty lines where a request should be")

    def _parse(self, data: bytes) -> bool:
        try:
            self._connection.parser.feed_data(data)
        except httptools.HttpParserError:
            return False
        return True

    def _take_objection(self) -> NodeError:
        # Kept neither here nor by a frame of its own traceback: that would keep the bytes that were parsed, too.
        objection, self._objection = self._objection, None
        return objection or MalformedRequest("the request is not HTTP/1.1 as it should be")

    def _is_next_awaited(self) -> bool:
        """Whether bytes are parsed: after a request that ends the connection they are not."""
        cycle = self._connection.cycle
        # uvicorn declares it as always there; it is not before the first request.
        return not bool(cycle) or cycle.keep_alive

    def _take_in(self, size_bytes: int) -> None:
        """Count what the newest request brings, before the application sees it: it must not do what is refused."""
        assert self._received is not None
        try:
            self._received.hold(self.held_bytes + size_bytes)
        except TooManyUnansweredBytes as refused:
            self._object(refused)
        self.held_bytes += size_bytes

    def _object(self, error: NodeError) -> NoReturn:
        """Stop the parser, from one of its callbacks, and refuse the request."""
        self._objection = error
        raise _Stopped

    # The parser's callbacks.

    def on_message_begin(self) -> None:
        self._connection.on_message_begin()
        self.in_head = True
        self._head_bytes = self.unsaid_bytes = 0
        self.since = self._lane.now

    def on_url(self, url: bytes) -> None:
        self._connection.on_url(url)
        self._head_bytes += len(url)
        self.unsaid_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + LINE_OVERHEAD
        self.unsaid_bytes = 0
        if self.in_head:
            self._connection.on_header(name, value)
        elif self._head_bytes > MAX_HEAD_BYTES:
            self._object(_head_too_large())
        # Trailers are not used, and must not be read as headers.

    def on_headers_complete(self) -> None:
        connection = self._connection
        if self._head_bytes > MAX_HEAD_BYTES:
            self._object(_head_too_large())
        try:
            check_target(connection.url)
            check_framing(connection.parser.get_http_version(), connection.headers)
        except MalformedRequest as unclear:
            self._object(unclear)
        has_place = (not self._is_proxy or self._find_client()) and not self.serves_probes_only
        if not has_place and connection.url.partition(b"?")[0].decode("latin-1") not in PROBE_PATHS:
            self._object(too_many_connections())
        # The connection decides about the upgrade after the parser has stopped; until then it is not a request.
        self._asks_for_upgrade = connection.parser.should_upgrade()
        if not self._asks_for_upgrade:
            self._take_in(self._head_bytes)
            connection.on_headers_complete()
            self._held[connection.cycle] = self._head_bytes
            if self.serves_probes_only:
                connection.cycle.keep_alive = False
        self.in_head, self.in_body = False, True
        self.unsaid_bytes = 0

    def _find_client(self) -> bool:
        """Let the request be that of the client which the proxy names; False if that one has too many connections."""
        connection = self._connection
        try:
            client = self._lane.proxies.find_client(connection.headers)
        except MalformedRequest as unclear:
            self._object(unclear)
        if client is not None:
            connection.scope["client"] = (client, 0)
        asks = connection.scope["client"]
        assert self._place is not None
        assert self._received is not None
        assert asks is not None
        try:
            self._received.move_to(asks[0])
        except TooManyUnansweredBytes as refused:
            self._object(refused)
        return self._lane.occupancy.move(self._place, asks[0])

    def on_body(self, body: bytes) -> None:
        if not self._asks_for_upgrade and not self._connection.cycle.response_complete:
            self._take_in(len(body))
            self._held[self._connection.cycle] += len(body)
        self._connection.on_body(body)
        self.unsaid_bytes = 0

    def on_message_complete(self) -> None:
        if not self._asks_for_upgrade:
            self._connection.on_message_complete()
        self.in_body = False
        self.unsaid_bytes = 0
        self.since = None


def too_many_connections() -> TooManyConnections:
    return TooManyConnections("this node serves as many connections, or as many of yours, as it may")


def _head_too_large() -> HeadersTooLarge:
    return HeadersTooLarge(f"the request's head has more than {MAX_HEAD_BYTES} bytes, with what trails its body")
