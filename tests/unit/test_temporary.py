import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.temporary import keep, temporary_directory
from tests.support.node_process import is_alive, wait_until
from tests.support.pace import PATIENCE_S

HOLD = """
import os, signal, sys
from pathlib import Path
from cairn.temporary import temporary_directory
with temporary_directory("a-", Path(sys.argv[1])) as path:
    (path / "worker").mkdir()
    (path / "worker" / "scratch").touch()
    child = os.fork()
    if child:
        print(path, child, flush=True)
    signal.pause()
"""


@pytest.fixture
def leave_on_sigterm() -> Iterator[None]:
    def leave(number: int, frame: object) -> None:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, leave)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_temporary_directory_exists_until_the_end(tmp_path: Path) -> None:
    with temporary_directory("a-", tmp_path) as path:
        assert (path.parent, path.name[:2], path.stat().st_mode & 0o777) == (tmp_path, "a-", 0o700)
        (path / "file").touch()
    assert not path.exists()


def test_a_temporary_directory_is_removed_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(KeyError), temporary_directory("a-", tmp_path):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_a_kept_directory_is_not_removed_by_the_next_start(tmp_path: Path) -> None:
    with temporary_directory("a-", tmp_path) as path:
        (path / "file").touch()
        kept = keep(path)
    with temporary_directory("a-", tmp_path):
        assert [entry.name for entry in kept.iterdir()] == ["file"]
    assert list(tmp_path.iterdir()) == [kept]


@pytest.mark.usefixtures("leave_on_sigterm")
def test_a_signal_while_it_is_made_does_not_leave_it_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = tempfile.mkdtemp

    def make_and_be_told_to_stop(prefix: str, dir: Path) -> str:
        made = make(prefix=prefix, dir=dir)
        signal.raise_signal(signal.SIGTERM)
        return made

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_be_told_to_stop)
    with pytest.raises(SystemExit), temporary_directory("a-", tmp_path):
        pytest.fail("the signal should have come first")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("leave_on_sigterm")
def test_a_signal_while_it_is_removed_waits_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = shutil.rmtree

    def be_told_to_stop_and_remove(path: Path, ignore_errors: bool) -> None:
        signal.raise_signal(signal.SIGTERM)
        remove(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", be_told_to_stop_and_remove)
    with pytest.raises(SystemExit), temporary_directory("a-", tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_directory_of_a_killed_owner_is_removed_by_the_next(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        path, child = other.stdout.readline().split()
        left = Path(os.fsdecode(path))
        with temporary_directory("a-", tmp_path):
            assert left.is_dir(), "its owner lives"
        other.kill()
        other.wait()
        with temporary_directory("a-", tmp_path):
            assert left.is_dir(), "a process of its owner lives"
        os.kill(int(child), signal.SIGKILL)
        wait_until(lambda: not is_alive(int(child)), PATIENCE_S, "the end of the last process")
    with temporary_directory("b-", tmp_path):
        assert left.is_dir(), "it is of another kind"
    with temporary_directory("a-", tmp_path) as path_of_next:
        assert list(tmp_path.iterdir()) == [path_of_next]


def test_directories_of_others_are_not_removed(tmp_path: Path) -> None:
    (tmp_path / "a-made-just-now").mkdir()
    (tmp_path / "a-file").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".owner").touch()
    (tmp_path / "a-link").symlink_to(elsewhere)
    (tmp_path / "a-with-a-link").mkdir()
    (tmp_path / "a-with-a-link" / ".owner").symlink_to(elsewhere / ".owner")
    before = sorted(tmp_path.rglob("*"))
    with temporary_directory("a-", tmp_path):
        pass
    assert sorted(tmp_path.rglob("*")) == before
