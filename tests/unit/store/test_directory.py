import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cairn.domain.errors import DirectoryInUse, StoreUnavailable, WrongFormat
from cairn.store.directory import DirectoryLock, check_format, claim_format, write_file
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
    with pytest.raises(StoreUnavailable, match="File exists"):
        DirectoryLock.acquire(tmp_path / "file" / "below")


def test_a_new_directory_is_marked_once_and_then_taken_as_it_is(tmp_path: Path) -> None:
    claim_format(tmp_path)
    assert (tmp_path / "FORMAT").read_text() == "cairn data format 3\n"
    claim_format(tmp_path)
    check_format(tmp_path)


def test_another_format_is_refused_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "FORMAT").write_text("cairn data format 4\n")
    with pytest.raises(WrongFormat, match="is in format '4'; this version of cairn reads format 3"):
        claim_format(tmp_path)
    with pytest.raises(WrongFormat):
        check_format(tmp_path)


@pytest.mark.parametrize("part", ["chain", "journal"])
def test_data_of_an_unknown_format_is_never_taken_for_an_empty_directory(tmp_path: Path, part: str) -> None:
    (tmp_path / part).mkdir()
    claim_format(tmp_path)
    (tmp_path / "FORMAT").unlink()
    (tmp_path / part / "data").touch()
    with pytest.raises(WrongFormat, match="does not say in which format"):
        claim_format(tmp_path)


def test_a_disk_without_room_for_the_mark_is_unavailable(tmp_path: Path) -> None:
    with no_file_beyond(5), pytest.raises(StoreUnavailable, match="cannot write .*FORMAT"):
        claim_format(tmp_path)
    claim_format(tmp_path)


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
