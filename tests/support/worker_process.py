"""One API worker, and if wanted a core beside it, each in a process of its own as the supervisor runs them."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx

from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S

RUN_WORKER = """
import socket, sys
from pathlib import Path
from cairn.api.rest import probes
from cairn.api.worker import run_worker
from cairn.config import Settings
from cairn.core import link
from cairn.domain.genesis import dev_genesis, encode_genesis
listener, lifeline, directory = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
sock = socket.socket(fileno=listener)
probes.CHECK_TIMEOUT_S = 0.5  # So that a test needs not wait long for a core that does not answer.
link.SILENCE_S = link.QUESTION_SILENCE_S = float(sys.argv[4])
genesis_file = encode_genesis(dev_genesis())
run_worker(
    0, Settings(workers=1), sock, directory / "core.sock", directory / "scratch", lifeline, 1337, None, genesis_file
)
"""
RUN_CORE = """
import sys
from pathlib import Path
from cairn.config import Settings
from cairn.core.process import run_core
from cairn.domain.genesis import DEV_KEYS, dev_genesis
from cairn.store.directory import SeenChain
lifeline, directory = int(sys.argv[2]), Path(sys.argv[3])
settings = Settings(block_time_s=float(sys.argv[4]))
core_socket = directory / "core.sock"
sys.exit(
    run_core(dev_genesis(), directory / "data", settings, core_socket, dict(DEV_KEYS), lifeline, None, SeenChain())
)
"""


class WorkerProcess:
    """Its `http` is patient: a worker that does not run for a while answers afterwards."""

    def __init__(self, with_core: bool, block_time_s: float = 0.1, silence_s: float = PATIENCE_S) -> None:
        """`silence_s` is how long the worker waits for an answer of the core, which may be slow."""
        self._directory = tempfile.TemporaryDirectory(prefix="cairn-test-")
        path = Path(self._directory.name)
        (path / "scratch").mkdir()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lifeline, self._lifeline_writer = os.pipe()
        self.worker = self._start(RUN_WORKER, str(silence_s))
        self.core = self._start(RUN_CORE, str(block_time_s)) if with_core else None
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE_S)

    def _start(self, script: str, *extra: str) -> "subprocess.Popen[bytes]":
        files = (self._listener.fileno(), self._lifeline)
        return subprocess.Popen(
            [sys.executable, "-c", script, str(files[0]), str(files[1]), self._directory.name, *extra], pass_fds=files
        )

    def wait_for(self, path: str, status: int, *, having: str = "") -> httpx.Response:
        """Ask until the answer has that status, and says that."""
        answer = self.http.get(path)

        def is_answered() -> bool:
            nonlocal answer
            answer = self.http.get(path)
            return answer.status_code == status and having in answer.text

        wait_until(is_answered, PATIENCE_S, f"{status} at {path}")
        return answer

    def terminate(self) -> None:
        self.worker.send_signal(signal.SIGTERM)

    def orphan(self) -> None:
        """As if the supervisor had been killed."""
        os.close(self._lifeline_writer)
        self._lifeline_writer = -1

    def __enter__(self) -> "WorkerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self.worker, self.core):
            if process is not None:
                process.kill()
                process.wait()
        self.http.close()
        self._listener.close()
        os.close(self._lifeline)
        if self._lifeline_writer >= 0:
            os.close(self._lifeline_writer)
        self._directory.cleanup()
