"""Which request heads are plain: those whose requests the fast path may answer."""

import httptools

from cairn.api.rest.bodies import is_json
from cairn.api.server.access import HostList
from cairn.api.server.trusted_proxies import TrustedProxies
from cairn.domain.errors import MalformedRequest

MAX_HEADS = 512
MAX_PLAIN_HEAD_BYTES = 2_048
MAX_PLAIN_BODY_BYTES = 4_096
"""A transaction has some 450 bytes, and most calls have fewer; what is longer is not plain."""
NOT_PLAIN = -1
REQUEST_LINE_END = b" HTTP/1.1\r\n"
# Each needs something that only the full lane does.
UNUSUAL = frozenset({b"origin", b"expect", b"upgrade", b"transfer-encoding", b"content-encoding", b"if-none-match"})


class PlainHeads(dict[bytes, int]):
    """Request heads that are known to be plain, so that the next one of the same bytes needs no parsing.

    A client sends the same head again and again; only the path or the length changes. Each distinct head is parsed
    once, by the same parser as every other request, and checked. The fast path serves a request only if exactly these
    bytes were found plain, so the two paths can never read the same bytes differently.

    The key is what follows the path. The value is the length of the body, or `NOT_PLAIN` if the full lane must read it.
    """

    def __init__(self, method: bytes, hosts: HostList, proxies: TrustedProxies, max_body_bytes: int) -> None:
        super().__init__()
        self.clients: dict[bytes, str] = {}
        """The clients that plain heads name, for those that come from a trusted proxy."""
        self._proxies = proxies
        # Any path will do: the key begins behind it.
        self._start = method + b" /"
        self._hosts = hosts
        self._max_body_bytes = min(max_body_bytes, MAX_PLAIN_BODY_BYTES)

    def __missing__(self, rest: bytes) -> int:
        # It must follow the path directly; otherwise the path is another one.
        if len(rest) > MAX_PLAIN_HEAD_BYTES or not rest.startswith(REQUEST_LINE_END):
            return NOT_PLAIN
        # A client that sends ever new heads must not fill the memory; common heads are soon learned again.
        if len(self) >= MAX_HEADS:
            self.forget()
        verdict = self[rest] = self._judge(rest)
        return verdict

    def forget(self) -> None:
        """Parse every head again; also when other proxies are trusted than before."""
        self.clear()
        self.clients.clear()

    def _judge(self, rest: bytes) -> int:
        head = _Head()
        try:
            head.parser.feed_data(self._start + rest)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return NOT_PLAIN
        if not head.stays_open or head.has_doubles or not head.headers.keys().isdisjoint(UNUSUAL):
            return NOT_PLAIN
        host = head.headers.get(b"host")
        if host is None or not self._hosts.allows(host):
            return NOT_PLAIN
        if self._proxies:
            try:
                client = self._proxies.find_client(head.headers.items())
            except MalformedRequest:
                return NOT_PLAIN
            if client is not None:
                self.clients[rest] = client
        length = head.body_length(has_body=self._start.startswith(b"POST"))
        return length if length <= self._max_body_bytes else NOT_PLAIN


class _Head:
    """What the parser finds."""

    def __init__(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.headers: dict[bytes, bytes] = {}
        self.has_doubles = False
        self.stays_open = False
        """Whether the head is complete and the connection is kept after it."""

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self.has_doubles |= name in self.headers
        self.headers[name] = value

    def on_headers_complete(self) -> None:
        # Only now: the parser forgets it at the end of the message.
        self.stays_open = self.parser.should_keep_alive()

    def body_length(self, has_body: bool) -> int:
        declared = self.headers.get(b"content-length")
        if not has_body:
            return 0 if declared is None else NOT_PLAIN
        # The parser has made sure that the length is digits.
        if declared is None or len(declared) > 5:
            return NOT_PLAIN
        return int(declared) if is_json(self.headers.get(b"content-type", b"").decode("latin-1")) else NOT_PLAIN
