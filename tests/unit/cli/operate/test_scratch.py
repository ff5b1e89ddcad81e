"""The directory in which a backup is made: one command at a time, and nothing is left of a killed one."""

import os
import signal
from pathlib import Path

import pytest

from cairn.cli.operate.scratch import LOCK_FILE, scratch_directory
from cairn.cli.report import CommandFailed


def test_it_is_private_empty_and_removed_at_the_end(tmp_path: Path) -> None:
    with scratch_directory(tmp_path / "scratch") as path:
        assert [each.name for each in path.iterdir()] == [LOCK_FILE]
        assert path.stat().st_mode & 0o777 == 0o700
        (path / "part").mkdir()
    assert not path.exists()


def test_a_second_command_is_refused_while_the_first_works(tmp_path: Path) -> None:
    with scratch_directory(tmp_path / "scratch") as path:
        (path / "part").touch()
        with pytest.raises(CommandFailed, match="another command works in"), scratch_directory(path):
            pass
        assert (path / "part").exists()
    with scratch_directory(path):
        pass


@pytest.mark.parametrize("is_link", [True, False])
def test_what_no_command_has_made_there_is_refused_and_left_alone(tmp_path: Path, is_link: bool) -> None:
    path, other = tmp_path / "scratch", tmp_path / "other"
    precious = (other if is_link else path) / "chain" / "file"
    precious.parent.mkdir(parents=True)
    precious.write_bytes(b"precious")
    if is_link:
        path.symlink_to(other)
    with pytest.raises(CommandFailed, match="nothing was removed"), scratch_directory(path):
        pass
    assert precious.read_bytes() == b"precious"


def test_what_a_killed_command_left_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "scratch"
    pid = os.fork()
    if pid == 0:
        with scratch_directory(path):
            (path / "part").mkdir()
            (path / "part" / "file").write_bytes(b"half")
            (path / "link").symlink_to(tmp_path)
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert (path / "part" / "file").exists()
    with scratch_directory(path):
        assert [each.name for each in path.iterdir()] == [LOCK_FILE]
    assert tmp_path.exists()
