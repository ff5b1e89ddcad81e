"""Directories that are gone at the end, even when a signal ends the program just as it makes or removes one."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


@contextmanager
def temporary_directory(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A private directory in `parent`, or where the system wants them. Only its owner may enter it.

    For a process without other threads: one of those would take the signal that is held back here.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    path = None
    try:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        # A signal that came meanwhile strikes here, where the directory is known.
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield path
    finally:
        try:
            # One that came just before strikes within this call.
            signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
        finally:
            if path is not None:
                shutil.rmtree(path, ignore_errors=True)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
