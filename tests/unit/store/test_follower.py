import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt, StoreUnavailable, WrongFormat
from cairn.domain.steps import finish
from cairn.domain.types import TxHash
from cairn.store import follower as follower_module
from cairn.store import keys
from cairn.store.chain import ChainStore
from cairn.store.directory import chain_path
from cairn.store.follower import CHECKED_BLOCKS, FollowerStore
from cairn.store.rocks import WriteBatch
from tests.support.blocks import extend, grow, head_of, history_of, next_transfers, outcome_on
from tests.support.disk import compact, database_of, flip_byte, flush, only_file
from tests.support.transfers import address


@pytest.fixture
def follower(chain: ChainStore, tmp_path: Path) -> Iterator[FollowerStore]:
    opened = FollowerStore.open(chain.directory, tmp_path / "scratch")
    yield opened
    opened.close()


def assert_same(follower: FollowerStore, chain: ChainStore) -> None:
    """Whatever one can be asked, the other answers alike."""
    assert follower.visible == chain.visible
    assert head_of(follower) == head_of(chain)
    for height in range(chain.visible + 1):
        found = chain.find_header(height)
        assert found is not None
        assert follower.find_header(height) == found
        assert follower.find_height(found[0]) == height
        hashes = chain.tx_hashes(height)
        assert follower.tx_hashes(height) == hashes
        assert list(follower.records(height)) == list(chain.records(height))
        for start in range(0, len(hashes), 32):
            assert follower.find_location(TxHash(hashes[start : start + 32])) == (height, start // 32)
    for who in (1, 2, 39, 40, 999, 500):
        assert follower.account(address(who)) == chain.account(address(who))
        assert history_of(follower, address(who), None, 1000) == history_of(chain, address(who), None, 1000)


def test_a_new_follower_shows_what_is_there(chain: ChainStore, tmp_path: Path) -> None:
    grow(chain, 3, 50)
    follower = FollowerStore.open(chain.directory, tmp_path / "scratch")
    assert_same(follower, chain)
    follower.close()


def test_a_follower_moves_only_when_told(chain: ChainStore, follower: FollowerStore) -> None:
    block = extend(chain, next_transfers(chain, 3)).block
    assert follower.visible == 0
    assert follower.find_height(block.hash) is None
    assert follower.account(address(999)).balance == 0
    assert follower.catch_up() == 1
    assert follower.find_height(block.hash) == 1
    assert follower.catch_up() == 1
    assert_same(follower, chain)


def test_flushes_and_compactions_change_nothing_of_what_is_shown(chain: ChainStore, follower: FollowerStore) -> None:
    for number in range(12):
        grow(chain, 1, 20)
        if number % 2:
            flush(database_of(chain))
        if number % 5 == 4:
            compact(database_of(chain))
        if number % 3:
            assert follower.catch_up() == chain.visible
            assert_same(follower, chain)


def test_a_manifest_that_is_replaced_while_it_is_looked_at_is_looked_for_again(
    chain: ChainStore, follower: FollowerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = chain_path(chain.directory) / "CURRENT"
    named = current.read_bytes()
    current.write_bytes(b"MANIFEST-999999\n")
    monkeypatch.setattr("cairn.store.follower.time.sleep", lambda _: current.write_bytes(named))
    assert follower.catch_up() == chain.visible
    assert_same(follower, chain)


@pytest.mark.parametrize("is_first", [True, False], ids=["before the logs are read", "after they were read"])
def test_a_catch_up_during_which_the_primary_flushes_is_repeated(
    chain: ChainStore, follower: FollowerStore, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    """A log may be gone whose content the MANIFEST, as it was read, did not name yet."""
    grow(chain, 1, 20)
    real = database_of(follower).catch_up

    def interrupted() -> None:
        if is_first:
            flush(database_of(chain))
        real()
        if not is_first:
            flush(database_of(chain))

    monkeypatch.setattr(database_of(follower), "catch_up", interrupted)
    assert not follower._take_in()
    monkeypatch.undo()
    assert follower._take_in()
    assert follower.catch_up() == chain.visible
    assert_same(follower, chain)


def test_an_account_that_changed_right_before_a_flush_is_not_shown_as_it_was(
    chain: ChainStore, follower: FollowerStore
) -> None:
    """RocksDB's secondary goes on showing the old value of an overwritten key here."""
    grow(chain, 1, 5)
    follower.catch_up()
    grow(chain, 1, 5)
    flush(database_of(chain))
    assert follower.catch_up() == 2
    assert_same(follower, chain)


def test_a_block_that_is_not_known_to_be_on_disk_is_not_shown(chain: ChainStore, follower: FollowerStore) -> None:
    """It is in the log, where a secondary sees it, but the sync that makes it last has not returned."""
    grow(chain, 1, 5)
    outcome = outcome_on(chain, next_transfers(chain, 20))
    batch = WriteBatch(database_of(chain))
    chain._add_block(batch, outcome)
    chain._add_versions(batch, outcome)
    database_of(chain).write(batch)
    assert follower.catch_up() == 1
    assert follower.find_header(2) is None
    assert follower.find_height(outcome.block.hash) is None
    assert follower.find_location(outcome.block.txs[0].hash) is None
    assert follower.find_record(2, 0) is None
    assert follower.account(address(1)).nonce == 1
    assert history_of(follower, address(1), None, 9) == [(1, 0)]
    with pytest.raises(Corrupt):
        follower.tx_hashes(2)


@pytest.mark.parametrize(
    # Followers do not read who signed a block.
    "family",
    [family for family in keys.FAMILIES if family not in (keys.META, keys.SIGNATURES, keys.STEPS)],
)
def test_half_a_block_is_never_shown(
    chain: ChainStore, follower: FollowerStore, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "PAUSE_S", 0)
    outcome = outcome_on(chain, next_transfers(chain, 20))
    whole = WriteBatch(database_of(chain))
    put, put_sorted = whole.put, whole.put_sorted_steps
    partial = WriteBatch(database_of(chain))
    monkeypatch.setattr(
        whole, "put", lambda name, key, value: partial.put(name, key, value) if name != family else None
    )
    monkeypatch.setattr(
        whole, "put_sorted_steps", lambda name, pairs: partial.put_sorted_steps(name, pairs) if name != family else ()
    )
    finish(chain._add_block(whole, outcome))
    finish(chain._add_versions(whole, outcome))
    database_of(chain).write(partial)
    chain.watermark.advance(1)
    with pytest.raises(StoreUnavailable, match="block 1 is on disk, but the store at .* does not show it"):
        follower.catch_up()
    assert follower.visible == 0
    monkeypatch.setattr(whole, "put", put)
    monkeypatch.setattr(whole, "put_sorted_steps", put_sorted)
    finish(chain._add_block(whole, outcome))
    finish(chain._add_versions(whole, outcome))
    database_of(chain).write(whole)
    assert follower.catch_up() == 1


def test_a_follower_outlives_its_primary_and_follows_the_next(chain: ChainStore, follower: FollowerStore) -> None:
    grow(chain, 2, 30)
    follower.catch_up()
    again = chain
    for _ in range(3):
        again.close()
        assert follower.catch_up() == again.visible
        again = ChainStore.open(chain.directory, chain.genesis)
        grow(again, 2, 30)
        assert follower.catch_up() == again.visible
        assert_same(follower, again)
    again.close()


def test_a_block_that_the_primary_lost_in_a_crash_is_no_longer_shown(chain: ChainStore, tmp_path: Path) -> None:
    """The follower read a block from the log; the power went before its sync, and another block took its height."""
    grow(chain, 1, 5)
    directory = tmp_path / "copy"
    shutil.copytree(chain.directory, directory)
    other = ChainStore.open(directory, chain.genesis)
    follower = FollowerStore.open(directory, tmp_path / "scratch")
    lost = outcome_on(other, next_transfers(other, 7))
    batch = WriteBatch(database_of(other))
    other._add_block(batch, lost)
    database_of(other).write(batch)
    follower.catch_up()
    other.close()
    shutil.rmtree(directory)
    shutil.copytree(chain.directory, directory)
    other = ChainStore.open(directory, chain.genesis)
    extend(other, next_transfers(other, 3))
    follower.watermark.close()
    follower.watermark = type(follower.watermark).follow(directory / "watermark")
    assert follower.catch_up() == 2
    assert_same(follower, other)
    follower.close()
    other.close()


def test_a_damaged_manifest_is_reported(chain: ChainStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "PAUSE_S", 0)
    grow(chain, 2, 30)
    chain.close()
    manifest = only_file(chain.directory / "chain", "MANIFEST-*")
    flip_byte(manifest, 30)
    with pytest.raises(Corrupt):
        FollowerStore.open(chain.directory, tmp_path / "scratch")


def test_a_damaged_log_is_reported_and_read_once_it_is_repaired(
    chain: ChainStore, follower: FollowerStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "PAUSE_S", 0)
    log = only_file(chain.directory / "chain", "*.log")
    offset = log.stat().st_size + 100
    grow(chain, 1, 30)
    flip_byte(log, offset)
    with pytest.raises((Corrupt, StoreUnavailable)):
        follower.catch_up()
    with pytest.raises((Corrupt, StoreUnavailable)):
        FollowerStore.open(chain.directory, tmp_path / "other")
    assert follower.visible == 0
    assert follower.account(address(999)).balance == 0
    flip_byte(log, offset)
    assert follower.catch_up() == 1
    assert_same(follower, chain)


def test_a_directory_without_a_store_of_this_format_cannot_be_followed(tmp_path: Path, chain: ChainStore) -> None:
    with pytest.raises(StoreUnavailable):
        FollowerStore.open(tmp_path / "nothing", tmp_path / "scratch")
    (chain.directory / "FORMAT").write_text("cairn data format 7\n")
    with pytest.raises(WrongFormat):
        FollowerStore.open(chain.directory, tmp_path / "scratch")
    (chain.directory / "FORMAT").write_text("cairn data format 6\n")
    (chain.directory / "chain" / "CURRENT").rename(tmp_path / "CURRENT")
    with pytest.raises(StoreUnavailable, match="MANIFEST"):
        FollowerStore.open(chain.directory, tmp_path / "scratch")


def test_a_catch_up_starts_no_threads(chain: ChainStore, follower: FollowerStore) -> None:
    """The kernel counts what starts on the whole machine, so the quietest of many catch-ups counts."""

    def started() -> int:
        [line] = [line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("processes ")]
        return int(line.split()[1])

    fewest = 1_000
    for _ in range(100):
        extend(chain, next_transfers(chain, 1))
        before = started()
        follower.catch_up()
        fewest = min(fewest, started() - before)
        if fewest == 0:
            break
    assert fewest < len(keys.FAMILIES)


def test_a_catch_up_during_which_files_were_replaced_does_not_count(
    chain: ChainStore, follower: FollowerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks far below the newest one may have been in a log that vanished meanwhile; only those above are checked."""
    grow(chain, CHECKED_BLOCKS + 10, 1)
    catch_up, shown = database_of(follower).catch_up, []

    def race() -> None:
        shown.append(follower.visible)
        catch_up()
        if len(shown) == 1:
            flush(database_of(chain))

    monkeypatch.setattr(database_of(follower), "catch_up", race)
    assert follower.catch_up() == chain.visible
    assert shown == [0, 0], "it trusted what it had read while the MANIFEST changed"
    assert_same(follower, chain)


def test_a_primary_that_was_opened_anew_is_followed_by_a_new_secondary(
    chain: ChainStore, follower: FollowerStore
) -> None:
    """RocksDB's own change to another MANIFEST can get stuck, and what was read of the old log may not have lasted."""
    before = database_of(follower)
    extend(chain, next_transfers(chain, 1))
    assert follower.catch_up() == 1
    assert database_of(follower) is before
    chain.close()
    again = ChainStore.open(chain.directory, chain.genesis)
    extend(again, next_transfers(again, 1))
    assert follower.catch_up() == 2
    assert database_of(follower) is not before
    assert_same(follower, again)
    again.close()


@pytest.mark.parametrize("content", [b"", b"\n", bytes(16), b"MANIFEST", b"\xff" * 16])
def test_a_damaged_current_file_is_refused_until_it_is_back(chain: ChainStore, tmp_path: Path, content: bytes) -> None:
    current = chain.directory / "chain" / "CURRENT"
    whole = current.read_bytes()
    current.write_bytes(content)
    with pytest.raises((Corrupt, StoreUnavailable)):
        FollowerStore.open(chain.directory, tmp_path / "scratch")
    current.write_bytes(whole)
    FollowerStore.open(chain.directory, tmp_path / "scratch").close()
