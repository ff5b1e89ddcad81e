"""Machines of a network on this one: each has a network namespace of its own, an address in it, and a directory.

They are connected to a switch, which is a namespace too, so nothing of this machine's own network changes. They need
root, or a system on which any user may make user namespaces. They vanish with this process, however it ends.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import pytest

from tests.support.cometbft import TOOLS
from tests.support.node_process import NodeProcess, clean_environment, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import PROGRAMS
from tests.support.programs import need_program

PASSWORD = "of all keys on these machines"
POLL_S = 0.2
"""Each look at a machine starts a program there, which takes from the nodes what they need to get on."""


def await_there(condition: Callable[[], bool], what: str) -> None:
    """Return once it is so on a machine. Raises `TimeoutError` that names `what`."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE_S} s for {what}")
        time.sleep(POLL_S)


class Namespace:
    """Held by a process that ends when this one does: it waits for the end of a pipe."""

    def __init__(self, entry: Sequence[str], kinds: Sequence[str]) -> None:
        """Make it, as `unshare` names its kinds. Raises `OSError` where that is not allowed."""
        self._process = subprocess.Popen([*entry, "unshare", *kinds, "cat"], stdin=subprocess.PIPE)
        self._entry = entry
        wait_until(lambda: self._is_made() or self._process.poll() is not None, PATIENCE_S, "a namespace")
        if self._process.poll() is not None:
            raise OSError(f"unshare {' '.join(kinds)} failed")

    def _is_made(self) -> bool:
        return Path(f"/proc/{self.pid}/comm").read_text() == "cat\n"

    @property
    def pid(self) -> int:
        return self._process.pid

    def inside(self, *kinds: str) -> list[str]:
        """What to put before a command that is to run in it."""
        return [*self._entry, "nsenter", f"--target={self.pid}", *kinds]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)


class Machine:
    """One machine. What a person types there is run in its directory, which is also the person's home."""

    def __init__(self, namespace: Namespace, name: str, address: str, directory: Path) -> None:
        self.name = name
        self.address = address
        self.directory = directory
        self._inside = namespace.inside("--net")
        self._environment = {
            "HOME": str(directory),
            "PATH": os.pathsep.join([str(PROGRAMS), str(TOOLS / "bin"), os.environ["PATH"]]),
            "CAIRN_PASSWORD": PASSWORD,
            # All machines share the processors.
            "CAIRN_WORKERS": "1",
        }
        self.node: NodeProcess | None = None
        self._spawned: list[subprocess.Popen[bytes]] = []
        directory.mkdir()

    def try_run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._inside, "sh", "-c", line],
            cwd=self.directory,
            env=clean_environment(self._environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def run(self, line: str) -> str:
        """What the command prints. Raises `AssertionError` when it fails."""
        done = self.try_run(line)
        assert done.returncode == 0, f"{self.name}: {line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, line: str) -> NodeProcess:
        """Start a node by the command of a page, `cairn run ...`."""
        assert self.node is None, f"{self.name} runs a node already"
        command = ["sh", "-c", f'cd "{self.directory}" && exec {line}']
        self.node = NodeProcess([], self._environment, [*self._inside, *command])
        return self.node

    def spawn(self, line: str) -> subprocess.Popen[bytes]:
        """Start a program that is no node, and return at once."""
        process = subprocess.Popen(
            [*self._inside, "sh", "-c", line],
            cwd=self.directory,
            env=clean_environment(self._environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._spawned.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill such a program, and what it has started."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)

    def stop(self) -> None:
        """As a service manager stops the node."""
        assert self.node is not None
        assert self.node.stop(PATIENCE_S) == 0, self.node.stderr
        self.node.close()
        self.node = None

    def is_ready(self) -> bool:
        return self.try_run("curl -sf http://127.0.0.1:8650/ready").returncode == 0

    def await_ready(self) -> None:
        assert self.node is not None
        node = self.node
        await_there(lambda: self.is_ready() or not node.is_running, f"{self.name} to be ready")
        assert node.is_running, node.stderr

    def close(self) -> None:
        """Kill what runs on it."""
        for process in self._spawned:
            self.end(process)
        if self.node is not None:
            self.node.close()
            self.node = None


class Machines:
    """Empty machines on one switch. Leaving the `with` block ends what runs on them."""

    def __init__(self, directory: Path, addresses: dict[str, str]) -> None:
        """Skips the test, by name, where the system does not let us make namespaces."""
        for program in ("ip", "unshare", "nsenter", "curl"):
            need_program(program)
        self._namespaces: list[Namespace] = []
        try:
            entry: list[str] = []
            if os.geteuid() != 0:
                entry = self._keep(Namespace([], ["--user", "--map-root-user"])).inside(
                    "--user", "--preserve-credentials"
                )
            switch = self._keep(Namespace(entry, ["--net"]))
            self._ip(switch, "link add name bridge type bridge")
            self._ip(switch, "link set bridge up")
            self.each = {
                name: Machine(self._plug(switch, entry, number, address), name, address, directory / name)
                for number, (name, address) in enumerate(addresses.items())
            }
        except (OSError, subprocess.CalledProcessError) as refused:
            self._close_namespaces()
            pytest.skip(f"no network namespaces here ({refused}): run `sudo make test-all`")

    def _keep(self, namespace: Namespace) -> Namespace:
        self._namespaces.append(namespace)
        return namespace

    def _plug(self, switch: Namespace, entry: Sequence[str], number: int, address: str) -> Namespace:
        """A machine's namespace, with a cable to the switch."""
        machine = self._keep(Namespace(entry, ["--net"]))
        self._ip(switch, f"link add port{number} type veth peer name eth0 netns {machine.pid}")
        self._ip(switch, f"link set port{number} master bridge up")
        self._ip(machine, f"address add {address}/24 dev eth0")
        self._ip(machine, "link set eth0 up")
        self._ip(machine, "link set lo up")
        return machine

    def _ip(self, namespace: Namespace, line: str) -> None:
        subprocess.run([*namespace.inside("--net"), "ip", *line.split()], check=True, capture_output=True)

    def _close_namespaces(self) -> None:
        for namespace in reversed(self._namespaces):
            namespace.close()

    def __enter__(self) -> "Machines":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for machine in self.each.values():
            machine.close()
        self._close_namespaces()
