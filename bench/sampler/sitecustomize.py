"""Samples which functions the CPU time goes to, in every Python that starts with this directory in PYTHONPATH.

The kernel interrupts each process after so much CPU time of its own, in whatever it does. Python notices when a
call of C code returns, so the time of C code, and of the kernel, is the function's that called it. A process of the
node is a fork of its supervisor and may be killed, so each writes down what it has seen, again and again.
"""

import json
import os
import signal
from collections import Counter
from pathlib import Path
from types import FrameType

INTERVAL_S = 0.001
"""Most kernels count in steps of 4 ms, and then this is 4 ms."""
WRITTEN_EVERY = 25
DIRECTORY = os.environ["SAMPLES_DIR"]

seen: Counter[str] = Counter()


def sample(_: int, frame: FrameType | None) -> None:
    if frame is None:
        return
    code = frame.f_code
    seen[f"{code.co_filename}:{code.co_qualname}"] += 1
    if seen.total() % WRITTEN_EVERY == 0:
        process = Path("/proc/self/comm").read_text().strip()
        Path(DIRECTORY, f"{os.getpid()}.json").write_text(json.dumps({"process": process, "seen": seen}))


def begin() -> None:
    seen.clear()
    signal.signal(signal.SIGPROF, sample)
    # Calls that were interrupted go on: the program sees nothing of it.
    signal.siginterrupt(signal.SIGPROF, False)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)


os.register_at_fork(after_in_child=begin)
