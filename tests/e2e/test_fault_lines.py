"""Each fault that an operator meets leaves a line in the log that names its cause, within 5 s."""

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.chaos.shim import COMPILERS, DiskFault, Operation, Shim
from tests.support.certificates import make_certificate
from tests.support.node_process import NodeProcess, clean_environment, command, is_stopped, wait_until
from tests.support.pace import PATIENCE_S, Pace
from tests.support.programs import need_program

TOLD_WITHIN_S = 5.0
UNTIL_IT_IS_ENDED_MS = 120_000
"""A check gives up after 3 s, or later in a worker that the machine puts off."""
REFUSED = b'{"from":"nobody"}'
REFUSED_AT_ONCE = 100
REFUSED_REQUEST = (
    b"POST /tx HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    % (len(REFUSED), REFUSED)
)
ONE_WORKER = ("--port", "0", "--workers", "1")


def make_home(path: Path) -> Path:
    subprocess.run(command(["init", str(path)]), check=True, capture_output=True, env=clean_environment())
    return path


@pytest.fixture(scope="module")
def new_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which no node has run."""
    return make_home(tmp_path_factory.mktemp("new") / "home")


@pytest.fixture
def home(new_home: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(new_home, tmp_path / "home"))


def run_home(home: Path, *options: str, env: dict[str, str] | None = None) -> NodeProcess:
    settings = {"CAIRN_LOG_FORMAT": "json", "CAIRN_METRICS_PORT": "0"}
    return NodeProcess.start(("run", "--home", str(home), *ONE_WORKER, *options), settings | (env or {}))


def lines_of(node: NodeProcess) -> list[dict[str, object]]:
    """All of the log, which is JSON from the first byte to the last; of the last line, maybe not all is there yet."""
    whole = node.stderr.rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def is_told(node: NodeProcess, event: str) -> bool:
    return any(line["event"] == event for line in lines_of(node))


def url_of(node: NodeProcess) -> str:
    """With JSON there is no banner."""
    wait_until(lambda: is_told(node, "the node is ready") or not node.is_running, PATIENCE_S, "the node to be ready")
    return str(next(line["url"] for line in lines_of(node) if line["event"] == "the node is ready"))


class Faults:
    """Does faults to a node, and looks for the line that names the cause."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.url = url_of(node)

    def do(self, fault: Callable[[], object], event: str, **fields: str) -> dict[str, object]:
        """Returns the line with this text, and with these words in its fields."""
        before = len(lines_of(self.node))

        def find() -> dict[str, object] | None:
            for line in lines_of(self.node)[before:]:
                if line["event"] == event and all(word in str(line.get(name)) for name, word in fields.items()):
                    return line
            return None

        with Pace(lambda: is_stopped(self.node.process.pid)) as pace:
            began = time.monotonic()
            fault()
            wait_until(lambda: find() is not None, PATIENCE_S, f"{event!r} {fields} in {self.node.stderr}")
            assert time.monotonic() - began < pace.stretch(TOLD_WITHIN_S)
        line = find()
        assert line is not None
        return line

    def await_ready(self) -> None:
        wait_until(lambda: self.ready()[0] == 200, PATIENCE_S, "the node to be ready")

    def await_not_ready(self) -> dict[str, str]:
        """Ask until it is not: its check writes to the disk, and one of a moment ago still stands for a second."""
        while True:
            status, checks = self.ready()
            if status == 503:
                return checks

    def ready(self) -> tuple[int, dict[str, str]]:
        answer = httpx.get(f"{self.url}/ready", timeout=PATIENCE_S)
        return answer.status_code, answer.json()["checks"]


@pytest.fixture
def shim(home: Path, tmp_path: Path) -> Shim:
    (home / "data").mkdir(exist_ok=True)
    return Shim(tmp_path, home / "data", need_program(*COMPILERS))


@pytest.fixture
def faults(home: Path, shim: Shim) -> Iterator[Faults]:
    with run_home(home, env=shim.environment) as node:
        yield Faults(node)


def test_processes_that_are_killed_or_stopped(faults: Faults) -> None:
    node = faults.node
    [worker] = node.worker_pids()
    faults.do(
        lambda: os.kill(worker, signal.SIGKILL), "process ended, restarting", process="cairn-api-0", how="SIGKILL"
    )
    core = node.core_pid()
    faults.do(lambda: os.kill(core, signal.SIGKILL), "process ended, restarting", process="cairn-core", how="SIGKILL")
    faults.await_ready()
    core = node.core_pid()
    faults.do(lambda: os.kill(core, signal.SIGSTOP), "the node is not ready", part="core", reason="is stopped")
    # At once: after 10 s it is replaced.
    faults.do(lambda: os.kill(core, signal.SIGCONT), "the node is ready again", was="core")


def test_a_slow_disk_is_named_while_it_keeps_the_node_waiting_and_not_the_core(faults: Faults, shim: Shim) -> None:
    checks: list[dict[str, str]] = []

    def slow_down() -> None:
        shim.begin(DiskFault(Operation.SYNC, last=1, delay_ms=UNTIL_IT_IS_ENDED_MS))
        checks.append(faults.await_not_ready())

    faults.do(slow_down, "the node is not ready", part="disk", reason="waited for the disk")
    assert "disk" in checks[0]["disk"]
    assert checks[0]["core"] == "ok"
    shim.end()
    faults.await_ready()
    wait_until(lambda: is_told(faults.node, "a sync to disk took long"), PATIENCE_S, "the slow sync in the log")


def test_a_slow_answer_carries_the_id_of_its_line(faults: Faults, shim: Shim) -> None:
    answers: list[httpx.Response] = []

    def is_slow() -> bool:
        # A check of a moment ago still stands for a second, and is no slow one.
        answers.append(httpx.get(f"{faults.url}/ready", headers={"X-Request-Id": "mine-7"}, timeout=PATIENCE_S))
        return "x-request-id" in answers[-1].headers

    shim.begin(DiskFault(Operation.SYNC, last=1, delay_ms=1_500))
    wait_until(is_slow, PATIENCE_S, "a slow answer")
    assert all("x-request-id" not in answer.headers for answer in answers[:-1])
    assert answers[-1].headers["x-request-id"] == "mine-7"
    [line] = [line for line in lines_of(faults.node) if line["event"] == "a request took long"]
    assert (line["id"], line["request"]) == ("mine-7", "GET /ready")


def test_a_disk_that_is_full_or_read_only(faults: Faults, shim: Shim) -> None:
    def strike(error: int) -> None:
        shim.begin(DiskFault(Operation.CHANGE, error=error))
        faults.await_not_ready()

    faults.do(lambda: strike(errno.ENOSPC), "the node is not ready", part="disk", reason="No space left")
    faults.do(shim.end, "the node is ready again", was="disk")
    faults.do(lambda: strike(errno.EROFS), "the node is not ready", part="disk", reason="Read-only file system")


def test_a_clock_that_jumps_and_a_flood_of_refused_requests(faults: Faults, shim: Shim) -> None:
    faults.do(lambda: shim.step_clock(3_600), "the clock jumped", by_s="3600")

    def flood() -> None:
        """Many at once, so that the rate is that of the node and not that of a client on a slow machine."""
        port = int(faults.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
            wait_until(lambda: refused_again(client), PATIENCE_S, "many refused requests in the log")

    def refused_again(client: socket.socket) -> bool:
        client.sendall(REFUSED_REQUEST * REFUSED_AT_ONCE)
        answers = b""
        while answers.count(b"HTTP/1.1 400 ") < REFUSED_AT_ONCE or not answers.endswith(b"}"):
            more = client.recv(1 << 20)
            assert more, answers[-1_000:]
            answers += more
        return is_told(faults.node, "many requests are refused")

    line = faults.do(flood, "many requests are refused")
    assert isinstance(line["codes"], dict)
    assert max(line["codes"].values()) > 10


@contextmanager
def told_at_start(start: Callable[[], NodeProcess], told: str) -> Iterator[NodeProcess]:
    """A node that is started with a fault: its log has this within 5 s."""
    with Pace() as pace:
        began = time.monotonic()
        node = start()
        try:
            wait_until(lambda: told in node.stderr, PATIENCE_S, f"{told}: {node.stderr}")
            assert time.monotonic() - began < pace.stretch(TOLD_WITHIN_S)
            yield node
        finally:
            node.close()


def test_a_disk_that_is_nearly_full_is_told_of_before_anything_is_refused(home: Path) -> None:
    little = partial(run_home, home, "--disk-warning-bytes", str(2**60))
    with told_at_start(little, "the disk is nearly full") as node:
        assert Faults(node).ready()[0] == 200


@pytest.mark.parametrize(("days", "told"), [(5, "the TLS certificate expires soon"), (-1, "has expired")])
def test_a_certificate_at_its_end(home: Path, tmp_path: Path, days: int, told: str) -> None:
    certificate, key = make_certificate(tmp_path, max(days, 1))
    env = {}
    if days < 0:
        shim = Shim(tmp_path, home / "data", need_program(*COMPILERS))
        shim.step_clock(3 * 86_400)
        env = shim.environment
    with told_at_start(partial(run_home, home, "--tls-cert", certificate, "--tls-key", key, env=env), told):
        pass


def refused_start(home: Path, told: str, *options: str) -> tuple[int, dict[str, object]]:
    """The exit code of a node that cannot run, and its last line, which was there within 5 s."""
    with told_at_start(partial(run_home, home, *options), told) as node:
        code = node.wait_exit(PATIENCE_S)
        line = lines_of(node)[-1]
    assert (line["event"], line["level"]) == (told, "critical")
    return code, line


def test_a_port_that_is_taken(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, line = refused_start(home, "the node cannot start", "--port", str(taken.getsockname()[1]))
    assert code == 5
    assert "Address already in use" in str(line["reason"])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (b"blok_time_s = 3\n", "unknown key blok_time_s"),
        (b"\xff\n", "cairn.toml is not text in UTF-8"),
    ],
    ids=["unknown", "unreadable"],
)
def test_settings_that_cannot_be_used(home: Path, settings: bytes, reason: str) -> None:
    (home / "cairn.toml").write_bytes(settings)
    code, line = refused_start(home, "the node cannot start")
    assert code == 2
    assert reason in str(line["reason"])


@pytest.fixture(scope="module")
def used_home(new_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which a node has run."""
    path = Path(shutil.copytree(new_home, tmp_path_factory.mktemp("used") / "home"))
    with run_home(path) as node:
        url_of(node)
        assert node.stop() == 0
    return path


def empty_data(home: Path) -> None:
    shutil.rmtree(home / "data")
    (home / "data").mkdir()


def damage_data(home: Path) -> None:
    (home / "data" / "watermark").write_bytes(b"rubbish")


@pytest.mark.parametrize(
    ("fault", "reason"), [(empty_data, "data"), (damage_data, "Corrupt: ")], ids=["not mounted", "damaged"]
)
def test_data_that_is_not_there_or_damaged(
    used_home: Path, tmp_path: Path, fault: Callable[[Path], None], reason: str
) -> None:
    home = Path(shutil.copytree(used_home, tmp_path / "home"))
    fault(home)
    code, line = refused_start(home, "the node cannot go on")
    assert code == 3
    assert reason in str(line["reason"])


def test_a_low_limit_of_open_files(home: Path) -> None:
    limited: Sequence[str] = ("sh", "-c", 'ulimit -n 512; exec "$0" "$@"', *command([]))
    env = {"CAIRN_LOG_FORMAT": "json", "CAIRN_METRICS_PORT": "0"}
    limited_node = partial(NodeProcess, ("run", "--home", str(home), *ONE_WORKER), env, limited)
    with told_at_start(limited_node, "the system's limit of open files is below max_connections"):
        pass
