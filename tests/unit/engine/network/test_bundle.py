"""Bundles: how many transfers they hold, and where each begins and ends."""

import pytest

from cairn.domain.errors import InvalidField
from cairn.domain.governance import UPDATE_PREFIX
from cairn.engine.network.bundle import (
    MOST,
    encode_batch,
    encode_batches,
    encode_bundle,
    first_in,
    is_bundle,
    open_bundle,
)


def raws(count: int) -> list[bytes]:
    return [b"\xf8" + number.to_bytes(2, "big") for number in range(count)]


def test_a_bundle_has_one_form() -> None:
    # Nodes of other versions read it too.
    assert encode_bundle([b"\xf8ab", b"\xf9"]) == b"\x82\x00\x03\xf8ab\x00\x01\xf9"
    assert encode_bundle([b"\xf8" * 0x0102])[1:3] == b"\x01\x02"


@pytest.mark.parametrize("count", [2, 3, MOST])
def test_an_opened_bundle_gives_its_transfers_in_order(count: int) -> None:
    assert open_bundle(encode_bundle(raws(count))) == raws(count)


@pytest.mark.parametrize("count", [0, 1, MOST + 1])
def test_there_are_2_to_512_in_a_bundle(count: int) -> None:
    assert MOST == 512
    with pytest.raises(InvalidField, match="must hold 2 to 512 transactions") as refusal:
        open_bundle(encode_bundle(raws(count)))
    assert refusal.value.field == "bundle"


def test_a_single_transfer_is_encoded_without_a_bundle() -> None:
    assert encode_batch(raws(1)) == raws(1)[0]
    assert is_bundle(encode_batch(raws(2)))
    assert not is_bundle(raws(1)[0])
    assert not is_bundle(b"")


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (1, [1]), (MOST, [MOST]), (MOST + 1, [MOST, 1]), (2 * MOST + 2, [MOST, MOST, 2])]
)
def test_many_transfers_are_encoded_in_as_few_bundles_as_possible(count: int, sizes: list[int]) -> None:
    batches = encode_batches(raws(count))
    opened = [open_bundle(batch) if is_bundle(batch) else [batch] for batch in batches]
    assert [len(each) for each in opened] == sizes
    assert [raw for each in opened for raw in each] == raws(count)


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        (b"\x00", "ends within a length"),
        (b"\x00\x02\xf8", "ends within a transaction"),
        (b"\x00\x01\x82\x00\x01\xf8", "holds what is no transfer"),
        (b"\x00\x01\xf8\x00\x01" + UPDATE_PREFIX, "holds what is no transfer"),
        (b"\x00\x01\xf8\x00\x01\xf8", "holds a transaction twice"),
    ],
)
def test_an_invalid_bundle_is_refused_with_the_reason(rest: bytes, why: str) -> None:
    with pytest.raises(InvalidField, match=why) as refusal:
        open_bundle(b"\x82" + rest)
    assert refusal.value.field == "bundle"


def test_the_first_transfers_are_read_without_the_rest() -> None:
    cut = encode_bundle(raws(3))[:-1]
    assert first_in(cut, 2) == raws(2)
    with pytest.raises(InvalidField, match="ends within a transaction"):
        first_in(cut, 3)
    assert first_in(encode_bundle(raws(1)), 2) == raws(1)
