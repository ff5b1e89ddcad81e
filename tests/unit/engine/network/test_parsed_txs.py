"""Bytes of anybody's making, read once."""

import asyncio
import threading
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cairn.domain.errors import InvalidField, InvalidSignature, Rejected
from cairn.domain.genesis import GWEI
from cairn.domain.governance import Before, Update, ValidatorRecord, ValidatorUpdate, encode_update
from cairn.domain.transactions import encode_tx
from cairn.domain.types import Tx
from cairn.engine.network import parsed_txs as module
from cairn.engine.network.bundle import Bundle, encode_bundle, open_bundle
from cairn.engine.network.parsed_txs import ParsedTxs, parse
from tests.support.core_fixtures import CHAIN_ID, signed
from tests.support.pace import PATIENCE_S
from tests.support.transfers import address

UPDATE = ValidatorUpdate(0, ValidatorRecord(b"\x05" * 32, 1, address(1)), Before(0, 10, 1, 0))


def raw_of(nonce: int) -> bytes:
    return encode_tx(signed(nonce), CHAIN_ID)


def test_transactions_and_updates_are_told_apart() -> None:
    assert parse(raw_of(0), CHAIN_ID, GWEI) == signed(0)
    assert parse(encode_update(UPDATE), CHAIN_ID, GWEI) == UPDATE
    assert isinstance(parse(raw_of(0), CHAIN_ID + 1, GWEI), InvalidSignature)
    assert isinstance(parse(b"", CHAIN_ID, GWEI), InvalidField)


@given(st.binary(max_size=300) | st.binary(max_size=40).map(lambda rest: b"\x81" + rest))
def test_rubbish_is_refused_never_raised(raw: bytes) -> None:
    assert isinstance(parse(raw, CHAIN_ID, GWEI), Rejected)


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_flipped_byte_never_gives_the_same_transaction(place: int, byte: int) -> None:
    raw = bytearray(raw_of(3))
    place %= len(raw)
    changed = raw[place] != byte
    raw[place] = byte
    parsed = parse(bytes(raw), CHAIN_ID, GWEI)
    assert not changed or not isinstance(parsed, Tx) or parsed.sender != signed(3).sender


def test_a_repeated_transaction_is_cached_as_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this node sends again must pass its own check, however much it has read since the first time."""
    monkeypatch.setattr(module, "REMEMBERED", 2)
    parsed_txs = ParsedTxs(CHAIN_ID, GWEI)
    for nonce in (0, 1, 0, 2):
        parsed_txs.remember(raw_of(nonce), signed(nonce))
    assert [parsed_txs.find(raw_of(nonce)) for nonce in (0, 1, 2)] == [signed(0), None, signed(2)]
    parsed_txs.close()


async def test_many_are_resolved_in_order_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []

    def counted(raw: bytes, chain_id: int, base_fee: int) -> Tx | Update | Rejected:
        parsed.append(raw)
        return parse(raw, chain_id, base_fee)

    monkeypatch.setattr(module, "parse", counted)
    raws = [raw_of(nonce) for nonce in range(70)]
    parsed_txs = ParsedTxs(CHAIN_ID, GWEI)
    assert parsed_txs.find_all(raws) is None
    found = await parsed_txs.resolve([*raws, b"rubbish", raws[0]])
    assert found[:70] == [signed(nonce) for nonce in range(70)]
    assert isinstance(found[70], InvalidField)
    assert found[71] == found[0]
    assert len(parsed) == 71
    assert parsed_txs.find_all(raws) == found[:70]
    await parsed_txs.resolve([*raws, b"rubbish"])
    # Rubbish is read again: remembering it would let anybody fill the memory.
    assert parsed[71:] == [b"rubbish"]
    parsed_txs.close()


def test_the_cache_of_transactions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 2)
    parsed_txs = ParsedTxs(CHAIN_ID, GWEI)
    for nonce in range(3):
        parsed_txs.remember(raw_of(nonce), signed(nonce))
    assert [parsed_txs.find(raw_of(nonce)) for nonce in range(3)] == [None, signed(1), signed(2)]
    parsed_txs.close()


def resolved(parsed_txs: ParsedTxs, *raws: bytes) -> list[module.Parsed]:
    return asyncio.run(parsed_txs.resolve(raws))


def test_a_bundle_is_read_with_all_that_is_in_it() -> None:
    parsed_txs = ParsedTxs(CHAIN_ID, GWEI)
    raws = [raw_of(nonce) for nonce in range(6)]
    bundled = encode_bundle(raws[1:])
    found = resolved(parsed_txs, raws[0], bundled, raws[2])
    bundle = Bundle(tuple(raws[1:]), tuple(signed(nonce) for nonce in range(1, 6)))
    assert found == [signed(0), bundle, signed(2)]
    assert parsed_txs.find(bundled) == bundle
    # Each is known by itself, too.
    assert parsed_txs.find_all(raws) == [signed(nonce) for nonce in range(6)]
    parsed_txs.close()


@pytest.mark.parametrize(
    ("inside", "refusal"),
    [
        ([], "bundle: must hold 2 to 512 transactions"),
        ([raw_of(0)], "bundle: must hold 2 to 512 transactions"),
        ([raw_of(0), raw_of(0)], "bundle: holds a transaction twice"),
        ([raw_of(0), encode_update(UPDATE)], "bundle: holds what is no transfer"),
        ([raw_of(0), encode_bundle([raw_of(1), raw_of(2)])], "bundle: holds what is no transfer"),
        ([raw_of(0), b""], "type: typed transaction too short"),
        ([raw_of(0), raw_of(1)[:-1]], "rlp: "),
        ([raw_of(nonce) for nonce in range(513)], "bundle: must hold 2 to 512 transactions"),
    ],
)
def test_a_bundle_with_anything_but_transfers_is_refused(inside: list[bytes], refusal: str) -> None:
    parsed_txs = ParsedTxs(CHAIN_ID, GWEI)
    bundled = encode_bundle(inside)
    found = resolved(parsed_txs, bundled)[0]
    assert isinstance(found, Rejected)
    assert found.detail.startswith(refusal)
    assert parsed_txs.find(bundled) is None
    parsed_txs.close()


def test_a_block_larger_than_the_cache_is_resolved() -> None:
    parsed_txs = ParsedTxs(CHAIN_ID, GWEI)
    known = encode_bundle([raw_of(0), raw_of(1)])
    (bundle,) = resolved(parsed_txs, known)
    assert resolved(parsed_txs, known, raw_of(2), known, raw_of(3)) == [bundle, signed(2), bundle, signed(3)]
    parsed_txs.close()


def test_bundles_of_the_same_transfers_displace_no_transfers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 4)
    parsed_txs = ParsedTxs(CHAIN_ID, GWEI)
    raws = [raw_of(nonce) for nonce in range(4)]
    for order in permutations(raws):
        assert isinstance(resolved(parsed_txs, encode_bundle(order))[0], Bundle)
    # Nothing was pushed out.
    assert parsed_txs.find_all(raws) == [signed(nonce) for nonce in range(4)]
    parsed_txs.close()


def test_cached_bundles_are_bounded_by_their_transfers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUNDLED", 9)
    parsed_txs = ParsedTxs(CHAIN_ID, GWEI)
    bundleds = [encode_bundle([raw_of(nonce), raw_of(nonce + 1)]) for nonce in (0, 2, 4, 6, 8)]
    first = resolved(parsed_txs, *bundleds)
    assert resolved(parsed_txs, bundleds[4])[0] is first[4]
    assert parsed_txs.find(bundleds[1]) is first[1]
    # Forgotten as a bundle, it is made again from its transfers.
    again = parsed_txs.find(bundleds[0])
    assert again == first[0]
    assert again is not first[0]
    assert parsed_txs.find(bundleds[0]) is again
    # One above the bound is read all the same.
    assert isinstance(resolved(parsed_txs, encode_bundle([raw_of(nonce) for nonce in range(10)]))[0], Bundle)
    assert parsed_txs.find_all([raw_of(nonce) for nonce in range(10)]) is not None
    parsed_txs.close()


async def test_parsing_a_block_does_not_wait_for_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than threads for the mempool take at once stands in front of it, and goes on only when it is done."""
    many = module.FEW + 1
    flood = [raw_of(nonce) for nonce in range(many)]
    block = [raw_of(nonce) for nonce in range(many, 2 * many)]
    block_is_done = threading.Event()

    def held_up(raw: bytes, chain_id: int, base_fee: int) -> Tx | Update | Rejected:
        assert raw in block or block_is_done.wait(PATIENCE_S)
        return parse(raw, chain_id, base_fee)

    monkeypatch.setattr(module, "parse", held_up)
    parsed_txs = ParsedTxs(CHAIN_ID, GWEI)
    flooding = asyncio.create_task(parsed_txs.read(flood))
    await asyncio.sleep(0)
    await parsed_txs.resolve(block)
    assert not flooding.done()
    block_is_done.set()
    await flooding
    parsed_txs.close()


def test_a_bundle_of_millions_is_not_opened_to_its_end() -> None:
    """Its end would be another reason to refuse it."""
    with pytest.raises(InvalidField, match="must hold 2 to 512"):
        open_bundle(encode_bundle([b""] * 600) + b"\0")


def test_a_bundle_that_ends_too_soon_is_refused() -> None:
    parsed_txs = ParsedTxs(CHAIN_ID, GWEI)
    whole = encode_bundle([raw_of(0), raw_of(1)])
    cut = [whole[:length] for length in range(1, len(whole))]
    assert all(isinstance(found, Rejected) for found in resolved(parsed_txs, *cut))
    parsed_txs.close()


@given(st.binary(max_size=60))
def test_rubbish_in_a_bundle_is_refused_never_raised(rest: bytes) -> None:
    parsed_txs = ParsedTxs(CHAIN_ID, GWEI)
    assert isinstance(resolved(parsed_txs, b"\x82" + rest)[0], Rejected)
    parsed_txs.close()
