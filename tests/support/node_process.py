"""A real node: the `cairn` command in its own process group, as a user starts it, on a free port."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import httpx

from cairn.cli.node.run import METRICS_PORT
from cairn.config import CONFIG_FILE
from tests.support.pace import PATIENCE_S

LISTENING = "Listening on "


def command(args: Sequence[str]) -> list[str]:
    """The installed command of this very environment."""
    return [str(Path(sys.executable).with_name("cairn")), *args]


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without any setting of a node that the developer may have exported."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CAIRN_")}
    return inherited | dict(extra or {})


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Return as soon as `condition` holds. Raises `TimeoutError` that names `what` when it never does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s} s for {what}")
        time.sleep(0.01)


def state_of(pid: int) -> str:
    """What the process, or thread, is doing, as Linux names it; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def processes() -> dict[int, tuple[str, str, int, int]]:
    """Name, state, parent and group of every process on this machine, by id."""
    found = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                before, _, after = (directory / "stat").read_text().rpartition(")")
            except (FileNotFoundError, ProcessLookupError):
                continue
            state, parent, group = after.split()[:3]
            found[int(directory.name)] = before.partition("(")[2], state, int(parent), int(group)
    return found


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended but is not yet reaped does not."""
    return state_of(pid) not in ("Z", "X", "")


def is_group_alive(group: int) -> bool:
    """Whether any process of the group has a thread that runs, if only to end: its files and ports are still taken."""
    for pid, (_, _, _, other) in processes().items():
        if other == group:
            with suppress(FileNotFoundError, ProcessLookupError):
                if any(is_alive(int(thread.name)) for thread in Path(f"/proc/{pid}/task").iterdir()):
                    return True
    return False


def is_stopped(pid: int) -> bool:
    """Whether the process is paused, as by SIGSTOP."""
    return state_of(pid) == "T"


def await_sleep(pid: int) -> None:
    """Return once the process, or thread, waits for something: before a signal whose handler is in Python.

    Python calls that between two of its steps. A signal that comes just before it begins to wait is noticed after that.
    """
    wait_until(lambda: state_of(pid) == "S", PATIENCE_S, f"{pid} to wait")


def without_usual_metrics(args: Sequence[str]) -> dict[str, str]:
    """Settings for a home as `cairn init` makes it: all have the same port for metrics, and tests run side by side."""
    home = Path(args[args.index("--home") + 1]) if "--home" in args else None
    settings = home / CONFIG_FILE if home is not None else None
    if settings is None or not settings.exists():
        return {}
    return {"CAIRN_METRICS_PORT": "0"} if b"\nmetrics_port = %d\n" % METRICS_PORT in settings.read_bytes() else {}


class NodeProcess:
    """Leaving the `with` block ends every process of the node, whatever state it is in."""

    def __init__(
        self, args: Sequence[str], env: Mapping[str, str] | None = None, program: Sequence[str] | None = None
    ) -> None:
        """Runs `cairn ARGS`, or another program with the same arguments."""
        self.args = tuple(args)
        self._has_ended = False
        """With all its processes."""
        self._scratch = tempfile.TemporaryDirectory(prefix="cairn-test-")
        self._out = Path(self._scratch.name, "out")
        self._err = Path(self._scratch.name, "err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command(args) if program is None else [*program, *args],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                # What a killed node leaves behind goes with the test.
                env=clean_environment({"TMPDIR": self._scratch.name} | without_usual_metrics(args) | dict(env or {})),
                start_new_session=True,
            )

    @classmethod
    def start(cls, args: Sequence[str] = ("dev", "--port", "0"), env: Mapping[str, str] | None = None) -> "NodeProcess":
        """Start `cairn ARGS` and return at once; `url` or `wait_ready` wait for it."""
        return cls(args, env)

    @classmethod
    def start_dev(cls, *extra: str, data_dir: Path | None = None) -> "NodeProcess":
        """Start a dev chain on any free port and wait until it takes transactions."""
        kept = () if data_dir is None else ("--data-dir", str(data_dir))
        node = cls.start(("dev", "--port", "0", *kept, *extra))
        try:
            node.wait_ready()
        except BaseException:
            node.close()
            raise
        return node

    @property
    def stdout(self) -> str:
        return self._read_lines(self._out)

    @property
    def stderr(self) -> str:
        return self._read_lines(self._err)

    def _read_lines(self, file: Path) -> str:
        """All whole lines: a process that writes one may be interrupted in the middle of it."""
        may_go_on = self.is_running
        written = file.read_bytes()
        return (written[: written.rfind(b"\n") + 1] if may_go_on else written).decode()

    @property
    def url(self) -> str:
        """The base URL, from the line that the node prints once it serves."""
        wait_until(lambda: self._find_url() is not None or not self.is_running, PATIENCE_S, LISTENING)
        found = self._find_url()
        if found is None:
            raise RuntimeError(f"the node ended with {self.process.returncode}: {self.stderr}")
        return found

    @property
    def ws_url(self) -> str:
        return "ws" + self.url.removeprefix("http")

    def _find_url(self) -> str | None:
        for line in self.stdout.splitlines():
            if LISTENING in line:
                return line.partition(LISTENING)[2].split()[0]
        return None

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def probe(self, path: str) -> int | None:
        """The status of GET `path` over a fresh connection; None when nobody answers."""
        try:
            return httpx.get(self.url + path, timeout=PATIENCE_S, verify=False).status_code
        except httpx.TransportError:
            return None

    def wait_ready(self) -> None:
        wait_until(lambda: self.probe("/ready") == 200 or not self.is_running, PATIENCE_S, f"/ready: {self.stderr}")
        if not self.is_running:
            raise RuntimeError(f"the node ended with {self.process.returncode}: {self.stderr}")

    def children(self) -> dict[int, str]:
        """Every living process that the supervisor started, by id, with its name."""
        return {
            pid: name
            for pid, (name, state, parent, _) in processes().items()
            if parent == self.process.pid and state not in "ZX"
        }

    def core_pid(self) -> int:
        """The process id of the core. Raises `LookupError` while there is none."""
        for pid, name in self.children().items():
            if name == "cairn-core":
                return pid
        raise LookupError("no core runs")

    def replace_core(self) -> None:
        """Kill the core and wait until another is there, and a worker that has it. Others may take a moment longer."""
        killed = self.core_pid()
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: "cairn-core" in self._names_without(killed), PATIENCE_S, f"a new core: {self.stderr}")
        self.wait_ready()

    def _names_without(self, pid: int) -> list[str]:
        return [name for other, name in self.children().items() if other != pid]

    def worker_pids(self) -> list[int]:
        return sorted(pid for pid, name in self.children().items() if name.startswith("cairn-api"))

    def pids(self) -> list[int]:
        """The supervisor and all that it started."""
        own = [self.process.pid] if self.is_running else []
        return own + sorted(self.children())

    def signal_group(self, number: signal.Signals) -> None:
        """Signal every process of the node at once, as a terminal does for Ctrl-C."""
        os.killpg(self.process.pid, number)

    def kill_group(self) -> None:
        """SIGKILL every process at once: the nearest to a power cut that a test can do. Returns once all have ended.

        On a busy machine that takes a while, and the next node would find its ports and its directory in use.
        """
        if self._has_ended:
            # By now its number may be that of another node.
            return
        with suppress(ProcessLookupError):
            self.signal_group(signal.SIGKILL)
        self.process.wait()
        wait_until(lambda: not is_group_alive(self.process.pid), PATIENCE_S, "the end of all processes")
        self._has_ended = True

    def wait_exit(self, timeout_s: float = PATIENCE_S) -> int:
        code = self.process.wait(timeout_s)
        self._has_ended = self._has_ended or not is_group_alive(self.process.pid)
        return code

    def stop(self, timeout_s: float = PATIENCE_S) -> int:
        """SIGTERM, as a service manager does. Returns the exit code."""
        self.process.terminate()
        return self.wait_exit(timeout_s)

    def close(self) -> None:
        self.kill_group()
        self._scratch.cleanup()

    def __enter__(self) -> "NodeProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def await_printed(node: NodeProcess, text: str) -> None:
    wait_until(lambda: text in node.stdout, PATIENCE_S, f"{text!r} in {node.stdout!r}")
