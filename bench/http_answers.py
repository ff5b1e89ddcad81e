"""HTTP/1.1 answers out of the bytes of a connection, as cheaply as a load generator must read them."""

from typing import NamedTuple

_HEAD_END = b"\r\n\r\n"


class Answer(NamedTuple):
    status: int
    body: bytes
    end: int
    """Where the next answer begins."""


def find_answer(received: bytes) -> Answer | None:
    """The first answer; None while it is not whole. Raises `ValueError` when it is none, or has no length."""
    head_end = received.find(_HEAD_END)
    if head_end < 0:
        return None
    if not received.startswith(b"HTTP/1."):
        raise ValueError(f"no HTTP answer: {received[:80]!r}")
    start = head_end + 4
    head = received[:head_end].lower()
    status = int(received[9:12])
    at = head.find(b"\r\ncontent-length:")
    if at >= 0:
        size_end = head.find(b"\r\n", at + 17)
        end = start + int(head[at + 17 :] if size_end < 0 else head[at + 17 : size_end])
        return Answer(status, received[start:end], end) if len(received) >= end else None
    at = head.find(b"\r\ntransfer-encoding:")
    if at < 0 or b"chunked" not in head[at + 20 :].split(b"\r\n", 1)[0]:
        raise ValueError(f"an answer without a length: {head!r}")
    return _find_chunked(received, start, status)


def _find_chunked(received: bytes, start: int, status: int) -> Answer | None:
    """Trailers are taken for what follows the last chunk, up to an empty line."""
    chunks: list[bytes] = []
    at = start
    while (line_end := received.find(b"\r\n", at)) >= 0:
        size = int(received[at:line_end].partition(b";")[0], 16)
        if size == 0:
            end = received.find(_HEAD_END, line_end)
            return None if end < 0 else Answer(status, b"".join(chunks), end + 4)
        at = line_end + 2 + size
        if len(received) < at + 2:
            return None
        if received[at : at + 2] != b"\r\n":
            raise ValueError(f"a chunk of {size} bytes without an end")
        chunks.append(received[line_end + 2 : at])
        at += 2
    return None
