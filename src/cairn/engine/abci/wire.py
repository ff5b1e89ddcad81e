"""Decodes requests, and encodes answers as whole frames. Only this module uses protobuf."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from cairn.engine.abci import requests as m
from cairn.engine.abci.proto import abci_pb2 as pb

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


NS_PER_S = 1_000_000_000

_Block = TypeVar("_Block", bound=m.BlockRequest)
_Value = TypeVar("_Value", bound=msgspec.Struct)


class Call(NamedTuple):
    """Any request but CheckTx."""

    kind: str
    """The request's name in the wire definition. The handler's method has the same name."""
    arguments: tuple[Any, ...] = ()
    height: int | None = None

    @property
    def name(self) -> str:
        """As the specification writes it: InitChain."""
        return self.kind.title().replace("_", "")


FLUSH = Call("flush")


# Requests.


def decode_request(payload: bytes) -> m.CheckTxRequest | Call:
    """Read a request of CometBFT. Raises `MalformedFrame`."""
    try:
        request = pb.Request.FromString(payload)
    except DecodeError as error:
        raise MalformedFrame(f"not an ABCI request: {error}") from error
    kind = request.WhichOneof("value")
    if kind == "check_tx":
        check = request.check_tx
        return m.CheckTxRequest(check.tx, check.type == pb.RECHECK)
    if kind == "flush":
        return FLUSH
    if kind is None:
        raise MalformedFrame("a request of an unknown kind")
    value, decode, height_of = getattr(request, kind), _ARGUMENTS.get(kind), _HEIGHTS.get(kind)
    return Call(kind, () if decode is None else (decode(value),), None if height_of is None else height_of(value))


def _decode_init_chain(init: pb.RequestInitChain) -> m.InitChainRequest:
    return m.InitChainRequest(
        [_decode_validator(update) for update in init.validators],
        init.app_state_bytes,
        init.initial_height,
        init.consensus_params.version.app,
    )


def _decode_validator(update: pb.ValidatorUpdate) -> m.ValidatorPower:
    key_type = update.pub_key.WhichOneof("sum")
    if key_type is None:
        raise MalformedFrame("a validator with a key of an unknown type")
    return m.ValidatorPower(getattr(update.pub_key, key_type), update.power)


def _decode_offer(offer: pb.RequestOfferSnapshot) -> m.OfferSnapshotRequest:
    return m.OfferSnapshotRequest(_decode_fields(m.Snapshot, offer.snapshot), offer.app_hash)


def _decode_block(kind: type[_Block], block: Any, **more: Any) -> _Block:
    return kind(
        tuple(block.txs),
        block.height,
        _nanoseconds(block.time),
        block.proposer_address,
        tuple(map(_decode_misbehavior, block.misbehavior)),
        **more,
    )


def _decode_misbehavior(found: pb.Misbehavior) -> m.Misbehavior:
    return m.Misbehavior(found.type, found.validator.address, found.height, _nanoseconds(found.time))


def _nanoseconds(time: Timestamp) -> int:
    return time.seconds * NS_PER_S + time.nanos


def _decode_finalize(block: pb.RequestFinalizeBlock) -> m.FinalizeBlockRequest:
    votes = block.decided_last_commit.votes
    absent = tuple(vote.validator.address for vote in votes if vote.block_id_flag == pb.BLOCK_ID_FLAG_ABSENT)
    return _decode_block(m.FinalizeBlockRequest, block, absent=absent if votes else None)


def _decode_prepare(prepare: pb.RequestPrepareProposal) -> m.PrepareProposalRequest:
    return _decode_block(m.PrepareProposalRequest, prepare, max_tx_bytes=prepare.max_tx_bytes)


def _decode_fields(kind: type[_Value], message: object) -> _Value:
    """A value of type `kind`, with the fields of `message` that have the same names."""
    return kind(*attrgetter(*kind.__struct_fields__)(message))


_ARGUMENTS: dict[str, Callable[[Any], object]] = {
    "echo": attrgetter("message"),
    "init_chain": _decode_init_chain,
    "query": attrgetter("path"),
    "offer_snapshot": _decode_offer,
    "load_snapshot_chunk": partial(_decode_fields, m.LoadSnapshotChunkRequest),
    "apply_snapshot_chunk": partial(_decode_fields, m.ApplySnapshotChunkRequest),
    "prepare_proposal": _decode_prepare,
    "process_proposal": partial(_decode_block, m.ProcessProposalRequest),
    "verify_vote_extension": attrgetter("vote_extension"),
    "finalize_block": _decode_finalize,
}
"""How the argument of the handler's method is made from a request. Other methods have none."""

_HEIGHTS: dict[str, Callable[[Any], int]] = {
    "init_chain": attrgetter("initial_height"),
    "offer_snapshot": attrgetter("snapshot.height"),
    "prepare_proposal": attrgetter("height"),
    "process_proposal": attrgetter("height"),
    "extend_vote": attrgetter("height"),
    "verify_vote_extension": attrgetter("height"),
    "finalize_block": attrgetter("height"),
}


# Answers, each as a whole frame.


def encode_answer(kind: str, answer: object) -> bytes:
    """The frame with the handler's answer to a `Call` of this kind."""
    if kind == "finalize_block":
        return _encode_finalize_block(cast(m.FinalizeBlockResponse, answer))
    if isinstance(answer, bool):
        answer = "ACCEPT" if answer else "REJECT"
    field = _ONLY_FIELDS.get(kind)
    fields: Any = msgspec.to_builtins(answer if field is None else {field: answer}, builtin_types=(bytes,))
    return _framed(pb.Response(**{kind: fields}))


def encode_check_tx(result: m.TxResult) -> bytes:
    response = pb.Response()
    _fill(response.check_tx, result)
    # Otherwise protobuf would leave out an answer in which every field has its default.
    response.check_tx.SetInParent()
    return _framed(response)


def _encode_finalize_block(outcome: m.FinalizeBlockResponse) -> bytes:
    response = pb.Response()
    finalized = response.finalize_block
    # Most results are equal. Of equal ones in a row, only the first is made.
    for result, equal in itertools.groupby(outcome.tx_results):
        filled = pb.ExecTxResult()
        _fill(filled, result)
        finalized.tx_results.extend([filled] * len(list(equal)))
    for update in outcome.validator_updates:
        finalized.validator_updates.add(pub_key=pb.PublicKey(ed25519=update.public_key), power=update.power)
    if outcome.app_version is not None:
        finalized.consensus_param_updates.version.app = outcome.app_version
    finalized.app_hash = outcome.app_hash
    finalized.SetInParent()
    return _framed(response)


def _fill(target: pb.ResponseCheckTx | pb.ExecTxResult, result: m.TxResult) -> None:
    """Set only the fields that differ from the default. These are few, and setting a field takes time."""
    if result.code:
        target.code = result.code
    if result.log:
        target.log = result.log
    if result.gas_wanted:
        target.gas_wanted = result.gas_wanted
    if result.gas_used:
        target.gas_used = result.gas_used
    if result.codespace:
        target.codespace = result.codespace


def _framed(response: pb.Response) -> bytes:
    return frame(response.SerializeToString())


_ONLY_FIELDS = {
    "exception": "error",
    "echo": "message",
    "init_chain": "app_hash",
    "commit": "retain_height",
    "list_snapshots": "snapshots",
    "offer_snapshot": "result",
    "load_snapshot_chunk": "chunk",
    "prepare_proposal": "txs",
    "process_proposal": "status",
    "extend_vote": "vote_extension",
    "verify_vote_extension": "status",
}
"""The field that holds the answer, for responses in which we set only one."""

FLUSHED = _framed(pb.Response(flush=pb.ResponseFlush()))
