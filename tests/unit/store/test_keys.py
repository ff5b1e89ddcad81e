import pytest

from cairn.domain.errors import Corrupt
from cairn.domain.transactions import encode_record
from cairn.domain.types import Account, BlockHash
from cairn.store import keys
from tests.support.transfers import address, transfer


def test_versions_of_an_account_sort_newest_first_and_apart_from_other_accounts() -> None:
    found = sorted(keys.version_key(address(who), height) for who in (2, 1) for height in (0, 1, 255, 256, 2**40))
    assert [keys.decode_version_key(key) for key in found] == [
        (address(who), height) for who in (1, 2) for height in (2**40, 256, 255, 1, 0)
    ]


def test_blocks_and_chunks_sort_by_height_then_number() -> None:
    locations = [(0, 0), (0, 1), (0, 256), (1, 0), (255, 3), (256, 0)]
    assert sorted(keys.encode_location(*location) for location in reversed(locations)) == [
        keys.encode_location(*location) for location in locations
    ]


def test_a_version_is_read_as_it_was_written() -> None:
    key = keys.version_key(address(7), 12)
    use = keys.use_of(3, keys.SENT)
    value = keys.encode_version(
        Account(2**256 - 1, 2**64 - 1), keys.NEVER, 11, 10, 2**32 - 1, 5
    ) + keys.encode_position(use)
    account = Account(2**256 - 1, 2**64 - 1)
    assert keys.decode_version(key, value) == keys.Version(12, account, keys.NEVER, 11, 10, 2**32 - 1, 5, (use,))


def test_a_version_was_touched_at_its_own_height_unless_it_comes_from_a_snapshot() -> None:
    assert keys.Version(9, Account(), 4, 6, 6, 1, 0, ()).touched == 9
    assert keys.Version(9, Account(), 4, 6, 6, 1, keys.RESTORED, ()).touched == 6


@pytest.mark.parametrize(
    ("use", "latest"), [(0, (4, 6, 6)), (keys.SENT, (9, 6, 9)), (keys.RECEIVED, (4, 9, 9)), (keys.EITHER, (9, 9, 9))]
)
def test_a_version_says_where_the_account_last_sent_and_received(use: int, latest: tuple[int, int, int]) -> None:
    version = keys.Version(9, Account(), 4, 6, 6, 1, 0, (use,))
    assert tuple(version.latest(how) for how in (keys.SENT, keys.RECEIVED, keys.EITHER)) == latest
    assert tuple(version.before(how) for how in (keys.SENT, keys.RECEIVED, keys.EITHER)) == (4, 6, 6)


def test_an_account_that_never_sent_or_received_says_so() -> None:
    version = keys.Version(9, Account(), keys.NEVER, keys.NEVER, keys.NEVER, 1, 0, ())
    assert version.latest(keys.EITHER) == keys.NEVER


def test_the_head_is_read_as_it_was_written() -> None:
    head = keys.StoredHead(5, BlockHash(b"\1" * 32))
    assert keys.decode_head(keys.encode_head(head)) == head


@pytest.mark.parametrize(
    "decode",
    [
        lambda: keys.decode_height(b"1234567"),
        lambda: keys.decode_location(b"12345678"),
        lambda: keys.decode_head(bytes(100)),
        lambda: keys.decode_version(bytes(28), bytes(55)),
        lambda: keys.decode_version(bytes(28), bytes(58)),
        lambda: keys.decode_version(bytes(27), bytes(56)),
        lambda: keys.decode_stored_header(bytes(32) + b"\xc0"),
        lambda: keys.decode_stored_hash(bytes(32)),
    ],
)
def test_a_value_of_another_shape_is_damage(decode: object) -> None:
    assert callable(decode)
    with pytest.raises(Corrupt):
        decode()


@pytest.mark.parametrize(("count", "chunks", "last"), [(0, 0, None), (1, 1, 1), (16, 1, 16), (17, 2, 1), (33, 3, 1)])
def test_chunks_hold_sixteen_records(count: int, chunks: int, last: int | None) -> None:
    assert keys.chunk_count(count) == chunks
    if last is not None:
        assert keys.chunk_records(count, chunks - 1) == last


@pytest.mark.parametrize(
    "lengths",
    [(0,), (0,) * 16, (1,), (256,), (0, 139, 0, 139), (139, 139, 0), (0,) * 15 + (256,), (256,) * 16],
    ids=str,
)
def test_records_of_a_chunk_are_found_again_whatever_tails_they_have(lengths: tuple[int, ...]) -> None:
    records = [encode_record(transfer(1, nonce, data=b"\xff" * size)) for nonce, size in enumerate(lengths)]
    chunk = keys.encode_chunk(records)
    assert keys.split_chunk(chunk) == records
    # So its length tells whether one of them has a tail.
    assert (len(chunk) % 282 == 0) == (not any(lengths))


def test_a_chunk_without_tails_is_its_records_and_nothing_else() -> None:
    records = [encode_record(transfer(1, nonce)) for nonce in range(3)]
    assert keys.encode_chunk(records) == b"".join(records)


WITH_TAIL = encode_record(transfer(1, 0, data=b"invoice 4711"))
FILLED = keys.encode_chunk([encode_record(transfer(1, 0, data=bytes(139)))] * 2)


@pytest.mark.parametrize(
    ("chunk", "why"),
    [
        (WITH_TAIL[:-1], "has 295 bytes, expected 296"),
        (WITH_TAIL[:283], "has 283 bytes, expected 284"),
        (WITH_TAIL + b"\0", "behind the last record there is the byte 0x00"),
        (WITH_TAIL + WITH_TAIL[:7], "has 7 bytes, expected 282"),
        (WITH_TAIL[:282] + b"\x01\x01" + bytes(257), "has 257 bytes of data, expected 1 to 256"),
        (FILLED[:-1] + b"\1", "behind the last record there is the byte 0x01"),
        (b"short", "has 5 bytes, expected 282"),
    ],
)
def test_a_chunk_that_does_not_end_with_its_last_record_is_damage(chunk: bytes, why: str) -> None:
    with pytest.raises(Corrupt, match=why):
        keys.split_chunk(chunk)
