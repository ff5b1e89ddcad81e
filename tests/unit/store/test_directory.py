import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cairn.domain.errors import DirectoryInUse, StoreUnavailable, WrongFormat
from cairn.store.chain import ChainStore
from cairn.store.directory import DirectoryLock, check_format, check_unused, mark_format, size_on_disk, write_file
from tests.support.blocks import store_genesis
from tests.support.disk import no_file_beyond

HOLD = """
import signal, sys
from pathlib import Path
from cairn.store.directory import DirectoryLock
DirectoryLock.acquire(Path(sys.argv[1]))
print("held", flush=True)
signal.pause()
"""


def test_a_directory_is_made_with_all_above_it(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    DirectoryLock.acquire(deep).release()
    assert deep.stat().st_mode & 0o777 == 0o700


def test_two_processes_never_hold_one_directory(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(DirectoryInUse, match=f"{tmp_path} is in use by the node with process id {other.pid}$"):
            DirectoryLock.acquire(tmp_path)
        # However the holder ends, the kernel lets go.
        other.send_signal(signal.SIGKILL)
    DirectoryLock.acquire(tmp_path).release()


def test_a_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    first = DirectoryLock.acquire(tmp_path)
    with pytest.raises(DirectoryInUse, match=str(os.getpid())):
        DirectoryLock.acquire(tmp_path)
    first.release()
    first.release()
    DirectoryLock.acquire(tmp_path).release()


def test_a_path_that_cannot_be_a_directory_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="Not a directory"):
        DirectoryLock.acquire(tmp_path / "file" / "below")


def test_a_directory_that_is_marked_has_our_format(tmp_path: Path) -> None:
    mark_format(tmp_path)
    assert (tmp_path / "FORMAT").read_text() == "cairn data format 6\n"
    check_format(tmp_path)


def test_another_format_is_refused_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "FORMAT").write_text("cairn data format 7\n")
    with pytest.raises(WrongFormat, match="is in format '7'; this version of cairn reads format 6"):
        check_format(tmp_path)


@pytest.mark.parametrize(
    ("mark", "way"),
    [
        ("cairn data format 5", "no release has written that one.*begin a new chain with its balances"),
        ("cairn data format 7", "a newer version wrote it: with that one run `cairn export"),
        ("cairn data format", "not written by cairn, or is damaged"),
    ],
)
def test_another_format_is_refused_with_the_way_on(tmp_path: Path, mark: str, way: str) -> None:
    (tmp_path / "FORMAT").write_text(f"{mark}\n")
    with pytest.raises(WrongFormat, match=way):
        check_format(tmp_path)


@pytest.mark.parametrize("part", ["chain", "journal"])
def test_a_directory_with_data_but_no_format_is_refused(tmp_path: Path, part: str) -> None:
    (tmp_path / part).mkdir()
    check_unused(tmp_path)
    (tmp_path / part / "data").touch()
    with pytest.raises(WrongFormat, match="does not say in which format"):
        check_unused(tmp_path)


def test_a_disk_without_room_for_the_mark_is_unavailable(tmp_path: Path) -> None:
    with no_file_beyond(5), pytest.raises(StoreUnavailable, match="cannot begin a chain in .*File too large"):
        ChainStore.open(tmp_path, store_genesis())
    ChainStore.open(tmp_path, store_genesis()).close()


def test_a_directory_without_a_format_cannot_be_followed(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="FORMAT"):
        check_format(tmp_path)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old and longer")
    (tmp_path / "file.new").write_bytes(b"left behind by a crash")
    write_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_the_size_is_what_the_files_occupy(tmp_path: Path) -> None:
    mark_format(tmp_path)
    empty = size_on_disk(tmp_path)
    (tmp_path / "chain").mkdir()
    write_file(tmp_path / "chain" / "table", bytes(range(256)) * 4_096)
    full = size_on_disk(tmp_path)
    assert empty + (1 << 20) <= full < empty + (2 << 20)
    # A further name of the same file, as in a snapshot, takes no further space.
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "table").hardlink_to(tmp_path / "chain" / "table")
    # Nor do bytes that were never written.
    os.truncate(tmp_path / "FORMAT", 1 << 30)
    assert size_on_disk(tmp_path) < full + (1 << 20)


def test_a_directory_that_is_gone_has_no_size(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="is gone"):
        size_on_disk(tmp_path / "data")
