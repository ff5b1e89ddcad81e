"""The shim strikes the calls that it is told to, and no others."""

import errno
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.cache import SECTOR
from tests.chaos.shim import COMPILERS, DiskFault, Operation, Shim
from tests.support.programs import need_program

OUTCOME = """
import json, os, shutil, sys, time
def tried(call):
    try:
        return call()
    except OSError as error:
        return -error.errno
path = sys.argv[1]
file = tried(lambda: os.open(path, os.O_RDWR | os.O_CREAT))
if file < 0:
    print(json.dumps({"open": file}))
    sys.exit()
begun, wall = time.monotonic(), time.time()
print(json.dumps({
    "writes": [tried(lambda: os.pwrite(file, bytes(1_000), 0)) for _ in range(4)],
    "sync": tried(lambda: os.fdatasync(file)),
    "size": os.fstat(file).st_size,
    "read": tried(lambda: len(os.pread(file, 4, 0))),
    "rename": tried(lambda: os.rename(path, path + ".new")),
    "remove": tried(lambda: os.unlink(path + ".new")),
    "resize": tried(lambda: os.ftruncate(file, 1)),
    "took_s": time.monotonic() - begun,
    "wall": wall,
    "free_bytes": shutil.disk_usage(os.path.dirname(path)).free,
}))
"""
WHOLE = {"writes": [1_000] * 4, "sync": None, "size": 1_000, "read": 4, "rename": None, "remove": None, "resize": None}


@pytest.fixture
def shim(tmp_path: Path) -> Shim:
    (tmp_path / "data").mkdir()
    return Shim(tmp_path, tmp_path / "data", need_program(*COMPILERS))


def outcome(shim: Shim, path: Path) -> dict[str, Any]:
    """What a process under the shim gets from a file at `path`."""
    run = subprocess.run(
        [sys.executable, "-c", OUTCOME, str(path)], env=shim.environment, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def changed(shim: Shim, path: Path) -> dict[str, Any]:
    """In what that differs from a disk without faults."""
    found = outcome(shim, path)
    compared = found.keys() - {"took_s", "wall", "free_bytes"}
    return {name: found[name] for name in compared if found[name] != WHOLE.get(name)}


def test_without_a_fault_nothing_is_struck(shim: Shim, tmp_path: Path) -> None:
    assert changed(shim, tmp_path / "data/file") == {}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (Operation.WRITE, {"writes": [-errno.EIO] * 4, "size": 0, "read": 0}),
        (Operation.SYNC, {"sync": -errno.EIO}),
        (Operation.CREATE, {"open": -errno.EIO}),
        (Operation.RENAME, {"rename": -errno.EIO, "remove": -errno.ENOENT}),
        (Operation.REMOVE, {"remove": -errno.EIO}),
        (Operation.RESIZE, {"resize": -errno.EIO}),
        (Operation.READ, {"read": -errno.EIO}),
    ],
)
def test_each_operation_fails_alone(
    shim: Shim, tmp_path: Path, operation: Operation, expected: dict[str, object]
) -> None:
    shim.begin(DiskFault(operation, errno.EIO))
    assert changed(shim, tmp_path / "data/file") == expected
    assert shim.end() == shim.calls > 0
    assert changed(shim, tmp_path / "data/other") == {}


def test_files_elsewhere_are_left_alone(shim: Shim, tmp_path: Path) -> None:
    shim.begin(DiskFault(Operation.CHANGE, errno.EIO))
    assert changed(shim, tmp_path / "data-of-another") == {}
    assert shim.end() == 0


def test_the_nth_call_alone_is_struck(shim: Shim, tmp_path: Path) -> None:
    shim.begin(DiskFault(Operation.WRITE, errno.ENOSPC, first=2, last=3))
    assert changed(shim, tmp_path / "data/file") == {"writes": [1_000, 1_000, -errno.ENOSPC, 1_000]}
    assert shim.end() == 1


def test_a_short_write_says_so_and_a_torn_one_fails(shim: Shim, tmp_path: Path) -> None:
    shim.begin(DiskFault(Operation.WRITE, is_cut=True, seed=1))
    short = outcome(shim, tmp_path / "data/short")
    assert all(0 < written < 1_000 for written in short["writes"])
    assert short["size"] == max(short["writes"])
    shim.begin(DiskFault(Operation.WRITE, errno.EIO, is_cut=True, seed=1))
    torn = outcome(shim, tmp_path / "data/torn")
    assert torn["writes"] == [-errno.EIO] * 4
    assert 0 < torn["size"] < 1_000


def test_a_chance_strikes_some_and_the_seed_decides_which(shim: Shim, tmp_path: Path) -> None:
    struck = []
    for seed in (1, 1, 2, 3, 4):
        shim.begin(DiskFault(Operation.WRITE, errno.EIO, chance=500_000, seed=seed))
        struck.append(tuple(written < 0 for written in outcome(shim, tmp_path / "data/file")["writes"]))
    assert struck[0] == struck[1]
    assert len(set(struck)) > 1


def test_a_slow_sync_succeeds_late(shim: Shim, tmp_path: Path) -> None:
    shim.begin(DiskFault(Operation.SYNC, delay_ms=300))
    found = outcome(shim, tmp_path / "data/file")
    assert found["sync"] is None
    assert found["took_s"] >= 0.3


def test_a_disk_says_that_little_is_left_and_another_says_the_truth(shim: Shim, tmp_path: Path) -> None:
    little = 64 * 1024**2
    shim.show_free(little)
    assert outcome(shim, tmp_path / "data" / "file")["free_bytes"] == little
    assert outcome(shim, tmp_path / "file")["free_bytes"] != little


def test_the_wall_clock_steps_and_the_monotonic_one_does_not(shim: Shim, tmp_path: Path) -> None:
    before = outcome(shim, tmp_path / "data/file")["wall"]
    shim.step_clock(3_600.5)
    ahead = outcome(shim, tmp_path / "data/file")
    assert ahead["wall"] - before >= 3_600.5
    assert ahead["took_s"] < 3_600
    shim.step_clock(-86_400)
    assert outcome(shim, tmp_path / "data/file")["wall"] < before


UNSYNCED = """
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.pwrite(file, b"a" * 1_000, 0)
os.fdatasync(file)
os.pwrite(file, b"b" * 3_000, 500)
os.pwrite(file, b"c" * 100, 0)
"""


class Share(random.Random):
    """Decides how much arrives of what is on its way to the disk."""

    def __init__(self, number: int) -> None:
        super().__init__(7)
        self._number = number

    def choice(self, seq: Any) -> Any:
        return seq[self._number]


@pytest.mark.parametrize(("share", "expected"), [(0, b"a" * 1_000), (2, b"c" * 100 + b"a" * 400 + b"b" * 3_000)])
def test_with_the_cache_goes_what_was_not_synced(shim: Shim, tmp_path: Path, share: int, expected: bytes) -> None:
    path = tmp_path / "data" / "file"
    subprocess.run([sys.executable, "-c", UNSYNCED, str(path)], env=shim.environment, check=True)
    assert len(path.read_bytes()) == 3_500
    shim.cache.lose(Share(share))
    assert path.read_bytes() == expected
    shim.cache.lose(Share(0))
    assert path.read_bytes() == expected


def test_half_a_cache_leaves_whole_sectors_of_before_or_after(shim: Shim, tmp_path: Path) -> None:
    path = tmp_path / "data" / "file"
    subprocess.run([sys.executable, "-c", UNSYNCED, str(path)], env=shim.environment, check=True)
    after = path.read_bytes()
    before = (b"a" * 1_000).ljust(len(after), b"\0")
    shim.cache.lose(Share(1))
    left = path.read_bytes()
    starts = range(0, len(left), SECTOR)
    for start in starts:
        sector = slice(start, start + SECTOR)
        assert left[sector] in (before[sector][: len(left[sector])], after[sector])
    assert left not in (before[:1_000], after)
