"""Heads of requests that were parsed before, by their bytes.

Programs send the same head again and again: the parser need not find the same in it each time. Of a read, the target is
another one each time, so its head is known by what follows the target.
"""

from typing import NamedTuple

from cairn.api.server.exchange import Exchange, HotRoute
from cairn.api.server.http_heads import Header

GET = b"GET "
POST = b"POST "
LINE_END = b"\r\n"
HEAD_END = b"\r\n\r\n"
MAX_HEADS = 1_000
"""Behind a proxy, each client has its own."""
MAX_HEAD_BYTES = 1_024
"""Most have some 200."""


NO_BODY = -1
"""Of a POST with an empty body it is 0."""


class KnownHead(NamedTuple):
    """What the parser and the checks have made of a head."""

    target: bytes
    headers: list[Header]
    fields: dict[bytes, bytes]
    body_bytes: int
    """`NO_BODY` of a read."""
    route: HotRoute


class KnownHeads(dict[bytes, KnownHead]):
    """Remembers heads of requests for hot routes. What they mean depends on their bytes and the settings alone.

    Of a POST, the key is the head without the empty line at its end; of a GET, all that follows the target and a space.
    A client may send either in the place of the other, so whoever looks one up must look at `body_bytes`, too.
    """

    def learn(self, data: bytes, request: Exchange) -> bool:
        """Remember the head, if `data` is one whole request for a hot route and nothing else. Returns whether it is.

        `request` is the last one that the parser has completed in `data`, which begins with a request.
        """
        body_at = data.find(HEAD_END) + len(HEAD_END)
        head, body = data[:body_at], request.body
        if (
            request.route is None
            or len(head) > MAX_HEAD_BYTES
            # Each line is a header, except for the first and the last: so the parser has found the same end.
            or head.count(LINE_END) != len(request.headers) + 2
            or head.count(LINE_END) != head.count(b"\n")
            or body != data[body_at:]
        ):
            return False
        if head.startswith(b"%b%b " % (GET, request.target)):
            key, body_bytes = head[len(GET) + len(request.target) + 1 :], NO_BODY
        elif head.startswith(POST) and len(body) == int(request.fields.get(b"content-length", b"-1")):
            key, body_bytes = head.removesuffix(HEAD_END), len(body)
        else:
            return False
        if len(self) >= MAX_HEADS:
            # Who sends another one each time makes the rest be parsed once more, and that costs little.
            self.clear()
        self[key] = KnownHead(request.target, request.headers, request.fields, body_bytes, request.route)
        return True
