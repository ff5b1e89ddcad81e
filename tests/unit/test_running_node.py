"""The file that says which node runs in a home, and who believes it."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cairn.domain.errors import StoreUnavailable
from cairn.running_node import RUNNING_FILE, RunningNode, announced, find_running
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S

NODE = RunningNode(4711, "http://127.0.0.1:8645", None, "/tmp/cairn-run-x", "1.0.0", 1_760_000_000)


@contextmanager
def forked(home: Path) -> Iterator[int]:
    """A process that has announced a node in `home`, and sleeps."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with announced(home, NODE):
                os.write(told, b"1")
                signal.pause()
        finally:
            os._exit(1)
    os.close(told)
    try:
        assert os.read(ready, 1) == b"1"
        yield pid
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_running_node_is_found_with_all_that_it_says(tmp_path: Path) -> None:
    with announced(tmp_path, NODE):
        assert find_running(tmp_path) == NODE
        assert find_running(tmp_path) == NODE, "looking does not end it"
        file = tmp_path / RUNNING_FILE
        assert file.stat().st_mode & 0o777 == 0o600
        assert json.loads(file.read_bytes()) == {
            "pid": 4711,
            "url": "http://127.0.0.1:8645",
            "metricsUrl": None,
            "runtimeDir": "/tmp/cairn-run-x",
            "version": "1.0.0",
            "startedAt": 1_760_000_000,
        }
        assert NODE.core_socket == Path("/tmp/cairn-run-x/core.sock")
    assert list(tmp_path.iterdir()) == []
    assert find_running(tmp_path) is None


def test_in_a_directory_without_a_node_or_that_is_not_there_none_is_found(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert find_running(tmp_path) is None
    assert find_running(tmp_path / "none") is None
    assert find_running(tmp_path / "file") is None


def test_what_a_killed_node_leaves_is_not_taken_for_a_running_one(tmp_path: Path) -> None:
    with forked(tmp_path):
        assert find_running(tmp_path) == NODE
    assert (tmp_path / RUNNING_FILE).exists()
    assert find_running(tmp_path) is None
    with announced(tmp_path, NODE):
        assert find_running(tmp_path) == NODE


def test_a_process_of_the_node_that_outlives_its_supervisor_still_counts(tmp_path: Path) -> None:
    ended, outlives = os.pipe()
    with announced(tmp_path, NODE):
        child = os.fork()
        if child == 0:
            os.close(outlives)
            os.read(ended, 1)
            os._exit(0)
        # As if the supervisor were killed here: its end of the lock is closed, and the file stays.
        (tmp_path / RUNNING_FILE).rename(tmp_path / "kept")
    (tmp_path / "kept").rename(tmp_path / RUNNING_FILE)
    assert find_running(tmp_path) == NODE
    os.close(outlives)
    os.waitpid(child, 0)
    os.close(ended)
    assert find_running(tmp_path) is None


def test_nodes_in_two_homes_are_told_apart(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    other = RunningNode(1, "http://127.0.0.1:1", "http://127.0.0.1:2/metrics", "/run/b", "1.0.0", 1)
    with announced(first, NODE):
        with announced(second, other):
            assert (find_running(first), find_running(second)) == (NODE, other)
        assert (find_running(first), find_running(second)) == (NODE, None)


def test_a_second_node_in_a_home_does_not_take_the_place_of_the_first(tmp_path: Path) -> None:
    with forked(tmp_path):
        with announced(tmp_path, RunningNode(1, "http://127.0.0.1:1", None, "/run/b", "1.0.0", 1)):
            assert find_running(tmp_path) == NODE
        assert find_running(tmp_path) == NODE


def test_a_node_runs_in_a_home_that_it_cannot_write_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Also for root: a directory of that name cannot be replaced by a file.
    (tmp_path / f"{RUNNING_FILE}.new" / "full").mkdir(parents=True)
    with announced(tmp_path, NODE):
        assert find_running(tmp_path) is None
    with announced(tmp_path / "none", NODE):
        pass
    out = "".join(capsys.readouterr())
    assert out.count("cannot write down that the node runs") == 2


def test_a_node_that_nobody_looks_after_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with announced(None, NODE):
        assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_understood_is_an_error_while_somebody_holds_it(tmp_path: Path) -> None:
    with announced(tmp_path, NODE):
        (tmp_path / RUNNING_FILE).write_text("{")
        with pytest.raises(StoreUnavailable, match="a node runs in .*running.json cannot be read"):
            find_running(tmp_path)
    (tmp_path / RUNNING_FILE).write_text("{")
    assert find_running(tmp_path) is None


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's /proc/self/fd")
def test_no_file_is_left_open(tmp_path: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = count()
    with announced(tmp_path, NODE):
        find_running(tmp_path)
        wait_until(lambda: count() == before + 1, PATIENCE_S, "one more open file: the lock")
    assert count() == before
