"""Bytes of anybody's making, read once."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cairn.domain.codec import encode_tx
from cairn.domain.errors import InvalidField, InvalidSignature, Rejected
from cairn.domain.governance import Validator, ValidatorUpdate, encode_update
from cairn.domain.types import Tx
from cairn.engine.network import senders as module
from cairn.engine.network.senders import Senders, parse
from tests.support.core_fixtures import CHAIN_ID, signed
from tests.support.transfers import address

UPDATE = ValidatorUpdate(0, Validator(bytes(32), 1, address(1)))


def raw_of(nonce: int) -> bytes:
    return encode_tx(signed(nonce), CHAIN_ID)


def test_transactions_and_updates_are_told_apart() -> None:
    assert parse(raw_of(0), CHAIN_ID) == signed(0)
    assert parse(encode_update(UPDATE), CHAIN_ID) == UPDATE
    assert isinstance(parse(raw_of(0), CHAIN_ID + 1), InvalidSignature)
    assert isinstance(parse(b"", CHAIN_ID), InvalidField)


@given(st.binary(max_size=300) | st.binary(max_size=40).map(lambda rest: b"\x01{" + rest))
def test_rubbish_is_refused_never_raised(raw: bytes) -> None:
    assert isinstance(parse(raw, CHAIN_ID), Rejected)


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_flipped_byte_never_gives_the_same_transaction(place: int, byte: int) -> None:
    raw = bytearray(raw_of(3))
    place %= len(raw)
    changed = raw[place] != byte
    raw[place] = byte
    parsed = parse(bytes(raw), CHAIN_ID)
    assert not changed or not isinstance(parsed, Tx) or parsed.sender != signed(3).sender


def test_many_are_resolved_in_order_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []

    def counted(raw: bytes, chain_id: int) -> module.Parsed:
        parsed.append(raw)
        return parse(raw, chain_id)

    monkeypatch.setattr(module, "parse", counted)
    raws = [raw_of(nonce) for nonce in range(70)]

    async def scenario() -> None:
        senders = Senders(CHAIN_ID)
        assert senders.find_all(raws) is None
        found = await senders.resolve([*raws, b"rubbish", raws[0]])
        assert found[:70] == [signed(nonce) for nonce in range(70)]
        assert isinstance(found[70], InvalidField)
        assert found[71] == found[0]
        assert len(parsed) == 71
        assert senders.find_all(raws) == found[:70]
        await senders.resolve([*raws, b"rubbish"])
        # Rubbish is read again: remembering it would let anybody fill the memory.
        assert parsed[71:] == [b"rubbish"]
        senders.close()

    asyncio.run(scenario())


def test_the_memory_is_bounded() -> None:
    senders = Senders(CHAIN_ID, remembered=2)
    for nonce in range(3):
        senders.remember(raw_of(nonce), signed(nonce))
    assert [senders.find(raw_of(nonce)) for nonce in range(3)] == [None, signed(1), signed(2)]
    senders.close()
