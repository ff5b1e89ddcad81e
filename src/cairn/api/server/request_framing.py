"""What a request's head says about the bytes behind it: how long its body is, and whether another protocol follows.

Whoever stands before this node reads the same heads. Where two readers could take the bytes behind one differently, a
body could pass for a request: so what is unclear is refused.
"""

from collections.abc import Iterable
from typing import NamedTuple

from cairn.api.errors import MalformedRequest

Header = tuple[bytes, bytes]

VERSIONS = ("1.0", "1.1")
WEBSOCKET = [b"websocket"]


class RequestHead(NamedTuple):
    """A request's head as it was read; names of headers are in lower case."""

    method: str
    target: bytes
    version: str
    headers: list[Header]

    def encode(self) -> bytes:
        lines = [b"%b: %b\r\n" % header for header in self.headers]
        return b"%b %b HTTP/%b\r\n%b\r\n" % (self.method.encode(), self.target, self.version.encode(), b"".join(lines))


def check_framing(version: str, headers: Iterable[Header]) -> None:
    """`headers` have names in lower case. Raises `MalformedRequest` for a body whose end others may see elsewhere.

    The parser has refused two lengths, and a length beside an encoding.
    """
    if version not in VERSIONS:
        raise MalformedRequest(f"this node speaks HTTP/1.1, not HTTP/{version}")
    encodings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if encodings and (encodings != [b"chunked"] or version == "1.0"):
        raise MalformedRequest("a body is sent with Content-Length, or in chunks without any other encoding")


def check_target(url: bytes) -> None:
    """Raises `MalformedRequest` for a fragment: a client keeps that to itself, and some servers end the path at it."""
    if b"#" in url:
        raise MalformedRequest("the request's target has a #")


def asks_for_websocket(version: str, headers: Iterable[Header]) -> bool:
    """Whether the upgrade is to WebSocket and to nothing else; any other is not taken up, as HTTP allows."""
    asked = [token.strip().lower() for name, value in headers if name == b"upgrade" for token in value.split(b",")]
    return version == "1.1" and asked == WEBSOCKET
