"""The heads of requests and answers: what a request's head says about the bytes after it, and the bytes of an answer's.

A proxy in front of the node reads the same heads. If the two could disagree on where a body ends, a part of a body
could be read as a request (smuggling). So everything ambiguous is refused.
"""

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import NamedTuple

import httptools
from starlette.types import Receive

from cairn.domain.errors import MalformedRequest

Header = tuple[bytes, bytes]

VERSIONS = ("1.0", "1.1")
WEBSOCKET = [b"websocket"]
CLOSE: Header = (b"connection", b"close")
NO_STORE: Header = (b"cache-control", b"no-store")
STATUS_LINES = {int(status): f"HTTP/1.1 {status:d} {status.phrase}\r\n".encode() for status in HTTPStatus}
BODILESS = frozenset({204, 304})


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
    """`headers` have names in lower case. Raises `MalformedRequest` for a body whose end is ambiguous.

    The parser has already refused two lengths, and a length together with an encoding.
    """
    if version not in VERSIONS:
        raise MalformedRequest(f"this node speaks HTTP/1.1, not HTTP/{version}")
    encodings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if encodings and (encodings != [b"chunked"] or version == "1.0"):
        raise MalformedRequest("a body is sent with Content-Length, or in chunks without any other encoding")


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """Path and query. Raises `MalformedRequest`.

    A fragment is refused: clients never send one, and some servers end the path at it.
    """
    if b"#" in target:
        raise MalformedRequest("the request's target has a #")
    if target.startswith(b"/"):
        path, _, query = target.partition(b"?")
    else:
        try:
            url = httptools.parse_url(target)
        except httptools.HttpParserError:
            raise MalformedRequest("the request's target is not a path or a URL") from None
        path, query = url.path, url.query or b""
    if not path or not path.isascii():
        raise MalformedRequest("the request's target has no path in ASCII")
    return path, query


def asks_for_websocket(version: str, headers: Iterable[Header]) -> bool:
    """Whether the upgrade is to WebSocket only; any other is ignored, as HTTP allows."""
    asked = [token.strip().lower() for name, value in headers if name == b"upgrade" for token in value.split(b",")]
    return version == "1.1" and asked == WEBSOCKET


def absence_in(receive: Receive) -> Callable[[], bool]:
    """Tells whether the client of a request has disconnected, where the server shows that."""
    cycle = getattr(receive, "__self__", None)
    return lambda: bool(getattr(cycle, "disconnected", False))


class ResponseHead(NamedTuple):
    """The head of an answer that the application gives."""

    data: bytes
    length: int | None
    """Of the body, if the application says so."""
    keeps_alive: bool
    is_chunked: bool
    """The body is sent in chunks, so that the client can tell its end from that of the connection."""


def encode_lines(headers: Iterable[Header]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def whole_response(common_lines: bytes, status: int, headers: Iterable[Header], body: bytes) -> bytes:
    lines = STATUS_LINES[status] + common_lines + encode_lines(headers)
    return lines + b"content-length: %d\r\n\r\n" % len(body) + body


def encode_head(
    common_lines: bytes, status: int, headers: list[Header], has_body: bool, keeps_alive: bool, version: str
) -> ResponseHead:
    """`has_body`: the request's method lets the answer have one. `version` is the client's."""
    length, says_close, is_chunked = None, False, False
    for name, value in headers:
        if name == b"content-length":
            length = int(value)
        elif name == b"connection" and value.lower() == b"close":
            keeps_alive, says_close = False, True
    lines = encode_lines(headers)
    if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers):
        raise ValueError("a header of the answer has a line break")
    if length is None and has_body and status not in BODILESS:
        is_chunked = version != "1.0"
        if is_chunked:
            lines += b"transfer-encoding: chunked\r\n"
        else:
            # The end of the connection ends the body.
            keeps_alive = False
    if not keeps_alive and not says_close:
        lines += b"connection: close\r\n"
    return ResponseHead(STATUS_LINES[status] + common_lines + lines + b"\r\n", length, keeps_alive, is_chunked)
