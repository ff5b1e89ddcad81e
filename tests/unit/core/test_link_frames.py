"""Frames survive any cut of the byte stream, and errors arrive as the class that was raised."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cairn.core import link_frames as wire
from cairn.core.gateway import PendingPage, PendingTx
from cairn.domain.errors import (
    InsufficientFunds,
    InvalidField,
    InvalidQuery,
    MempoolFull,
    NodeError,
    NonceTooLow,
    ShuttingDown,
    StoreUnavailable,
)
from cairn.domain.types import MAX_UINT256, Address, Tx, TxHash

ADDRESS = Address(b"a" * 20)

frames = st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 255), st.binary(max_size=300)), max_size=20)


class End(wire.LinkProtocol):
    """Keeps the frames that come."""

    def __init__(self) -> None:
        super().__init__(gathers=wire.SUBMIT)
        self.frames: list[tuple[int, int, bytes]] = []

    def take_frame(self, request_id: int, kind: int, payload: bytes) -> None:
        self.frames.append((request_id, kind, payload))


def read(*pieces: bytes) -> list[tuple[int, int, bytes]]:
    """The frames of a stream that comes in these pieces."""

    async def receive() -> list[tuple[int, int, bytes]]:
        end = End()
        for piece in pieces:
            end.data_received(piece)
        return end.frames

    return asyncio.run(receive())


@given(frames, st.lists(st.integers(1, 50), min_size=1))
def test_frames_survive_any_cut(sent: list[tuple[int, int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(wire.frame(*parts) for parts in sent)
    pieces: list[bytes] = []
    at = 0
    while at < len(stream):
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(stream[at : at + size])
        at += size
    assert read(*pieces) == sent


def test_a_frame_beyond_the_limit_is_refused() -> None:
    with pytest.raises(ConnectionError, match="longer than"):
        read(wire.HEAD.pack(wire.MAX_FRAME_BYTES + 1, 1, wire.SUBMIT))


@pytest.mark.parametrize(
    "error",
    [
        NonceTooLow("nonce is 1, expected 2"),
        InsufficientFunds("has 1, needs 2"),
        MempoolFull("holds 10"),
        ShuttingDown("stopping"),
        StoreUnavailable("disk full"),
        InvalidQuery("after: no cursor"),
        InvalidField("signature", "is missing"),
    ],
)
def test_errors_cross_the_link_as_themselves(error: NodeError) -> None:
    [(request_id, kind, payload)] = read(wire.error_frame(7, wire.ERROR, error))
    assert (request_id, kind) == (7, wire.ERROR)
    arrived = wire.decode_error(payload)
    assert type(arrived) is type(error)
    assert arrived.detail == error.detail
    if isinstance(error, InvalidField):
        assert isinstance(arrived, InvalidField)
        assert arrived.field == error.field


def test_amounts_beyond_64_bits_cross_exactly() -> None:
    tx = Tx(TxHash(b"h" * 32), Address(b"s" * 20), Address(b"t" * 20), 1, 21_000, MAX_UINT256, MAX_UINT256, b"x" * 65)
    page = PendingPage([PendingTx(tx, 5)], 1, None)
    [(_, _, payload)] = read(wire.frame_of(1, wire.RESULT, page))
    assert wire.decode_as(payload, PendingPage) == page
