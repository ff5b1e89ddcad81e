"""Frames between a worker and the core.

    u32 length of the rest | u64 request id | u8 kind | payload

A call and its answer have the same id; id 0 marks a notice of the core. Calls are JSON, since they are rare and small:
an array of the name and the arguments; the answer is the value. Submissions are most of the traffic, and are binary:
all that a worker submits in one turn of its event loop is one frame, and so are the core's answers.

    SUBMIT     0               | the records of the transactions, as the journal and the store keep them
    ADMITTED   0               | u64 id of each transaction that is on disk now
    CONFIRMED  id              | nothing: it was confirmed before
    KNOWN      id              | nothing: it is on disk, and was already in the mempool; if it is queued, as QUEUED
    QUEUED     id              | u64 the nonce that it waits for: it is on disk now
    REFUSED    id              | why

Submissions have their own ids: both ends count them, from 1 on; 64 bits never run out.

WATCH (id 0, one byte: 1 or 0) asks for ARRIVED or ends it; ARRIVED (id 0) carries the records of the transactions that
came into the mempool.

COMMIT (id 0) says that a block is on disk, and brings it along if it has few transactions: then a worker need not
read it before it tells its clients.

    COMMIT     0               | u64 height | u16 length of the header, or 0 | block hash and header | records

SETTLE and SETTLED have id 0 and no payload. The worker answers SETTLE with SETTLED, which shows that it has processed
every earlier notice.
"""

import asyncio
import struct
from typing import TypeVar, Union, cast

import msgspec

from cairn.core.calls import Method, methods_of
from cairn.core.gateway import CoreCalls
from cairn.domain.errors import ApiError, NodeError, received_error
from cairn.domain.transactions import decode_records, encode_record
from cairn.domain.types import DropReason, Phase, SealedBlock, TxHash
from cairn.store.keys import decode_stored_header, encode_stored_header

HEAD = struct.Struct(">IQB")
LENGTH = struct.Struct(">I")
ID = struct.Struct(">Q")
COMMIT_HEAD = struct.Struct(">QH")
AFTER_LENGTH = HEAD.size - LENGTH.size
MAX_FRAME_BYTES = 16 * 1024 * 1024
MOST_SENT_TXS = 64
"""Transactions of a block that is sent along: about 20 KB for each worker, and 50 us of the core's time."""

# Worker to core.
SUBMIT = 1
CALL = 2
SETTLED = 3
WATCH = 4
# Core to worker, in answer.
ADMITTED = 16
CONFIRMED = 17
REFUSED = 18
RESULT = 19
ERROR = 20
KNOWN = 21
QUEUED = 22
# Core to worker, notices.
INFO = 32
PHASE = 33
COMMIT = 34
DROPPED = 35
SETTLE = 36
ARRIVED = 37


class PhaseNotice(msgspec.Struct, frozen=True):
    phase: Phase
    reason: str


class DropNotice(msgspec.Struct, frozen=True):
    tx_hash: TxHash
    reason: DropReason


class ErrorAnswer(msgspec.Struct, frozen=True):
    code: str
    detail: str
    field: str | None = None


_encoder = msgspec.json.Encoder()
_methods = {method.request: method for method in methods_of(CoreCalls)}
_call_decoder: msgspec.json.Decoder[msgspec.Struct] = msgspec.json.Decoder(Union[tuple(_methods)])  # noqa: UP007
_T = TypeVar("_T")


def frame(request_id: int, kind: int, payload: bytes = b"") -> bytes:
    return HEAD.pack(AFTER_LENGTH + len(payload), request_id, kind) + payload


def frame_of(request_id: int, kind: int, value: object) -> bytes:
    return frame(request_id, kind, _encoder.encode(value))


def decode_call(payload: bytes) -> tuple[Method[object], msgspec.Struct]:
    request = _call_decoder.decode(payload)
    return _methods[type(request)], request


def decode_as(payload: bytes, expected: type[_T]) -> _T:
    return msgspec.json.decode(payload, type=expected)


def commit_frame(height: int, block: SealedBlock | None = None) -> bytes:
    if block is None or len(block.txs) > MOST_SENT_TXS:
        return frame(0, COMMIT, COMMIT_HEAD.pack(height, 0))
    header = encode_stored_header(block.hash, block.header)
    return frame(0, COMMIT, b"".join((COMMIT_HEAD.pack(height, len(header)), header, *map(encode_record, block.txs))))


def decode_commit(payload: bytes) -> tuple[int, SealedBlock | None]:
    height, header_bytes = COMMIT_HEAD.unpack_from(payload)
    if not header_bytes:
        return height, None
    records_at = COMMIT_HEAD.size + header_bytes
    block_hash, header = decode_stored_header(payload[COMMIT_HEAD.size : records_at])
    return height, SealedBlock(header, block_hash, tuple(decode_records(payload[records_at:])))


def error_frame(request_id: int, kind: int, error: NodeError) -> bytes:
    field = error.field if isinstance(error, ApiError) else None
    return frame_of(request_id, kind, ErrorAnswer(error.code, error.detail, field))


def decode_error(payload: bytes) -> NodeError:
    """The error that the core raised, as the same class."""
    answer = decode_as(payload, ErrorAnswer)
    return received_error(answer.code, answer.detail, field=answer.field)


class LinkProtocol(asyncio.Protocol):
    """One end of a connection: cuts what comes into frames, and writes the frames of one turn of the loop together."""

    def __init__(self, gathers: int) -> None:
        """What is gathered during a turn goes into one frame of the kind `gathers`, after all others."""
        self._loop = asyncio.get_running_loop()
        self._gathers = gathers
        self._transport: asyncio.Transport
        self._rest = b""
        self._out: list[bytes] = []
        self._gathered: list[bytes] = []
        self._flush_due = False

    def take_frame(self, request_id: int, kind: int, payload: bytes) -> None:
        """A frame has come."""
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def write(self, frame: bytes) -> None:
        self._out.append(frame)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        frames, self._out = self._out, []
        if self._gathered:
            frames.append(frame(0, self._gathers, b"".join(self._gathered)))
            self._gathered = []
        if frames and not self._transport.is_closing():
            self._transport.write(b"".join(frames))

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        while end - at >= HEAD.size:
            length, request_id, kind = HEAD.unpack_from(data, at)
            if length > MAX_FRAME_BYTES:
                raise ConnectionError(f"a frame of {length} bytes is longer than {MAX_FRAME_BYTES}")
            frame_end = at + LENGTH.size + length
            if frame_end > end:
                break
            self.take_frame(request_id, kind, data[at + HEAD.size : frame_end])
            at = frame_end
        self._rest = data[at:]
