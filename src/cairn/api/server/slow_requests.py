"""Requests that take long: each has a line in the log with an id, which its answer carries, too. Others have none."""

import re
import secrets
from collections.abc import Mapping

import structlog

from cairn.api.server.http_heads import Header

SLOW_S = 1.0
"""From the whole request to the beginning of its answer."""
REQUEST_ID = b"x-request-id"
LONGEST_TARGET = 200
_VALID_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_WAITS = re.compile(rb"[?&]wait=")
"""The client itself asks to wait."""

log = structlog.get_logger("cairn.api")


def tell_slow(method: str, target: bytes, fields: Mapping[bytes, bytes], took_s: float) -> Header | None:
    """Log a slow request, and return the header for its answer: the client's own id, if it has sent a valid one.

    None for a request that asked to wait.
    """
    if _WAITS.search(target):
        return None
    sent = fields.get(REQUEST_ID, b"")
    request_id = sent if _VALID_ID.fullmatch(sent) else secrets.token_hex(8).encode()
    asked = f"{method} {target[:LONGEST_TARGET].decode('latin-1')}"
    log.warning("a request took long", id=request_id.decode(), request=asked, took_s=round(took_s, 2))
    return REQUEST_ID, request_id


def with_header(answer: bytes, header: Header | None) -> bytes:
    """The answer, or the first part of one, with one header more."""
    if header is None:
        return answer
    status_line, end, rest = answer.partition(b"\r\n")
    return status_line + end + b"%b: %b\r\n" % header + rest
