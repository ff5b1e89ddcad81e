"""The faults of tests/chaos/shim.c: compiles it, and begins and ends faults in the node that was started with it."""

import errno
import mmap
import shutil
import struct
import subprocess
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path

from tests.chaos.cache import Cache

SOURCE = Path(__file__).with_name("shim.c")
COMPILERS = ("cc", "gcc", "clang")
_CONTROL = struct.Struct("=q11Q")
_CLOCK_STEP = struct.Struct("=q")
_FREE_BYTES = struct.Struct("=Q")
_OPERATIONS = struct.Struct("=Q")
_FAULT = struct.Struct("=9Q")
_COUNTS = struct.Struct("=2Q")
_FREE_BYTES_AT = _CLOCK_STEP.size
_OPERATIONS_AT = _FREE_BYTES_AT + _FREE_BYTES.size
_FAULT_AT = _OPERATIONS_AT + _OPERATIONS.size
_COUNTS_AT = _CONTROL.size - _COUNTS.size
FOR_EVER = 2**63
ALWAYS = 1_000_000


class Operation(IntFlag):
    """Kinds of calls that can be struck, as in shim.c."""

    WRITE = 1
    SYNC = 2
    CREATE = 4
    RENAME = 8
    REMOVE = 16
    RESIZE = 32
    READ = 64
    CHANGE = WRITE | SYNC | CREATE | RENAME | REMOVE | RESIZE
    """Whatever a disk that cannot be written refuses."""


@dataclass(frozen=True, slots=True)
class DiskFault:
    """Which calls are struck, and how. `first` and `last` count the calls of these kinds from the fault's beginning."""

    operations: Operation
    error: int = 0
    """errno of a struck call; 0 lets it succeed, late or in part."""
    first: int = 0
    last: int = FOR_EVER
    chance: int = ALWAYS
    """How many of a million calls between the two are struck."""
    is_cut: bool = False
    """Struck writes write a part."""
    delay_ms: int = 0
    """Before each struck call; the end of the fault ends it, too."""
    seed: int = 0

    def __str__(self) -> str:
        what = errno.errorcode.get(self.error, "") + (" after a part" if self.error and self.is_cut else "")
        what = what or ("short" if self.is_cut else "slow")
        delay = f" {self.delay_ms} ms" if self.delay_ms else ""
        if self.last == self.first + 1:
            when = f"at call {self.first + 1}"
        else:
            when = ("" if self.first == 0 else f"from call {self.first + 1}, ") + f"{self.chance / 10_000:g} %"
        names = "any change" if self.operations is Operation.CHANGE else str(self.operations.name).lower()
        return f"{names} {what}{delay}, {when}"


def find_compiler() -> str | None:
    return next(filter(None, map(shutil.which, COMPILERS)), None)


class Control:
    """The file through which faults begin and end, in every process that was started with it."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _CONTROL.size)

    def begin(self, fault: DiskFault) -> None:
        """One fault at a time: another one ends the one before."""
        self.end()
        _FAULT.pack_into(
            self._memory, _FAULT_AT, fault.first, fault.last, fault.chance, fault.seed, fault.error,
            fault.is_cut, fault.delay_ms * 1_000, 0, 0,
        )  # fmt: skip
        # Last: until now no call counts.
        _OPERATIONS.pack_into(self._memory, _OPERATIONS_AT, fault.operations)

    def end(self) -> int:
        """Returns how many calls the fault struck."""
        _OPERATIONS.pack_into(self._memory, _OPERATIONS_AT, 0)
        return self.struck

    @property
    def calls(self) -> int:
        """How many calls counted since the fault began."""
        return int(_COUNTS.unpack_from(self._memory, _COUNTS_AT)[0])

    @property
    def struck(self) -> int:
        return int(_COUNTS.unpack_from(self._memory, _COUNTS_AT)[1])

    def step_clock(self, seconds: float) -> None:
        """The node's wall clock is so far from ours from now on."""
        _CLOCK_STEP.pack_into(self._memory, 0, round(seconds * 10**9))

    def show_free(self, size_bytes: int) -> None:
        """The disk says that it has so much space left; 0 leaves it the truth. It can be written all the same."""
        _FREE_BYTES.pack_into(self._memory, _FREE_BYTES_AT, size_bytes)


class Shim(Control):
    """The shim for one node: `environment` is what the node must be started with."""

    def __init__(self, directory: Path, under: Path, compiler: str) -> None:
        """Compiles into `directory`, where it also keeps what was not synced; files below `under` are struck."""
        library, control = directory / "shim.so", directory / "control"
        flags = ("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror")
        subprocess.run([compiler, *flags, "-o", str(library), str(SOURCE), "-ldl"], check=True)
        control.write_bytes(bytes(_CONTROL.size))
        super().__init__(control)
        self.environment = {
            "LD_PRELOAD": str(library),
            "CHAOS_CONTROL": str(control),
            "CHAOS_UNDER": str(under.resolve()),
        }
        cache = directory / "cache"
        cache.mkdir(exist_ok=True)
        self.environment["CHAOS_CACHE"] = str(cache.resolve())
        self.cache = Cache(cache, under)
