"""What a node does for each of its ways, in numbers that are the same on every machine, and a baseline to compare with.

Microseconds depend on who else uses the machine; calls, instructions of Python, allocations and system calls do not.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tests.support.ways import Way, count_all, trace_all

BASELINE = Path(__file__).with_name("counted_work.json")
BEGIN, END = "/cairn-counts/begin", "/cairn-counts/end"
"""Files that do not exist. Asking for them is a system call that is easily found among the others."""
UNSTEADY = frozenset({"brk", "futex", "getrandom", "madvise", "mmap", "mprotect", "mremap", "munmap", "sched_yield"})
"""System calls that are made for memory and threads: how many depends on what was done before."""
MARKED = "--marked"
_LINE = re.compile(r"(\d+) +(\w+)\(")

WAYS_ALONE = ("own calls", "all calls", "bytecodes", "allocations")
SYSTEM_CALLS = "system calls"
Counts = dict[str, int]
"""What one way costs, by kind of work."""


_marks = count()


@contextmanager
def marked() -> Iterator[int]:
    """Marks in the list of this process's system calls where it begins and ends. Numbers the marks."""
    os.access(BEGIN, os.F_OK)
    try:
        yield next(_marks)
    finally:
        os.access(END, os.F_OK)


def count_system_calls(strace: str) -> dict[str, Counts]:
    """By way; those of the event loops' thread."""
    with TemporaryDirectory(prefix="cairn-strace-") as directory:
        listed = Path(directory) / "calls"
        program = [sys.executable, "-m", "tests.support.counted_work", MARKED]
        done = subprocess.run(
            [strace, "-f", "-qq", "-o", str(listed), *program], capture_output=True, text=True, check=True
        )
        numbers = list(_counted_between_marks(listed.read_text(errors="replace").splitlines()))
    marks = msgspec.json.decode(done.stdout, type=dict[str, list[int]])
    return {name: {SYSTEM_CALLS: min(numbers[mark] for mark in taken)} for name, taken in marks.items()}


def _counted_between_marks(lines: list[str]) -> Iterator[int]:
    counted: int | None = None
    loop_thread = ""
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        thread, name = found.groups()
        if BEGIN in line:
            counted, loop_thread = 0, thread
        elif END in line:
            assert counted is not None
            yield counted
            counted = None
        elif counted is not None and thread == loop_thread and name not in UNSTEADY:
            counted += 1


def count_ways() -> dict[str, Counts]:
    """By way, all that needs no further program."""
    return {way.name: dict(zip(WAYS_ALONE, _numbers_of(way), strict=True)) for way in trace_all()}


def _numbers_of(way: Way) -> tuple[int, ...]:
    return len(way.stops), way.all_calls, way.bytecodes, way.allocations


def python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def read_baseline() -> dict[str, dict[str, Counts]]:
    """By version of Python, whose instructions and calls differ; then by way."""
    return msgspec.json.decode(BASELINE.read_bytes(), type=dict[str, dict[str, Counts]])


def write_baseline(strace: str) -> None:
    work, called = count_ways(), count_system_calls(strace)
    baselines = read_baseline() if BASELINE.exists() else {}
    content = msgspec.json.encode({**baselines, python_version(): {name: work[name] | called[name] for name in work}})
    BASELINE.write_bytes(msgspec.json.format(content, indent=2) + b"\n")


def main() -> None:
    """Write the baseline; or take all ways, for strace to see, and say by way which marks are its own."""
    if sys.argv[1:] == [MARKED]:
        print(msgspec.json.encode(count_all(marked)).decode())
        return
    strace = shutil.which("strace")
    assert strace is not None, "no strace here: run `make programs`"
    write_baseline(strace)


if __name__ == "__main__":
    main()
