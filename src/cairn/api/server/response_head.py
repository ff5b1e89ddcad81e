"""The bytes of an answer's head."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import NamedTuple

from cairn.api.server.request_framing import Header

CLOSE: Header = (b"connection", b"close")
NO_STORE: Header = (b"cache-control", b"no-store")
STATUS_LINES = {int(status): f"HTTP/1.1 {status:d} {status.phrase}\r\n".encode() for status in HTTPStatus}
BODILESS = frozenset({204, 304})


class ResponseHead(NamedTuple):
    """The head of an answer that the application gives."""

    data: bytes
    length: int | None
    """Of the body, if the application says so."""
    keeps_alive: bool


def encode_lines(headers: Iterable[Header]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def whole_response(common_lines: bytes, status: int, headers: Iterable[Header], body: bytes) -> bytes:
    lines = STATUS_LINES[status] + common_lines + encode_lines(headers)
    return lines + b"content-length: %d\r\n\r\n" % len(body) + body


def encode_head(
    common_lines: bytes, status: int, headers: list[Header], has_body: bool, keeps_alive: bool
) -> ResponseHead:
    """`has_body`: the request's method lets the answer have one."""
    length, says_close = None, False
    for name, value in headers:
        if name == b"content-length":
            length = int(value)
        elif name == b"connection" and value.lower() == b"close":
            keeps_alive, says_close = False, True
    lines = encode_lines(headers)
    if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers):
        raise ValueError("a header of the answer has a line break")
    if length is None and has_body and status not in BODILESS:
        # The end of the connection ends the body.
        keeps_alive = False
    if not keeps_alive and not says_close:
        lines += b"connection: close\r\n"
    return ResponseHead(STATUS_LINES[status] + common_lines + lines + b"\r\n", length, keeps_alive)
