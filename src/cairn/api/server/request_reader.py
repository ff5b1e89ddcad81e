"""Reads the requests of a connection: every one is parsed here, once, and checked before anybody acts on it.

httptools parses. Its callbacks measure the head and the trailers, refuse what is ambiguous, find the client behind a
proxy, and count the bytes. A request that is not in order stops the parser, and the connection refuses it.

Programs send the same head again and again. So the head of a request for a hot route is remembered by its bytes
(`KnownHeads`), and a request that has it, and whose body comes with it, need not be parsed again.
"""

from collections import deque
from typing import NoReturn

import httptools

from cairn.api.server.access import PROBE_PATHS, client_of
from cairn.api.server.client_budgets import UNCOUNTED_BYTES, ReceivedBytes
from cairn.api.server.connection_slots import ConnectionSlot
from cairn.api.server.exchange import Client, Exchange, HttpConnection
from cairn.api.server.http_heads import Header, check_framing, split_target
from cairn.api.server.known_heads import GET, HEAD_END, NO_BODY
from cairn.api.server.server_state import ServerState
from cairn.domain.errors import HeadersTooLarge, MalformedRequest, NodeError, TooManyConnections, TooManyUnansweredBytes

MAX_HEAD_BYTES = 64 * 1024
"""Limit for the request target and all headers, with the trailers of a chunked body."""
MAX_EMPTY_BYTES = 64
"""Limit for empty lines before a request: some clients send one after a body, and HTTP says to ignore it."""
LINE_OVERHEAD = len(": \r\n")


class _Stopped(Exception):
    """Raised in a callback to stop the parser."""


class RequestReader:
    """The requests of one connection.

    Each is put into `waiting` once its head is complete, unless it asks for an upgrade: that one is `newest` when
    `feed` returns.
    """

    def __init__(
        self, connection: HttpConnection, state: ServerState, peer: Client | None, slot: ConnectionSlot,
        received: ReceivedBytes, waiting: deque[Exchange],
    ) -> None:  # fmt: skip
        self._connection = connection
        self._state = state
        self._slot = slot
        self._received = received
        self._waiting = waiting
        self._find_route, self._find_read = state.hot.find, state.hot.find_read
        self._peer = peer
        self._address = peer[0] if peer is not None else ""
        self._payer = client_of(self._address)
        self._is_limited = peer is not None and state.limiter.limits(self._address)
        self._is_behind_proxy = state.proxies.trusts(self._address)
        """The client of each request is who its head names."""
        self._serves_probes_only = slot.is_for_probes
        self._known_heads = state.known_heads
        self._is_at_start = not self._serves_probes_only
        """The parser has nothing of the next request, which may then pass it by. Never so where only probes may."""
        self.newest: Exchange | None = None
        """The latest request whose head is complete."""
        self.since: float | None = None
        """When the current request began to arrive."""
        self.in_body = False
        self._target: list[bytes] = []
        """In parts; empty outside of a head."""
        self.on_url = self._target.append
        self._headers: list[Header] = []
        self._message_bytes = 0
        """Of the current request at most: with all of the piece that it begins in."""
        self._trailer_bytes = 0
        """With the head, if that is large."""
        self._idle_bytes = 0
        """Parsed since the last part of a request: of a line that is not complete yet, or of empty lines."""
        self.held_bytes = 0
        """Of all requests that are not let go yet."""
        self._objection: BaseException | None = None
        """Why a callback stopped the parser: a refusal, or a defect."""
        self._renew()

    def _renew(self) -> None:
        """Start with a new parser: after an upgrade the old one reads nothing more."""
        self._parser = httptools.HttpRequestParser(self)
        # What follows a request that ends the connection is not parsed, and is no error.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def close(self) -> None:
        """Keep nothing of what was read, nor the parser and the connection, which hold on to this reader."""
        self.newest = None
        self._headers = []
        del self._parser, self._connection

    def let_go(self, request: Exchange) -> None:
        """Its bytes count no more."""
        self.held_bytes -= request.held_bytes
        request.held_bytes = 0

    def feed(self, data: bytes) -> bytes | None:
        """Parse. Raises the refusal. Returns what follows a head that asks for an upgrade, if there is one."""
        was_at_start = self._is_at_start
        if was_at_start and self._take_known(data):
            return None
        self._is_at_start = False
        self._message_bytes += len(data)
        self._idle_bytes += len(data)
        is_parsed, rest = True, None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
            self._renew()
        except httptools.HttpParserError as error:
            # The refusal is raised below: in here it would keep this error, and so the bytes that were parsed.
            is_parsed = False
            if self._objection is None and isinstance(error, httptools.HttpParserCallbackError):
                # A callback has failed.
                self._objection = error.__context__
        if not is_parsed:
            raise self._take_objection()
        if self._idle_bytes or self._target or self.in_body:
            self._check_unfinished(data)
        elif was_at_start and self.newest is not None and self.newest.keeps_alive:
            # What is complete and ends with an empty line leaves nothing behind.
            self._is_at_start = self._known_heads.learn(data, self.newest) or data.endswith(HEAD_END)
        return rest

    def _take_known(self, data: bytes) -> bool:
        """Take a whole request, and nothing else, whose head is known; of a GET, what follows the target.

        False if it has to be parsed, or if its client has too many connections: the parser's way serves probes only.
        Raises other refusals.
        """
        request = Exchange()
        if data.startswith(GET):
            try:
                _, target, rest = data.split(b" ", 2)
            except ValueError:
                return False
            known = self._known_heads.get(rest)
            # Not of a POST, which its client has put behind the target of a GET.
            if known is None or known.body_bytes != NO_BODY:
                return False
            route = self._find_read(target)
            if route is None:
                return False
            request.method, request.target, request.route = "GET", target, route
            _, request.headers, request.fields, _, _ = known
        else:
            head, end, body = data.partition(HEAD_END)
            known = self._known_heads.get(head)
            if known is None or not end or len(body) != known.body_bytes:
                return False
            request.method, request.body = "POST", body
            request.target, request.headers, request.fields, _, request.route = known
        request.connection, request.is_whole, request.is_plain = self._connection, True, True
        request.client, request.address = self._peer, self._address
        request.payer, request.is_limited = self._payer, self._is_limited
        if self._is_behind_proxy and not self._find_client(request):
            return False
        self.newest = request
        self._waiting.append(request)
        return True

    def _check_unfinished(self, data: bytes) -> None:
        """Check what has come and is not a complete part of a request."""
        if self.since is None and (self._target or self.in_body or data[-self._idle_bytes :].strip(b"\r\n")):
            self.since = self._state.now
        if self._target:
            size_bytes = size_of_head(b"".join(self._target), self._headers)
            # Until the first header the target is among them.
            size_bytes = size_bytes + self._idle_bytes if self._headers else max(size_bytes, self._idle_bytes)
            if size_bytes > MAX_HEAD_BYTES:
                raise _head_too_large()
            self._received.hold(self.held_bytes + size_bytes)
        elif self.in_body:
            if self._trailer_bytes + self._idle_bytes > MAX_HEAD_BYTES:
                raise _head_too_large()
        elif self._idle_bytes > MAX_EMPTY_BYTES and (self.newest is None or self.newest.keeps_alive):
            # After a request that ends the connection nothing is parsed.
            raise MalformedRequest("there are empty lines where a request should be")

    def _take_objection(self) -> BaseException:
        objection, self._objection = self._objection, None
        return objection or MalformedRequest("the request is not valid HTTP/1.1")

    def _object(self, error: NodeError) -> NoReturn:
        """Stop the parser, from one of its callbacks, and refuse the request."""
        self._objection = error
        raise _Stopped

    def _hold(self, request: Exchange, size_bytes: int) -> None:
        """Count what a request brings, before anybody sees it: what is refused must not be done."""
        held_bytes = self.held_bytes + size_bytes
        if held_bytes > UNCOUNTED_BYTES or self._received.counted:
            try:
                self._received.hold(held_bytes)
            except TooManyUnansweredBytes as refused:
                self._object(refused)
        self.held_bytes = held_bytes
        request.held_bytes += size_bytes

    # The parser's callbacks, in the order in which they come; `on_url` is the first.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._idle_bytes = 0
        if not self.in_body:
            self._headers.append((name.lower(), value))
            return
        # Trailers are not used, and must not be read as headers.
        self._trailer_bytes += len(name) + len(value) + LINE_OVERHEAD
        if self._trailer_bytes > MAX_HEAD_BYTES:
            self._object(_head_too_large())

    def on_headers_complete(self) -> None:
        parser, parts, headers = self._parser, self._target, self._headers
        target = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._headers = []
        request = Exchange()
        request.connection, request.method = self._connection, parser.get_method().decode()
        request.target, request.headers, request.fields = target, headers, dict(headers)
        request.is_plain = True
        is_kept = parser.should_keep_alive()
        if not is_kept or b"connection" in request.fields:
            # Without that header, only version 1.1 keeps a connection.
            request.version = parser.get_http_version()
        request.keeps_alive = is_kept and request.version != "1.0" and not self._serves_probes_only
        request.is_upgrade = parser.should_upgrade()
        request.client, request.address = self._peer, self._address
        request.payer, request.is_limited = self._payer, self._is_limited
        self._idle_bytes = self._trailer_bytes = 0
        if self._message_bytes > UNCOUNTED_BYTES:
            self._measure(request)
        # What it takes is unambiguous.
        request.route = self._find_route(request)
        if request.route is None:
            self._check(request)
        if self._is_behind_proxy or self._serves_probes_only:
            self._find_slot(request)
        self.newest = request
        self.in_body = True
        if not request.is_upgrade:
            self._waiting.append(request)

    def _measure(self, request: Exchange) -> None:
        self._trailer_bytes = head_bytes = size_of_head(request.target, request.headers)
        if head_bytes > MAX_HEAD_BYTES:
            self._object(_head_too_large())
        self._hold(request, head_bytes)

    def _check(self, request: Exchange) -> None:
        """Object to a request that is ambiguous."""
        try:
            request.path, request.query = split_target(request.target)
            if request.version != "1.1" or b"transfer-encoding" in request.fields:
                check_framing(request.version, request.headers)
        except MalformedRequest as unclear:
            self._object(unclear)
        if b"expect" in request.fields:
            request.expects_continue = request.fields[b"expect"].lower() == b"100-continue"

    def _find_slot(self, request: Exchange) -> None:
        """Object to a request, unless for a probe, if its client has too many connections."""
        try:
            has_slot = not self._is_behind_proxy or self._find_client(request)
        except (MalformedRequest, TooManyUnansweredBytes) as refused:
            self._object(refused)
        # Of a request for a hot route, the path is not split off.
        path = (request.path or request.target).decode()
        if (self._serves_probes_only or not has_slot) and path not in PROBE_PATHS:
            self._object(too_many_connections())

    def _find_client(self, request: Exchange) -> bool:
        """Let the request be that of the client which the proxy names; False if that one has too many connections."""
        named = self._state.proxies.find_client(request.headers)
        if named is not None:
            request.client, request.address = (named, 0), named
            request.payer, request.is_limited = client_of(named), self._state.limiter.limits(named)
        self._received.move_to(request.address)
        return self._state.slots.move(self._slot, request.address)

    def on_body(self, body: bytes) -> None:
        self._idle_bytes = 0
        request = self.newest
        assert request is not None
        if not (request.is_upgrade or request.is_answered or request.disconnected):
            if self._message_bytes > UNCOUNTED_BYTES:
                self._hold(request, len(body))
            # No more than the connection reads ahead.
            request.body = request.body + body if request.body else body
            if request.has_begun:
                request.wake()

    def on_message_complete(self) -> None:
        self.in_body = False
        self._idle_bytes = 0
        # What follows in this piece is not counted for what comes after it.
        self._message_bytes = 0
        self.since = None
        request = self.newest
        assert request is not None
        request.is_whole = True
        if request.has_begun:
            request.wake()


def size_of_head(target: bytes, headers: list[Header]) -> int:
    return len(target) + sum([len(name) + len(value) + LINE_OVERHEAD for name, value in headers])


def too_many_connections() -> TooManyConnections:
    return TooManyConnections("too many connections to this node, or from your address")


def _head_too_large() -> HeadersTooLarge:
    return HeadersTooLarge(f"the request's headers and trailers have more than {MAX_HEAD_BYTES} bytes")
