"""A chain that is opened anew: it must be the one that was there, and none is ever started in its place."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cairn.domain.errors import ChainMissing, StoreUnavailable
from cairn.domain.genesis import dev_genesis
from cairn.domain.types import BlockHash
from cairn.store.chain import ChainStore
from cairn.store.directory import SeenChain, SeenHead, journal_path, mark_format, sync_file
from cairn.store.rocks import Database
from cairn.store.watermark import NOTHING_YET, Watermark
from tests.support.damaged_homes import remove, tree

GENESIS = dev_genesis()


def seen_in(directory: Path) -> SeenHead:
    """Start a chain there; returns what its node has seen of it."""
    store = ChainStore.open(directory, GENESIS)
    journal_path(directory).mkdir()
    head = SeenHead(store.visible, store.head_hash, reverts=0)
    store.close()
    return head


def test_the_last_noted_head_is_returned() -> None:
    seen = SeenChain()
    assert seen.last() is None
    for height in range(3):
        head = SeenHead(height, BlockHash(bytes([height]) * 32), reverts=height)
        seen.note(head)
        assert seen.last() == head


def test_a_head_noted_by_a_forked_process_is_seen_by_its_parent() -> None:
    seen = SeenChain()
    head = SeenHead(7, BlockHash(b"\x07" * 32), reverts=1)
    child = os.fork()
    if child == 0:
        seen.note(head)
        os._exit(0)
    os.waitpid(child, 0)
    assert seen.last() == head


def test_the_same_chain_is_opened_anew(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    seen = seen_in(directory)
    store = ChainStore.open(directory, GENESIS, seen)
    assert store.head_hash == seen.hash
    store.close()


def test_no_chain_is_started_where_the_data_directory_vanished(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    seen = seen_in(directory)
    shutil.rmtree(directory)
    with pytest.raises(StoreUnavailable, match="data is gone"):
        ChainStore.open(directory, GENESIS, seen)
    assert not directory.exists()
    directory.mkdir()
    with pytest.raises(StoreUnavailable, match="data is gone"):
        ChainStore.open(directory, GENESIS, seen)
    assert not list(directory.iterdir())


@pytest.mark.parametrize("part", ["chain", "watermark", "journal"])
def test_a_part_that_is_gone_is_not_made_anew(tmp_path: Path, part: str) -> None:
    directory = tmp_path / "data"
    seen = seen_in(directory)
    (directory / part).rename(tmp_path / "aside")
    with pytest.raises(StoreUnavailable, match=f"{part} is gone"):
        ChainStore.open(directory, GENESIS, seen)
    assert not (directory / part).exists()
    (tmp_path / "aside").rename(directory / part)
    ChainStore.open(directory, GENESIS, seen).close()


def test_an_empty_database_is_not_started(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    seen = seen_in(directory)
    shutil.rmtree(directory / "chain")
    (directory / "chain").mkdir()
    Watermark.create(directory / "watermark", NOTHING_YET)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="CURRENT is gone"):
            ChainStore.open(directory, GENESIS, seen)
    assert not list((directory / "chain").iterdir())


def test_a_chain_is_not_begun_in_a_database_that_another_start_had_just_made(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    seen = seen_in(directory)
    shutil.rmtree(directory / "chain")
    Database.create(directory / "chain").close()
    Watermark.create(directory / "watermark", NOTHING_YET)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="chain in .* is gone"):
            ChainStore.open(directory, GENESIS, seen)


def test_an_older_copy_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    seen = seen_in(directory)
    with pytest.raises(StoreUnavailable, match="ends at block 0, though this node has had block 3"):
        ChainStore.open(directory, GENESIS, SeenHead(3, seen.hash, reverts=0))


def test_another_chain_of_the_same_genesis_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    seen_in(directory)
    with pytest.raises(StoreUnavailable, match="another chain"):
        ChainStore.open(directory, GENESIS, SeenHead(0, BlockHash(bytes(32)), reverts=0))


def test_a_write_to_a_removed_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        sync_file(file)
        path.unlink()
        with pytest.raises(FileNotFoundError, match="was removed"):
            sync_file(file)
    finally:
        os.close(file)


def emptied(directory: Path) -> None:
    for path in list(directory.iterdir()):
        remove(path, random.Random())


def unmounted(directory: Path) -> None:
    emptied(directory)
    (directory / "lost+found").mkdir()


def only_marked(directory: Path) -> None:
    emptied(directory)
    mark_format(directory)


def newly_made(directory: Path) -> None:
    emptied(directory)
    mark_format(directory)
    Watermark.create(directory / "watermark", NOTHING_YET)


@pytest.mark.parametrize("empty", [shutil.rmtree, emptied, unmounted, only_marked, newly_made])
def test_a_home_whose_chain_was_begun_begins_no_other(tmp_path: Path, empty: Callable[[Path], None]) -> None:
    directory, begun = tmp_path / "data", tmp_path / "chain-begun"
    seen = SeenChain(begun)
    assert seen.find_begun_file() is None
    ChainStore.open(directory, GENESIS, begun=seen.find_begun_file()).close()
    seen.note_begun()
    assert SeenChain(begun).find_begun_file() == begun
    empty(directory)
    before = tree(tmp_path)
    for _ in range(3):
        with pytest.raises(ChainMissing, match=f"{directory} holds no chain, .* remove {begun}"):
            ChainStore.open(directory, GENESIS, begun=begun)
        assert tree(tmp_path) == before
    begun.unlink()
    ChainStore.open(directory, GENESIS, begun=seen.find_begun_file()).close()


def test_an_emptied_directory_is_left_without_even_a_lock(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(ChainMissing):
        ChainStore.open(tmp_path / "data", GENESIS, begun=tmp_path / "chain-begun")
    assert not list((tmp_path / "data").iterdir())


def test_a_chain_that_is_there_is_opened_by_a_home_that_knows_of_it(tmp_path: Path) -> None:
    seen = seen_in(tmp_path / "data")
    store = ChainStore.open(tmp_path / "data", GENESIS, begun=tmp_path / "chain-begun")
    assert store.head_hash == seen.hash
    store.close()


def test_the_mark_of_a_begun_chain_says_what_it_is_for_and_is_written_once(tmp_path: Path) -> None:
    begun = tmp_path / "chain-begun"
    SeenChain(begun).note_begun()
    assert "Remove this file only to start over" in begun.read_text()
    begun.write_text("a note of the operator")
    SeenChain(begun).note_begun()
    assert begun.read_text() == "a note of the operator"


def test_a_chain_that_nobody_would_miss_leaves_no_mark(tmp_path: Path) -> None:
    seen = SeenChain()
    seen.note_begun()
    assert seen.find_begun_file() is None
