"""The power fails before and after every sync of what the store writes itself: nothing that was promised is lost."""

import hashlib
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cairn.cli.node.home import Home
from cairn.domain.errors import Corrupt
from cairn.domain.genesis import dev_genesis
from cairn.domain.transactions import encode_record
from cairn.domain.types import BlockHash, TxHash
from cairn.store.chain import ChainStore
from cairn.store.dev_snapshots import DevDirectory
from cairn.store.directory import (
    SeenChain,
    SeenHead,
    journal_path,
    make_directory,
    snapshots_path,
    watermark_path,
    write_file,
)
from cairn.store.journal import Journal, JournalEntry
from cairn.store.journal_discard import discard_journal
from cairn.store.snapshot import SnapshotDirectory
from cairn.store.state_file import load_state, save_state
from cairn.store.tree_file import TreeMark, read_tree, tree_path, write_tree
from cairn.store.watermark import NOTHING_YET, Watermark
from tests.support.core_fixtures import signed
from tests.support.damaged_homes import make_blocks
from tests.support.disk import only_file, overwrite
from tests.support.power import Power, watched
from tests.support.snapshots import grow_signed, open_chain, take_snapshot
from tests.support.transfers import transfer

SEGMENT_BYTES = 2_048


class Failures:
    """What is left if the power fails, looked at before each sync and at the end."""

    def __init__(self, power: Power, root: Path, check: Callable[[Path], None]) -> None:
        self._power = power
        self._root = root
        self._check = check
        self.count = 0
        power.before_sync = self.fail

    def fail(self) -> None:
        self.count += 1
        # What is looked at is opened, and so written and synced, too.
        noticed, self._power.before_sync = self._power.before_sync, lambda: None
        for without in (-1, *self._power.removed()):
            image = self._power.leave(self._root / f"failure-{self.count}", without)
            self._check(image)
            shutil.rmtree(image)
        self._power.before_sync = noticed


@contextmanager
def failing(directory: Path, check: Callable[[Path], None]) -> Iterator[Failures]:
    images = directory.with_name(directory.name + "-images")
    images.mkdir()
    with watched(directory) as power:
        failures = Failures(power, images, check)
        yield failures
        failures.fail()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


# Single files.


def test_a_file_is_the_old_one_or_the_new_one_and_the_new_one_once_it_is_written(root: Path) -> None:
    (root / "file").write_bytes(b"old")
    expected = {b"old"}

    def check(image: Path) -> None:
        assert (image / "file").read_bytes() in expected

    with failing(root, check) as failures:
        expected = {b"old", b"new"}
        write_file(root / "file", b"new")
        expected = {b"new"}
    assert failures.count >= 3


def test_a_state_tree_is_the_former_one_or_the_new_one_and_the_new_one_once_it_is_written(root: Path) -> None:
    path, leaves = tree_path(root), bytearray(64)
    former, new = TreeMark(1, BlockHash(b"1" * 32), 2), TreeMark(2, BlockHash(b"2" * 32), 2)
    write_tree(path, former, leaves)
    expected = {former}

    def check(image: Path) -> None:
        found = read_tree(tree_path(image))
        assert found is not None
        assert found[0] in expected

    with failing(root, check) as failures:
        expected = {former, new}
        write_tree(path, new, leaves)
        expected = {new}
    assert failures.count >= 3


def test_a_directory_and_those_above_it_are_there_once_they_are_made(root: Path) -> None:
    with watched(root) as power:
        make_directory(root / "a" / "b" / "c")
        assert (power.leave(root.with_name("image")) / "a" / "b" / "c").is_dir()


def test_the_watermark_never_goes_back_and_has_what_it_was_told(root: Path) -> None:
    promised = -1
    path = root / "watermark"
    with watched(root) as power:
        Watermark.create(path, NOTHING_YET)
    started = 0

    def check(image: Path) -> None:
        found = Watermark.open(image / "watermark")
        assert found.height() >= promised
        assert found.journal_start() >= started
        found.close()

    with failing(root, check) as failures:
        watermark = Watermark.open(path)
        for height in range(5):
            watermark.advance(height)
            promised = height
            failures.fail()
            watermark.raise_journal_start(height)
            started = height
            failures.fail()
        watermark.close()
    assert power.syncs >= 2


def test_that_a_chain_was_begun_is_on_disk_when_it_is_noted(root: Path) -> None:
    with watched(root) as power:
        SeenChain(root / "chain-begun").note_begun()
        image = power.leave(root.with_name("image"))
    assert SeenChain(image / "chain-begun").find_begun_file() is not None
    assert (image / "chain-begun").read_text() == (root / "chain-begun").read_text()


def test_the_genesis_of_a_home_is_on_disk_when_the_home_is_made(root: Path) -> None:
    """No chain can be opened without it, and nothing else has all of it."""
    with watched(root) as power:
        Home(root / "home").create(dev_genesis(), {})
        image = power.leave(root.with_name("image"))
    assert Home(image / "home").read_genesis() == dev_genesis()
    assert Home(image / "home").read_config()


class SwitchedMemory(bytearray):
    """Looks whenever a single byte, the number of the valid slot, is set."""

    def __init__(self, size: int, on_switch: Callable[[], None]) -> None:
        super().__init__(size)
        self._on_switch = on_switch

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self._on_switch()


def test_a_kill_while_the_head_is_noted_leaves_the_last_one_or_this_one() -> None:
    seen = SeenChain()
    switches: list[SeenHead | None] = []
    memory: Any = SwitchedMemory(len(seen._memory), lambda: switches.append(seen.last()))
    seen._memory = memory
    heads = [SeenHead(height, BlockHash(hashlib.sha256(bytes([height])).digest()), 0) for height in range(6)]
    for head in heads:
        seen.note(head)
    assert switches == heads, "the slot was switched to before it was written"


# The journal.


def test_the_journal_keeps_what_was_answered_whenever_the_power_fails(root: Path) -> None:
    """Segments are made and removed, living records are moved, and the journal is opened again, all meanwhile."""
    rng = random.Random(7)
    Watermark.create(watermark_path(root), NOTHING_YET)
    answered: dict[TxHash, None] = {}

    def check(image: Path) -> None:
        watermark = Watermark.open(watermark_path(image))
        journal = Journal.open(journal_path(image), watermark, SEGMENT_BYTES, 3)
        assert answered.keys() <= {entry.tx.hash for entry in journal.recovered}
        journal.close()
        watermark.close()

    with failing(root, check) as failures:
        nonce = 0
        for _ in range(4):
            watermark = Watermark.open(watermark_path(root))
            journal = Journal.open(journal_path(root), watermark, SEGMENT_BYTES, 3)
            for _ in range(12):
                added = [transfer(1, nonce + number) for number in range(rng.randrange(1, 4))]
                nonce += len(added)
                for tx in added:
                    journal.append_add(0, tx, encode_record(tx))
                journal.sync()
                answered |= {tx.hash: None for tx in added}
                for tx_hash in rng.sample(list(answered), len(answered) * 2 // 3):
                    # Confirmed: the chain has it from now on.
                    del answered[tx_hash]
                    journal.settle(tx_hash)
            journal.close()
            watermark.close()
    assert failures.count > 100
    assert watermark_start(root) > 10, "no segment was removed"


def watermark_start(directory: Path) -> int:
    watermark = Watermark.open(watermark_path(directory))
    start = watermark.journal_start()
    watermark.close()
    return start


# Whole directories.


def test_a_first_start_can_be_repeated_whenever_the_power_fails(root: Path) -> None:
    def check(image: Path) -> None:
        ChainStore.open(image / "data", dev_genesis()).close()

    with failing(root, check) as failures:
        ChainStore.open(root / "data", dev_genesis()).close()
    assert failures.count >= 5


def test_a_copy_of_the_chain_is_on_disk_when_it_is_made(root: Path) -> None:
    chain = ChainStore.open(root / "data", dev_genesis())
    make_blocks(chain, 0, 2)
    with watched(root) as power:
        chain.checkpoint(root / "copy")
        image = power.leave(root.with_name("image"))
    copy = ChainStore.open(image / "copy", dev_genesis())
    assert copy.head_hash == chain.head_hash
    copy.close()
    chain.close()


def test_a_snapshot_that_is_shown_is_whole(root: Path) -> None:
    chain = open_chain(root / "data")
    grow_signed(chain, 4, strangers=3)
    taken: set[int] = set()

    def check(image: Path) -> None:
        shelf = SnapshotDirectory(snapshots_path(image / "data"))
        assert taken <= set(shelf.heights())
        for height in shelf.heights():
            manifest = shelf.find_manifest(height)
            assert manifest is not None
            assert all(shelf.find_chunk(height, index) is not None for index in range(len(manifest.chunks)))

    with failing(root, check) as failures:
        for height in (2, 3):
            take_snapshot(chain, height)
            taken.add(height)
            failures.fail()
    chain.close()
    assert failures.count >= 8


def test_a_saved_dev_chain_is_the_old_one_or_the_new_one(root: Path) -> None:
    genesis, data = dev_genesis(), root.with_name("data")
    saved: dict[int, None] = {}

    def check(image: Path) -> None:
        target = image / "loaded"
        load_state(image / "chain.zip", genesis, target)
        chain = ChainStore.open(target, genesis)
        assert chain.visible in saved
        chain.close()

    def make_and_stop(first: int) -> None:
        chain = ChainStore.open(data, genesis)
        make_blocks(chain, first, 1)
        Journal.open(journal_path(data), chain.watermark, SEGMENT_BYTES).close()
        chain.close()

    make_and_stop(0)
    save_state(data, genesis, root / "chain.zip")
    saved[1] = None
    make_and_stop(1)
    with failing(root, check) as failures:
        saved[2] = None
        save_state(data, genesis, root / "chain.zip")
        del saved[1]
    assert failures.count >= 3


def test_a_snapshot_of_a_dev_chain_and_the_revert_to_it_happen_wholly_or_not_at_all(root: Path) -> None:
    genesis, data = dev_genesis(), root / "data"
    chain = ChainStore.open(data, genesis)
    make_blocks(chain, 0, 1)
    Journal.open(journal_path(data), chain.watermark, SEGMENT_BYTES).close()
    expected = {1}
    listed: set[int] = set()

    def check(image: Path) -> None:
        found = ChainStore.open(image / "data", genesis)
        assert found.visible in expected
        Journal.open(journal_path(image / "data"), found.watermark, SEGMENT_BYTES).close()
        found.close()
        kept = DevDirectory(image / "data")
        assert listed <= kept.state.snapshots.keys() or kept.state.reverts
        for number in kept.state.snapshots:
            assert kept.decide_revert(number)
            found = ChainStore.open(image / "data", genesis)
            Journal.open(journal_path(image / "data"), found.watermark, SEGMENT_BYTES).close()
            assert found.visible == 1
            found.close()
            break

    with failing(root, check) as failures:
        kept = DevDirectory(data)
        kept.take_snapshot(chain.checkpoint, chain.visible, [JournalEntry(7, signed(1))])
        listed = {1}
        failures.fail()
        expected = {1, 2}
        make_blocks(chain, 1, 1)
        expected = {2}
        failures.fail()
        expected = {1, 2}
        assert kept.decide_revert(1)
        expected = {1}
        chain.close()
        ChainStore.open(data, genesis).close()
    assert failures.count >= 15


def test_a_discarded_journal_can_be_discarded_again_whenever_the_power_fails(root: Path) -> None:
    genesis, data = dev_genesis(), root / "data"
    chain = ChainStore.open(data, genesis)
    make_blocks(chain, 0, 1)
    journal = Journal.open(journal_path(data), chain.watermark, SEGMENT_BYTES)
    for nonce in (1, 2):
        journal.append_add(7, signed(nonce), encode_record(signed(nonce)))
        journal.sync()
    journal.close()
    chain.close()
    segment = only_file(journal_path(data), "*.seg")
    last = segment.read_bytes().rindex(b"CJFR")
    overwrite(segment, last, bytes(segment.stat().st_size - last))

    def start(directory: Path) -> list[JournalEntry]:
        found = ChainStore.open(directory, genesis)
        assert found.visible == 1
        journal = Journal.open(journal_path(directory), found.watermark, SEGMENT_BYTES)
        journal.close()
        found.close()
        return journal.recovered

    def check(image: Path) -> None:
        with suppress(Corrupt):
            assert start(image / "data") == [], "half of the journal is not nothing of it"
        discard_journal(image / "data")
        assert start(image / "data") == []

    with failing(root, check) as failures:
        discard_journal(data)
    assert failures.count >= 4
