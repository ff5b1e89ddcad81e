import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.temporary import temporary_directory


@pytest.fixture
def leave_on_sigterm() -> Iterator[None]:
    def leave(number: int, frame: object) -> None:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, leave)
    yield
    signal.signal(signal.SIGTERM, before)


def test_it_is_there_until_the_end(tmp_path: Path) -> None:
    with temporary_directory("a-", tmp_path) as path:
        assert (path.parent, path.name[:2], path.stat().st_mode & 0o777) == (tmp_path, "a-", 0o700)
        (path / "file").touch()
    assert not path.exists()


def test_a_failure_in_it_removes_it_too(tmp_path: Path) -> None:
    with pytest.raises(KeyError), temporary_directory("a-", tmp_path):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


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
