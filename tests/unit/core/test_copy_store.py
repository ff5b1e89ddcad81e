"""The copy of an open store for a backup: of one moment, and no burden to the core."""

import shutil
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt, Unavailable
from cairn.domain.genesis import dev_genesis
from cairn.store.backups import check_data, complete_copy, data_files, write_backup
from cairn.store.chain_export import export_chain
from cairn.store.directory import journal_path
from cairn.store.hot_copy import COPY_DIRECTORY, CopiedStore
from cairn.store.verification.verification import verify_directory
from cairn.store.watermark import StoreBounds
from tests.support.core_fixtures import make_block, opened_core, signed
from tests.support.disk import bounds_of


async def test_a_copy_has_the_chain_and_the_journal_of_its_moment(tmp_path: Path) -> None:
    data, place = tmp_path / "data", tmp_path / "data" / COPY_DIRECTORY
    async with opened_core(data) as core:
        for nonce in range(3):
            await core.submit(signed(nonce))
        make_block(core)
        for nonce in range(3, 5):
            await core.submit(signed(nonce))
        place.mkdir()
        copied = await core.copy_store()
        # What comes later is not in it, though the newest segment is the same file.
        await core.submit(signed(5))
        make_block(core)
        complete_copy(place, copied)
        files = data_files(place, copied.journal)
        write_backup(tmp_path / "backup", files, None, lambda size: None)
    assert (copied.height, copied.pending) == (1, 2)
    found = check_data(tmp_path / "backup" / "data", dev_genesis())
    assert (found.chain.head.height, found.chain.head.hash) == (copied.height, copied.hash)
    assert found.pending == 2
    async with opened_core(tmp_path / "backup" / "data") as core:
        assert (core.head, (await core.status()).pending) == (1, 2)


async def pruned_backup(directory: Path) -> tuple[Path, CopiedStore]:
    """A backup of a node that has removed blocks, and has transactions in its mempool."""
    data, place = directory / "data", directory / "data" / COPY_DIRECTORY
    async with opened_core(data) as core:
        for nonce in range(6):
            await core.submit(signed(nonce))
            make_block(core)
        core._chain.prune(4, lambda: None)
        for nonce in range(6, 9):
            await core.submit(signed(nonce))
        place.mkdir()
        copied = await core.copy_store()
        complete_copy(place, copied)
        write_backup(directory / "backup", data_files(place, copied.journal), None, lambda size: None)
    return directory / "backup" / "data", copied


async def test_a_backup_says_where_its_chain_begins_and_is_verified_and_exported(tmp_path: Path) -> None:
    backup, copied = await pruned_backup(tmp_path)
    assert bounds_of(backup) == StoreBounds(6, 4, copied.journal.start, copied.journal.end)
    verdict = verify_directory(backup, dev_genesis())
    assert (verdict.findings, verdict.oldest, verdict.head, verdict.pending) == ([], 4, 6, 3)
    done = export_chain(backup, dev_genesis(), lambda line: None, "test")
    assert (done.oldest, done.head, done.pending) == (4, 6, 3)


async def test_a_backup_says_where_its_journal_ends(tmp_path: Path) -> None:
    backup, _ = await pruned_backup(tmp_path)
    shutil.rmtree(journal_path(backup))
    with pytest.raises(Corrupt, match="frame"):
        check_data(backup, dev_genesis())


async def test_a_copy_of_a_core_without_blocks_or_transactions_opens(tmp_path: Path) -> None:
    data, place = tmp_path / "data", tmp_path / "data" / COPY_DIRECTORY
    async with opened_core(data) as core:
        place.mkdir()
        copied = await core.copy_store()
        complete_copy(place, copied)
    found = check_data(place, dev_genesis())
    assert (found.chain.head.height, found.pending) == (0, 0)


async def test_a_copy_that_fails_leaves_the_core_as_it_was(tmp_path: Path) -> None:
    data, place = tmp_path / "data", tmp_path / "data" / COPY_DIRECTORY
    async with opened_core(data) as core:
        with pytest.raises(Unavailable, match="the store cannot be copied: .*No such file"):
            await core.copy_store()
        place.mkdir()
        await core.copy_store()
        # A second into the same place.
        with pytest.raises(Unavailable, match="the store cannot be copied: .*File exists"):
            await core.copy_store()
        journal_path(place).rename(place / "aside")
        with pytest.raises(Unavailable, match="the store cannot be copied"):
            await core.copy_store()
        assert not core.failed.done()
        await core.submit(signed(0))
        assert make_block(core) == 1


async def test_a_copy_of_a_journal_of_several_segments_has_all_of_them(tmp_path: Path) -> None:
    data, place = tmp_path / "data", tmp_path / "data" / COPY_DIRECTORY
    async with opened_core(data) as core:
        core._journal._segment_bytes = core._journal._capacity = 4_096
        for nonce in range(60):
            await core.submit(signed(nonce))
        place.mkdir()
        copied = await core.copy_store()
        complete_copy(place, copied)
        assert len(list(journal_path(place).iterdir())) > 1
        await core.submit(signed(60))
        write_backup(tmp_path / "backup", data_files(place, copied.journal), None, lambda size: None)
    assert check_data(tmp_path / "backup" / "data", dev_genesis()).pending == 60
