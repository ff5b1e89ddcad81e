"""The node under test: `cairn run` in its own processes, on loopback, as an operator starts it."""

import http.client
import json
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.machine import Memory, cpu_seconds, memory, run_time_s
from cairn.domain.genesis import Genesis, encode_genesis
from tests.support.node_process import NodeProcess, clean_environment, command
from tests.support.ports import free_ports

READY_TIMEOUT_S = 120
QUIET_TIMEOUT_S = 120
_POLL_S = 0.005


def make_home(home: Path, genesis: Genesis) -> None:
    """What `cairn init` makes, with another genesis."""
    subprocess.run(command(["init", str(home)]), check=True, capture_output=True, env=clean_environment())
    (home / "genesis.json").write_bytes(encode_genesis(genesis))


def copy_home(source: Path, target: Path) -> None:
    """A second home with the same content. Tables never change once written, so they are linked, not copied."""
    shutil.copytree(source, target, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> str:
    if source.endswith(".sst"):
        Path(target).hardlink_to(source)
        return target
    return shutil.copy2(source, target)


class BenchNode:
    """Starts at once; leaving the `with` block ends it."""

    def __init__(
        self,
        home: Path | None,
        rest_s: float = 1.0,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        program: Sequence[str] | None = None,
    ) -> None:
        """It is at rest when it did nothing for `rest_s`. Without a home it is a dev chain, which is temporary.

        Another `program` than `cairn` has the same arguments.
        """
        self._rest_s = rest_s
        [self.port] = free_ports(1)
        started = time.perf_counter()
        command = ["dev", "--quiet"] if home is None else ["run", "--home", str(home)]
        self._node = NodeProcess([*command, "--port", str(self.port), *options], env, program)
        try:
            self._await_ready()
        except BaseException:
            self._node.close()
            raise
        self.ready_s = time.perf_counter() - started
        """From the command to the first 200 of /ready."""
        self._pids = self._node.pids()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._is_ready():
            if time.monotonic() > deadline or not self._node.is_running:
                raise RuntimeError(f"the node is not ready: {self._node.stderr}")
            time.sleep(_POLL_S)

    def _is_ready(self) -> bool:
        try:
            return self._get("/ready")[0] == 200
        except OSError:
            return False

    def _get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=READY_TIMEOUT_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def chain(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._get("/chain")[1])
        return answer

    def await_empty_mempool(self) -> None:
        """Return once every accepted transaction is in a block."""
        while (pool := self.chain()["mempool"])["pending"] + pool["queued"]:
            time.sleep(0.02)

    def await_quiet(self) -> None:
        """Return once nothing runs any more, background work on the store included."""
        deadline = time.monotonic() + QUIET_TIMEOUT_S
        before = self.cpu_seconds()
        while time.monotonic() < deadline:
            time.sleep(self._rest_s)
            now = self.cpu_seconds()
            if now - before <= 0.03 * self._rest_s:
                return
            before = now
        raise RuntimeError("the node never comes to rest")

    def pids(self) -> list[int]:
        return self._node.pids()

    def cpu_seconds(self) -> float:
        # The cost of a process that died is lost with it: a figure without it would be too good.
        if self._node.pids() != self._pids:
            raise RuntimeError(f"a process of the node died: {self._node.stderr}")
        return cpu_seconds(self._pids)

    def run_time_s(self) -> float:
        """Time of the main threads alone, to the nanosecond: for reads, which no other thread serves."""
        return run_time_s(self._pids)

    def core_cpu_seconds(self) -> float:
        return cpu_seconds([self._node.core_pid()])

    def memory(self) -> Memory:
        return memory(self._pids)

    def close(self) -> None:
        """End it without waiting for anything."""
        self._node.close()

    def __enter__(self) -> "BenchNode":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                code = self._node.stop()
                if code:
                    raise RuntimeError(f"the node stopped with {code}: {self._node.stderr}")
        finally:
            self._node.close()
