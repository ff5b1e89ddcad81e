"""Every block is synced, by RocksDB and by the watermark: what no crash of a process alone would ever show."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from rocksdict import Options

from cairn.store import rocks
from cairn.store.chain import ChainStore
from cairn.store.directory import Syncs
from tests.support.blocks import extend, next_transfers, store_genesis

BLOCKS = 5


class Disk:
    """What was synced, by whom and in which order."""

    def __init__(self) -> None:
        self.options: list[Options] = []
        self.synced: list[str] = []

    def log_syncs(self) -> int:
        """How often RocksDB has synced its log, by its own count."""
        found = re.search(r"rocksdb\.wal\.synced COUNT : (\d+)", self.options[-1].get_statistics() or "")
        assert found is not None
        return int(found.group(1))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    make_options, sync_file = rocks._database_options, os.fdatasync

    def counting_options(strict: bool) -> Options:
        options = make_options(strict)
        options.enable_statistics()
        disk.options.append(options)
        return options

    def noted_sync(file: int) -> None:
        disk.synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{file}")))
        sync_file(file)

    monkeypatch.setattr(rocks, "_database_options", counting_options)
    monkeypatch.setattr(os, "fdatasync", noted_sync)
    return disk


@pytest.fixture
def chain(disk: Disk, tmp_path: Path) -> Iterator[ChainStore]:
    store = ChainStore.open(tmp_path / "data", store_genesis())
    yield store
    store.close()


def test_every_block_is_synced_to_rocksdb_s_log_and_promised_by_a_synced_watermark(
    disk: Disk, chain: ChainStore
) -> None:
    for number in range(BLOCKS):
        before, promised = disk.log_syncs(), len(disk.synced)
        # Also a block without transactions: it is announced like any other.
        extend(chain, next_transfers(chain, number))
        assert disk.log_syncs() == before + 1
        assert disk.synced[promised:] == ["watermark"]


def test_the_watermark_is_synced_after_the_block(
    disk: Disk, chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = disk.log_syncs()
    at_the_watermark: list[int] = []
    advance = chain.watermark.advance

    def noted_advance(height: int) -> None:
        at_the_watermark.append(disk.log_syncs() - before)
        advance(height)

    monkeypatch.setattr(chain.watermark, "advance", noted_advance)
    extend(chain, next_transfers(chain, 3))
    assert at_the_watermark == [1]


def test_a_probe_is_synced_too(disk: Disk, chain: ChainStore) -> None:
    before = disk.log_syncs()
    chain.probe()
    assert disk.log_syncs() == before + 1


def test_a_chain_in_a_temporary_directory_is_not_synced_and_a_killed_process_loses_nothing_of_it(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Syncs, "are_left_out", True)
    with closing(ChainStore.open(tmp_path / "data", store_genesis())) as chain:
        before = disk.log_syncs()
        for number in range(BLOCKS):
            extend(chain, next_transfers(chain, number))
        assert disk.log_syncs() == before
        assert disk.synced == []
        # What the kernel has by now.
        shutil.copytree(tmp_path / "data", tmp_path / "left")
        head = chain.head_hash
    with closing(ChainStore.open(tmp_path / "left", store_genesis())) as chain:
        assert chain.head_hash == head
