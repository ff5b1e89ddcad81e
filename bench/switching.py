"""A node that puts metrics and logs aside and takes them up again, many times a second, while it runs.

`python -m bench.switching DIRECTORY run --home ...` is `cairn run ...`. Each function that counts or logs has a second
code here, from its source without the statements that do. At the same moments all processes of the node change from the
ones to the others, and each notes in a file of the directory when it did, and how much processor time it has used.
Nothing else differs, so what both cost is compared within one process, at nearly the same time.

It begins when the directory has a file `go`, and changes the functions that exist then. The supervisor, which serves
nobody, does not change.
"""

import gc
import math
import os
import random
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

from bench.without_counting import modules_without
from cairn.cli.main import app

SLOT_S = 0.047
"""No part of what a node does periodically, so that none of it always falls into the same slots."""
GO = "go"
_NOTE = struct.Struct("<qdd?")

Place = tuple[str, str, int]
"""Of a function: file, name and line."""


class Note(NamedTuple):
    slot: int
    at_s: float
    """When it began, by the clock that all processes share."""
    used_s: float
    """Processor time of the process, all its threads included."""
    counts: bool
    """In this slot."""


def notes_in(path: Path) -> list[Note]:
    whole = path.read_bytes()
    return [Note(*fields) for fields in _NOTE.iter_unpack(whole[: len(whole) // _NOTE.size * _NOTE.size])]


def codes_without() -> dict[Place, CodeType]:
    """The codes of all functions that are different without."""
    codes = {}
    for path, module in modules_without().items():
        own = {_place_of(code): code for code in _codes_in(compile(path.read_text(), path, "exec", dont_inherit=True))}
        for code in _codes_in(compile(module, path, "exec", dont_inherit=True)):
            if code != own[_place_of(code)]:
                codes[_place_of(code)] = code
    return codes


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_in(constant)


def _place_of(code: CodeType) -> Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def switch(directory: Path, codes: dict[Place, CodeType], seed: int) -> None:
    """Runs in a thread of each process."""
    while not (directory / GO).exists():
        time.sleep(SLOT_S)
    # What a process had when it began it has frozen: so it would not be found.
    gc.unfreeze()
    switched = [
        (each, each.__code__, codes[_place_of(each.__code__)])
        for each in gc.get_objects()
        if isinstance(each, FunctionType) and _place_of(each.__code__) in codes
    ]
    gc.freeze()
    with (directory / str(os.getpid())).open("wb", buffering=0) as notes:
        while True:
            slot = math.floor(time.perf_counter() / SLOT_S) + 1
            time.sleep(max(0.0, slot * SLOT_S - time.perf_counter()))
            counts = _counts_in(slot, seed)
            for function, own, without in switched:
                function.__code__ = own if counts else without
            notes.write(_NOTE.pack(slot, time.perf_counter(), time.process_time(), counts))


def _counts_in(slot: int, seed: int) -> bool:
    """One of each two slots does, and it is drawn which."""
    return (random.Random(f"{seed} {slot // 2}").random() < 0.5) == bool(slot % 2)


def main() -> None:
    directory, codes, seed = Path(sys.argv.pop(1)), codes_without(), random.randrange(1 << 32)

    def begin() -> None:
        threading.Thread(target=switch, args=(directory, codes, seed), daemon=True).start()

    os.register_at_fork(after_in_child=begin)
    app()


if __name__ == "__main__":
    main()
