"""The file of the state tree: written at a stop, and while blocks are made; a disk that fails it stops nobody."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cairn.core.service import Core
from cairn.domain.errors import StoreUnavailable
from cairn.store import tree_file
from cairn.store.directory import chain_path
from cairn.store.tree_file import TreeMark, read_tree, tree_path
from tests.support.audit import audit
from tests.support.core_fixtures import ACCOUNTS, open_core, opened_core, produce, signed
from tests.support.pace import PATIENCE_S


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def pay(core: Core, blocks: int) -> None:
    for _ in range(blocks):
        await core.submit(signed(core._chain.account(ACCOUNTS[0]).nonce))
        produce(core)


def saved_mark(directory: Path) -> TreeMark | None:
    found = read_tree(tree_path(chain_path(directory)))
    return None if found is None else found[0]


def mark_of(core: Core) -> TreeMark:
    return TreeMark(core.head, core._chain.head_hash, core._chain.tree.size)


async def test_at_a_stop_the_file_is_of_the_head_and_not_before(tmp_path: Path) -> None:
    for _ in range(2):
        async with opened_core(tmp_path) as core:
            before = saved_mark(tmp_path)
            await pay(core, 3)
            assert saved_mark(tmp_path) == before
            mark = mark_of(core)
        assert saved_mark(tmp_path) == mark


async def test_a_stop_without_a_new_block_leaves_the_file_alone(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        await pay(core, 1)
    written = tree_path(chain_path(tmp_path)).stat()
    async with opened_core(tmp_path):
        pass
    assert tree_path(chain_path(tmp_path)).stat().st_ino == written.st_ino


async def test_the_file_is_written_while_blocks_are_made_and_is_right_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_file, "LEAST_CHANGES", 5)
    monkeypatch.setattr(tree_file, "SLICE_BYTES", 64)
    core = open_core(tmp_path)
    await pay(core, 12)
    await until(lambda: saved_mark(tmp_path) is not None)
    # As a kill leaves it: only a stop writes it again.
    core.close()
    again = open_core(tmp_path)
    audit(again._chain)
    again.close()


async def test_a_stop_ends_a_copy_that_is_under_way_and_writes_the_file_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_file, "LEAST_CHANGES", 3)
    begun, real = threading.Event(), tree_file.write_tree

    def slow(path: Path, mark: TreeMark, leaves: bytearray, pause: Callable[[], None]) -> None:
        if threading.current_thread() is threading.main_thread():
            real(path, mark, leaves, pause)
            return
        begun.set()
        while True:
            # Only the stop ends it.
            pause()

    monkeypatch.setattr(tree_file, "write_tree", slow)
    async with opened_core(tmp_path) as core:
        await pay(core, 3)
        await until(begun.is_set)
        await pay(core, 2)
        mark = mark_of(core)
    assert saved_mark(tmp_path) == mark


async def test_a_disk_that_fails_the_file_stops_neither_the_blocks_nor_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_file, "LEAST_CHANGES", 3)
    failed = threading.Event()

    def fail(*_: object) -> None:
        failed.set()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tree_file, "write_tree", fail)
    async with opened_core(tmp_path) as core:
        await pay(core, 3)
        await until(failed.is_set)
        await pay(core, 1)
        assert not core.failed.done()
        height = core.head
    assert saved_mark(tmp_path) is None
    again = open_core(tmp_path)
    assert again.head == height
    again.close()


async def test_a_core_that_has_failed_does_not_write_the_file(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        await pay(core, 1)
        core.admissions.fail(StoreUnavailable("the disk is gone"))
        core.failed.exception()
    assert saved_mark(tmp_path) is None
