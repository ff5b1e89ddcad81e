"""A real terminal for a command: what it prints there, and keys that are typed at it."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tests.support.node_process import await_sleep
from tests.support.pace import PATIENCE_S

CTRL_C = "\x03"
SHOWN_CHARACTERS = 2_000

_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>]|\r")


def take_terminal() -> None:
    """In a new process: so that Ctrl-C is a signal and /dev/tty is this terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """Leaving the `with` block hangs up: nothing that was started in it stays."""

    def __init__(self, args: Sequence[str], env: Mapping[str, str], columns: int = 120, rows: int = 40) -> None:
        self._leader, follower = os.openpty()
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # The size is the terminal's own, whatever the tests' environment says.
        terminal_env = {name: value for name, value in env.items() if name not in ("COLUMNS", "LINES")}
        terminal_env["TERM"] = "xterm"
        try:
            self.process = subprocess.Popen(
                args,
                stdin=follower,
                stdout=follower,
                stderr=follower,
                env=terminal_env,
                start_new_session=True,
                preexec_fn=take_terminal,
            )
        finally:
            os.close(follower)
        self._raw = b""
        self._seen = 0

    @property
    def raw(self) -> str:
        """All that was printed, with what moves the cursor and changes colours."""
        return self._raw.decode(errors="replace")

    @property
    def text(self) -> str:
        return _CONTROLS.sub("", self.raw)

    def expect(self, text: str, timeout_s: float = PATIENCE_S) -> None:
        """Read until `text` appears after what was expected before. Raises `AssertionError` with what came instead."""
        deadline = time.monotonic() + timeout_s
        while (found := self.text.find(text, self._seen)) < 0:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not self._read(left_s):
                raise AssertionError(f"{text!r} did not appear in {self.text[self._seen :][-SHOWN_CHARACTERS:]!r}")
        self._seen = found + len(text)

    def enter(self, text: str) -> None:
        os.write(self._leader, text.encode())

    def press_ctrl_c(self) -> None:
        """Once the program waits, for a key or for something else."""
        await_sleep(self.process.pid)
        self.enter(CTRL_C)

    def hang_up(self) -> None:
        """Close the terminal, as somebody does with its window."""
        os.close(self._leader)
        self._leader = -1

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """The exit code, once all that it printed is read."""
        deadline = time.monotonic() + timeout_s
        while self._read(max(0.0, deadline - time.monotonic())):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self, timeout_s: float) -> bool:
        """False when there is nothing more, or nothing in time."""
        if not select.select([self._leader], [], [], timeout_s)[0]:
            return False
        try:
            more = os.read(self._leader, 65_536)
        except OSError:
            # What the other end of a terminal gives once nobody is there.
            return False
        self._raw += more
        return bool(more)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self._leader >= 0:
            os.close(self._leader)
