"""Request heads that are known to be plain, so that the next one of the same bytes needs no parsing.

A client sends the same head again and again; only the path or the length changes. Each distinct head is parsed once,
by the same parser that serves everything else, and judged; the fast lane takes a request only on a good verdict over
exactly these bytes. So the two lanes can never read the same bytes differently.
"""

import httptools

from cairn.api.rest.bodies import is_json
from cairn.api.server.access import HostList

MAX_HEADS = 512
MAX_HEAD_BYTES = 2_048
MAX_BODY_BYTES = 4_096
"""A transaction has some 450 bytes; what is longer is not plain."""
NOT_PLAIN = -1
REQUEST_LINE_END = b" HTTP/1.1\r\n"

# Each asks for something that only the full lane does.
UNUSUAL = frozenset({b"origin", b"expect", b"upgrade", b"transfer-encoding", b"content-encoding", b"if-none-match"})


class PlainHeads:
    def __init__(self, hosts: HostList) -> None:
        self._hosts = hosts
        self._posts: dict[bytes, int] = {}
        self._gets: dict[bytes, int] = {}

    def post_length(self, rest: bytes) -> int:
        """The body's length for a head that is POST /tx and `rest`; `NOT_PLAIN` if it needs the full lane."""
        length = self._posts.get(rest)
        return self._learn(self._posts, b"POST /tx", rest) if length is None else length

    def is_plain_get(self, rest: bytes) -> bool:
        """The same for GET, a path and `rest`, with no query and no body."""
        length = self._gets.get(rest)
        return (self._learn(self._gets, b"GET /tx", rest) if length is None else length) == 0

    def _learn(self, known: dict[bytes, int], start: bytes, rest: bytes) -> int:
        # Right behind the path, or it is not the path that was looked at.
        if len(rest) > MAX_HEAD_BYTES or not rest.startswith(REQUEST_LINE_END):
            return NOT_PLAIN
        # Whoever sends ever new heads must not fill the memory; the others are soon learned again.
        if len(known) >= MAX_HEADS:
            known.clear()
        verdict = known[rest] = self._judge(start, rest)
        return verdict

    def _judge(self, start: bytes, rest: bytes) -> int:
        head = _Head()
        try:
            head.parser.feed_data(start + rest)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return NOT_PLAIN
        if not head.stays_open or head.has_doubles or not head.headers.keys().isdisjoint(UNUSUAL):
            return NOT_PLAIN
        host = head.headers.get(b"host")
        if host is None or not self._hosts.allows(host):
            return NOT_PLAIN
        return head.body_length(has_body=start.startswith(b"POST"))


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
        if declared is None or len(declared) > 5 or int(declared) > MAX_BODY_BYTES:
            return NOT_PLAIN
        return int(declared) if is_json(self.headers.get(b"content-type", b"").decode("latin-1")) else NOT_PLAIN
