"""The node that faults are done to: always on the same port and directory, and started again whenever it is gone."""

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import httpx

from cairn.config import EXIT_FATAL
from tests.chaos.node_log import LoggedError, find_errors
from tests.chaos.shim import Shim
from tests.support.network import NetworkNode
from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.ports import free_ports

FLAGS = ("--block-time", "0.1", "--workers", "2")
SELDOM = "3600"
"""A block time so long that only `mine` makes blocks: all that is accepted stays pending meanwhile."""
_TEND_S = 0.05
_LOG_LINES = 40


class TendedNode(ABC):
    """A node of which every life is watched, by whoever starts it again."""

    def __init__(self, url: str, shim: Shim | None) -> None:
        self.url = url
        self.shim = shim
        self.starts = 0
        self.ended_alone: Counter[int] = Counter()
        """Exit codes of lives that nobody ended."""
        self.errors: list[LoggedError] = []
        """What its processes printed of errors."""
        self.faults: Sequence[str] = ()
        """Kinds of what is done to it now: what it prints meanwhile is put down to them."""
        self._is_killed = False
        self._log_read = 0

    @property
    @abstractmethod
    def process(self) -> NodeProcess:
        """The process of the present life, which may have ended."""

    @abstractmethod
    def _begin_life(self) -> None: ...

    @abstractmethod
    def _end_life(self) -> None:
        """Nothing of it is left."""

    def _start(self) -> None:
        self.starts += 1
        self._is_killed = False
        self._log_read = 0
        self._begin_life()

    def kill(self) -> None:
        """End every process of it at once; the next `tend` starts it again."""
        self._is_killed = True
        self.process.kill_group()

    def expect_end(self) -> None:
        """Its supervisor was killed: the rest ends by itself."""
        self._is_killed = True

    def tend(self) -> None:
        """Start it again if it has ended, as a service manager does. Raises `AssertionError` if it gave up for good."""
        if self.process.is_running:
            return
        code = self.process.process.returncode
        assert code != EXIT_FATAL, f"the node gave up:\n{self.log()}"
        if not self._is_killed:
            self.ended_alone[code] += 1
        self.note_errors()
        self._end_life()
        self._start()

    def log(self) -> str:
        """The end of what it printed in this life."""
        return "\n".join(self.process.stderr.splitlines()[-_LOG_LINES:])

    def note_errors(self) -> None:
        """Read on in its log."""
        log = self.process.stderr
        self.errors += find_errors(log[self._log_read :], self.faults)
        self._log_read = len(log)

    def tend_for(self, seconds: float) -> None:
        """Let time pass."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.tend()
            time.sleep(_TEND_S)

    def await_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self._is_ready():
            assert time.monotonic() < deadline, f"the node does not become ready:\n{self.log()}"
            self.tend()
            time.sleep(_TEND_S)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ready", timeout=PATIENCE_S).status_code == 200
        except httpx.TransportError:
            return False


class Validator(TendedNode):
    """One of a network, which has started it for the first time."""

    def __init__(self, node: NetworkNode, shim: Shim | None) -> None:
        super().__init__(node.url, shim)
        self.node = node
        node.environment = {} if shim is None else shim.environment

    @property
    def process(self) -> NodeProcess:
        assert self.node.process is not None
        return self.node.process

    def _begin_life(self) -> None:
        self.node.launch()

    def _end_life(self) -> None:
        self.node.kill()


class ChaosNode(TendedNode):
    """A dev chain. Leaving the `with` block ends it."""

    def __init__(self, data_dir: Path, shim: Shim | None = None, flags: tuple[str, ...] = FLAGS) -> None:
        [port] = free_ports(1)
        super().__init__(f"http://127.0.0.1:{port}", shim)
        # Quiet: hours of load would leave gigabytes of lines.
        self._args = ("dev", "--quiet", "--port", str(port), "--data-dir", str(data_dir))
        self._flags = flags
        self._start()

    @property
    def process(self) -> NodeProcess:
        return self._process

    def _begin_life(self) -> None:
        environment = {} if self.shim is None else self.shim.environment
        self._process = NodeProcess.start((*self._args, *self._flags), environment)

    def _end_life(self) -> None:
        self.process.close()

    def mine(self) -> None:
        """Make a block now, if the node makes none by itself."""
        if SELDOM in self._flags:
            call = {"jsonrpc": "2.0", "id": 1, "method": "evm_mine", "params": []}
            # It may be on its way back: whoever waits for a block asks again.
            with suppress(httpx.TransportError):
                httpx.post(f"{self.url}/rpc", json=call, timeout=PATIENCE_S)

    def stop(self) -> int:
        """SIGTERM. Returns the exit code."""
        self._is_killed = True
        code = self.process.stop()
        self.note_errors()
        return code

    def restart(self, flags: tuple[str, ...]) -> None:
        """Stop it cleanly, and start it in another way."""
        assert self.stop() == 0, self.log()
        self._flags = flags
        self.tend()
        self.await_ready()

    def __enter__(self) -> "ChaosNode":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.close()
