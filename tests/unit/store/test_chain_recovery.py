"""What a crash leaves is opened; damage to what was committed never is."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt
from cairn.store.chain import ChainStore
from cairn.store.keys import FAMILIES
from cairn.store.watermark import NOTHING_YET, Watermark
from tests.support.blocks import extend, grow, next_transfers, store_genesis
from tests.support.disk import database_of, files_of, flip_byte, only_file, overwrite

COMMIT_FOR_EVER = """
import sys
from pathlib import Path
from cairn.store.chain import ChainStore
from tests.support.blocks import extend, next_transfers, store_genesis
chain = ChainStore.open(Path(sys.argv[1]), store_genesis())
while True:
    extend(chain, next_transfers(chain, 100))
    print(chain.visible, chain.head_hash.hex(), flush=True)
"""


class Crashed:
    """A store as a crash could leave it: block 3 is committed, block 4 was being written."""

    def __init__(self, chain: ChainStore, copy: Path) -> None:
        grow(chain, 3, 40)
        log = only_file(chain.directory / "chain", "*.log")
        watermark = (chain.directory / "watermark").read_bytes()
        self.committed_bytes = log.stat().st_size
        self.committed_head = chain.head_hash
        extend(chain, next_transfers(chain, 300))
        self.written_bytes = log.stat().st_size
        shutil.copytree(chain.directory, copy)
        self.directory = copy
        self.log = copy / "chain" / log.name
        (copy / "watermark").write_bytes(watermark)

    def open(self) -> ChainStore:
        return ChainStore.open(self.directory, store_genesis())


@pytest.fixture
def crashed(chain: ChainStore, tmp_path: Path) -> Crashed:
    return Crashed(chain, tmp_path / "copy")


def test_a_block_that_is_whole_in_the_log_is_kept_even_if_nobody_was_told(crashed: Crashed) -> None:
    chain = crashed.open()
    assert chain.visible == 4
    assert chain.watermark.height() == 4
    chain.close()


@pytest.mark.parametrize("part", [0, 1, 6, 7, 8, 200, 32_760, 40_000, -1])
def test_the_torn_tail_of_a_block_is_discarded(crashed: Crashed, part: int) -> None:
    cut = crashed.written_bytes if part < 0 else crashed.committed_bytes
    with crashed.log.open("r+b") as file:
        file.truncate(cut + part)
    chain = crashed.open()
    assert chain.visible == 3
    assert chain.head_hash == crashed.committed_head
    extend(chain, next_transfers(chain, 10))
    chain.close()
    assert (chain := crashed.open()).visible == 4
    chain.close()


@pytest.mark.parametrize(("start", "length"), [(0, 512), (100, 4096), (-4096, 4096), (0, 0)])
def test_a_torn_block_with_pages_of_zeros_is_discarded(crashed: Crashed, start: int, length: int) -> None:
    """After a power loss the file may have its size and some of its pages, in any order."""
    offset = start + (crashed.written_bytes if start < 0 else crashed.committed_bytes)
    overwrite(crashed.log, offset, bytes(length or crashed.written_bytes - crashed.committed_bytes))
    chain = crashed.open()
    assert chain.visible == 3
    chain.close()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_flipped_byte_in_a_committed_block_stops_the_opening(crashed: Crashed, share: float) -> None:
    flip_byte(crashed.log, int(crashed.committed_bytes * share) + 4)
    before = files_of(crashed.directory / "chain")
    for _ in range(2):
        with pytest.raises(
            Corrupt, match=f"checksum mismatch in the log {crashed.log}; block [0-3] and all up to 3 were"
        ):
            crashed.open()
    after = files_of(crashed.directory / "chain")
    assert after[crashed.log.name] == before[crashed.log.name]


def test_a_log_that_lost_committed_blocks_stops_the_opening(crashed: Crashed) -> None:
    with crashed.log.open("r+b") as file:
        file.truncate(crashed.committed_bytes - 1)
    for _ in range(2):
        with pytest.raises(Corrupt, match="block 3"):
            crashed.open()


def test_a_log_that_is_gone_stops_the_opening(crashed: Crashed) -> None:
    crashed.log.unlink()
    for _ in range(2):
        with pytest.raises(Corrupt):
            crashed.open()


def read_everything(chain: ChainStore) -> None:
    again = ChainStore.open(chain.directory, chain.genesis)
    try:
        for family in FAMILIES:
            list(database_of(again).scan(family))
    finally:
        again.close()


def test_a_flipped_byte_in_a_table_stops_the_opening_or_the_reading(chain: ChainStore) -> None:
    grow(chain, 5, 100)
    chain.close()
    tables = sorted((chain.directory / "chain").glob("*.sst"))
    # There was no change of who signs.
    assert len(tables) >= len(FAMILIES) - 1
    for table in tables:
        original = table.read_bytes()
        flip_byte(table, len(original) // 3)
        with pytest.raises(Corrupt, match=str(table)):
            read_everything(chain)
        table.write_bytes(original)
    read_everything(chain)


def test_a_crash_before_the_first_block_starts_anew(tmp_path: Path) -> None:
    """The directory was marked, and RocksDB made, when the process ended."""
    directory = tmp_path / "data"
    chain = ChainStore.open(directory, store_genesis())
    log = only_file(directory / "chain", "*.log")
    shutil.copytree(directory, tmp_path / "copy")
    head = chain.head_hash
    chain.close()
    Watermark.create(tmp_path / "copy" / "watermark", NOTHING_YET)
    with (tmp_path / "copy" / "chain" / log.name).open("r+b") as file:
        file.truncate(50)
    again = ChainStore.open(tmp_path / "copy", store_genesis())
    assert again.head_hash == head
    again.close()


@pytest.mark.parametrize("blocks", [1, 20, 60])
def test_a_killed_process_loses_no_block_that_it_told_of(tmp_path: Path, blocks: int) -> None:
    with subprocess.Popen([sys.executable, "-c", COMMIT_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(blocks)]
        child.send_signal(signal.SIGKILL)
        told += child.stdout.read().splitlines()
    chain = ChainStore.open(tmp_path, store_genesis())
    for line in told:
        height, block_hash = line.split()
        header = chain.find_header(int(height))
        assert header is not None
        assert header[0].hex() == block_hash.decode()
    chain.close()
