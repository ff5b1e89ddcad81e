"""Frames of the ABCI socket: a uvarint length, then the message."""

from collections.abc import Iterator

MAX_FRAME_BYTES = 128 * 1024 * 1024
"""Above the largest block that CometBFT itself allows, 100 MiB."""
_MAX_LENGTH_BYTES = 5


class MalformedFrame(Exception):
    """CometBFT sent something that is not a valid request. The connection must be closed."""


class FrameReader:
    """Splits a byte stream into messages. The stream may arrive in pieces of any size."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._needed = 0
        """Bytes that the buffer must hold before it is read again: a long message is not copied for every piece."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that `data` completes. Raises `MalformedFrame` for one that is too long."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return
            data = bytes(self._rest)
            self._rest.clear()
        at, end = 0, len(data)
        while at < end:
            length, start = _read_length(data, at, end)
            if length > MAX_FRAME_BYTES:
                raise MalformedFrame(f"a message of {length} bytes is longer than {MAX_FRAME_BYTES}")
            stop = start + length
            if start == at or stop > end:
                self._needed = stop - at
                self._rest += memoryview(data)[at:]
                return
            yield data[start:stop]
            at = stop


def _read_length(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The uvarint at `at` and where it ends; (0, at) when its last byte has not arrived."""
    length = data[at]
    if length < 0x80:
        return length, at + 1
    length &= 0x7F
    for i in range(1, min(end - at, _MAX_LENGTH_BYTES)):
        byte = data[at + i]
        length |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return length, at + i + 1
    if end - at >= _MAX_LENGTH_BYTES:
        raise MalformedFrame("a message length of more than five bytes")
    return 0, at


def frame(payload: bytes) -> bytes:
    """`payload` with its length in front."""
    length = len(payload)
    if length < 0x80:
        return bytes((length,)) + payload
    return _encode_length(length) + payload


def _encode_length(length: int) -> bytes:
    encoded = bytearray()
    while length >= 0x80:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    encoded.append(length)
    return bytes(encoded)


def proposed_size_bytes(tx: bytes) -> int:
    """The bytes that `tx` counts in a proposal. A proposal above `max_tx_bytes` stops the proposer's CometBFT."""
    return 1 + len(_encode_length(len(tx))) + len(tx)
