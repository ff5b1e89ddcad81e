"""The node as the user starts it: real processes that are stopped, killed and frozen."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS
from tests.support.node_process import NodeProcess, clean_environment, command, is_alive, is_stopped, wait_until
from tests.support.pace import PATIENCE_S, Pace
from tests.support.programs import need_program
from tests.support.public import get_anew, post_anew

T = TypeVar("T")

FIRST, SECOND = (checksum_address(address) for address, _ in DEV_KEYS[:2])
STOP_LIMIT_S = 5
SILENT_CORE = "the core did not answer within 3 s"


@pytest.fixture
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--workers", "2", "--block-time", "0.01") as node:
        yield node


@pytest.fixture(scope="module")
def unharmed() -> Iterator[NodeProcess]:
    """For those that only look at it."""
    with NodeProcess.start_dev("--workers", "2", "--block-time", "0.01") as node:
        yield node


def run_cairn(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command that is expected to end by itself."""
    return subprocess.run(
        command(args), capture_output=True, text=True, timeout=PATIENCE_S, env=clean_environment(env), check=False
    )


def submit(node: NodeProcess, value: int = 1) -> str:
    """A transfer between dev accounts, signed by the node. Returns its hash."""
    transfer = {"from": FIRST, "to": SECOND, "value": value, "gas": 21_000}
    answer = until(lambda: post_anew(f"{node.url}/tx", transfer), lambda answer: answer.status_code != 503)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["txHash"])


def await_confirmed(node: NodeProcess, tx_hash: str) -> Any:
    url = f"{node.url}/tx/{tx_hash}"
    return until(lambda: get_anew(url, wait=10).json(), lambda tx: tx["status"] == "confirmed")


def until(ask: Callable[[], T], is_wanted: Callable[[T], bool]) -> T:
    """The first answer that is wanted: one worker is ready a moment before another."""
    answers: list[T] = []

    def is_there() -> bool:
        answers.append(ask())
        return is_wanted(answers[-1])

    wait_until(is_there, PATIENCE_S, "an answer")
    return answers[-1]


def checked_parts(node: NodeProcess) -> list[str]:
    """What /ready says of each part that it knows about."""
    checks = get_anew(f"{node.url}/ready").json()["checks"]
    return [said for said in checks.values() if said != "unknown"]


def assert_stops(node: NodeProcess) -> None:
    assert_stopped(node, node.pids())


def assert_stopped(node: NodeProcess, pids: list[int]) -> None:
    assert node.wait_exit() == 0, node.stderr
    assert not any(is_alive(pid) for pid in pids)
    assert "Traceback" not in node.stderr


# Start


def test_the_banner_comes_when_the_node_is_ready(unharmed: NodeProcess) -> None:
    # Blocks that other tests made may be told below it.
    assert f"\nListening on {unharmed.url}\n" in unharmed.stdout
    assert all(checksum_address(address) in unharmed.stdout for address, _ in DEV_KEYS)
    # On a slow machine it tells of slow requests, and of a slow disk.
    assert [line for line in unharmed.stderr.splitlines() if "took long" not in line] == []
    assert unharmed.probe("/ready") == 200


def test_the_printed_transfer_works_as_it_is_printed(unharmed: NodeProcess) -> None:
    need_program("curl")
    (printed,) = re.findall(r"^  (curl .*\\\n.*)$", unharmed.stdout, re.MULTILINE)
    answer = subprocess.run(["sh", "-c", printed], capture_output=True, text=True, check=True)
    assert '"pending"' in answer.stdout


def test_a_node_has_one_core_and_as_many_workers_as_set(unharmed: NodeProcess) -> None:
    assert sorted(unharmed.children().values()) == ["cairn-api-0", "cairn-api-1", "cairn-core"]


def test_connections_are_spread_over_the_workers(unharmed: NodeProcess) -> None:
    def sockets(worker: int) -> int:
        return sum(os.readlink(each).startswith("socket:") for each in Path(f"/proc/{worker}/fd").iterdir())

    workers, port = unharmed.worker_pids(), int(unharmed.url.split(":")[-1])

    def fewest_of_forty() -> int:
        before = [sockets(worker) for worker in workers]
        with ExitStack() as opened:
            for _ in range(40):
                connection = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert connection.recv(4_096).startswith(b"HTTP/1.1 200 ")
            return min(sockets(worker) - had for worker, had in zip(workers, before, strict=True))

    # A worker that the machine holds up for a moment leaves its share to the other.
    wait_until(lambda: fewest_of_forty() >= 8, PATIENCE_S, "connections at each worker")


def test_a_port_in_use_is_refused_before_anything_is_printed(unharmed: NodeProcess) -> None:
    port = unharmed.url.rpartition(":")[2]
    second = run_cairn("dev", "--port", port)
    message = f"cairn: cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with --port\n"
    assert (second.returncode, second.stdout, second.stderr) == (5, "", message)


def test_a_second_node_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with NodeProcess.start_dev(data_dir=tmp_path) as first:
        second = run_cairn("dev", "--port", "0", "--data-dir", str(tmp_path))
        assert second.returncode == 3
        assert second.stdout == ""
        assert str(tmp_path) in second.stderr
        assert "in use" in second.stderr
        assert len(second.stderr.splitlines()) == 1
        assert first.probe("/ready") == 200


def test_a_directory_of_another_chain_is_refused(tmp_path: Path) -> None:
    assert run_cairn("init", str(tmp_path)).returncode == 0
    with NodeProcess.start(("run", "--home", str(tmp_path), "--port", "0")) as node:
        node.wait_ready()
        assert node.stop() == 0
    other = run_cairn("dev", "--port", "0", "--data-dir", str(tmp_path / "data"))
    assert (other.returncode, other.stdout) == (3, "")
    assert "genesis" in other.stderr
    assert len(other.stderr.splitlines()) == 1


def test_an_unknown_key_and_an_unknown_variable_stop_the_start(tmp_path: Path) -> None:
    assert run_cairn("init", str(tmp_path)).returncode == 0
    variable = run_cairn("run", "--home", str(tmp_path), env={"CAIRN_WORKER": "1"})
    assert variable.returncode == 2
    assert variable.stderr == "cairn: unknown environment variable CAIRN_WORKER; did you mean CAIRN_WORKERS?\n"
    with (tmp_path / "cairn.toml").open("a") as config:
        config.write("\nblok_time_s = 1\n")
    key = run_cairn("run", "--home", str(tmp_path))
    assert key.returncode == 2
    assert key.stderr == "cairn: cairn.toml: unknown key blok_time_s; did you mean block_time_s?\n"


def test_a_node_started_by_run_signs_for_no_account(tmp_path: Path) -> None:
    assert run_cairn("init", str(tmp_path), "--chain-id", "77", "--alloc", f"{FIRST}=10coins").returncode == 0
    with NodeProcess.start(("run", "--home", str(tmp_path)), env={"CAIRN_PORT": "0"}) as node:
        node.wait_ready()
        assert get_anew(f"{node.url}/chain").json()["chainId"] == 77
        assert get_anew(f"{node.url}/account/{FIRST}").json()["balance"] == 10**19
        unsigned = {"from": FIRST, "to": SECOND, "value": 1, "gas": 21_000}
        answer = post_anew(f"{node.url}/tx", unsigned)
        assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_FIELD")
        assert "signature" in answer.json()["detail"]


def test_a_public_address_with_dev_keys_is_warned_of() -> None:
    with NodeProcess.start(("dev", "--port", "0", "--host", "0.0.0.0")) as node:
        wait_until(lambda: "Listening on" in node.stdout or not node.is_running, PATIENCE_S, "the banner")
        assert "0.0.0.0 is not loopback: whoever reaches this port can spend from all its accounts" in node.stderr


# Restart


def test_a_worker_that_is_killed_comes_back_and_nothing_is_lost(node: NodeProcess) -> None:
    tx_hash = submit(node)
    killed = node.worker_pids()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(set(node.worker_pids()) - set(killed)) == 2, PATIENCE_S, "two new workers")
    node.wait_ready()
    await_confirmed(node, tx_hash)
    await_confirmed(node, submit(node))


def test_a_worker_that_replaces_another_answers_once_it_knows_the_chain() -> None:
    with NodeProcess.start_dev("--workers", "1", "--block-time", "0.01") as node, ThreadPoolExecutor(1) as pool:
        [killed], core = node.worker_pids(), node.core_pid()
        # It stands still until the new worker could have answered without it, not long enough to be replaced.
        os.kill(core, signal.SIGSTOP)
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: set(node.worker_pids()) - {killed} != set(), PATIENCE_S, "a new worker")
        answer = pool.submit(get_anew, f"{node.url}/chain")
        time.sleep(0.3)
        os.kill(core, signal.SIGCONT)
        assert answer.result().status_code == 200


def test_without_its_core_a_worker_that_replaces_another_answers_all_the_same() -> None:
    with NodeProcess.start_dev("--workers", "1", "--block-time", "0.01") as node:
        [killed], core = node.worker_pids(), node.core_pid()
        os.kill(core, signal.SIGSTOP)
        os.kill(killed, signal.SIGKILL)
        assert until(lambda: node.probe("/health"), bool) == 200
        assert is_stopped(core)


def test_a_core_that_is_killed_comes_back_with_what_it_accepted() -> None:
    with NodeProcess.start_dev("--block-time", "3600") as node:
        tx_hash = submit(node)
        workers = node.worker_pids()
        node.replace_core()
        assert node.worker_pids() == workers
        found = until(lambda: get_anew(f"{node.url}/tx/{tx_hash}"), lambda answer: answer.status_code != 503)
        assert found.json()["status"] == "pending"


def test_while_the_core_hangs_the_node_is_alive_but_not_ready(node: NodeProcess) -> None:
    def parts_of_a_stopped_core() -> set[str]:
        # Stopped again each time: the supervisor replaces one that stands still.
        with suppress(LookupError, ProcessLookupError):
            os.kill(node.core_pid(), signal.SIGSTOP)
        return set(checked_parts(node))

    # Not at once: each worker keeps the outcome of its last check for a second.
    wait_until(lambda: parts_of_a_stopped_core() == {SILENT_CORE}, PATIENCE_S, "/ready to say what is wrong")
    assert node.probe("/health") == 200
    # Unless it was replaced by now.
    with suppress(LookupError, ProcessLookupError):
        os.kill(node.core_pid(), signal.SIGCONT)
    node.wait_ready()
    await_confirmed(node, submit(node))


# Stop


def test_sigterm_drains_and_exits_0() -> None:
    with NodeProcess.start_dev("--drain-delay", "0.1") as node:
        submit(node)
        node.process.terminate()
        assert_stops(node)


def test_a_stop_takes_no_longer_than_promised(node: NodeProcess) -> None:
    """The slowest stop there is: a core that does not answer must be killed in the end."""
    core = node.core_pid()
    os.kill(core, signal.SIGSTOP)
    pids = node.pids()
    with Pace(lambda: any(is_stopped(pid) for pid in pids if pid != core)) as pace:
        began = time.monotonic()
        node.process.terminate()
        node.wait_exit()
        assert time.monotonic() - began < pace.stretch(STOP_LIMIT_S)
    assert_stopped(node, pids)


def test_ctrl_c_to_the_whole_group_exits_0(node: NodeProcess) -> None:
    submit(node)
    node.signal_group(signal.SIGINT)
    assert_stops(node)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_in_the_middle_of_the_start_exits_0_and_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    # From the first sign of the node (its temporary directory) to its processes, and a little into their lives.
    for delay_s in (0.0, 0.1, 0.2, 0.4):
        with NodeProcess.start(env={"TMPDIR": str(tmp_path)}) as node:
            wait_until(lambda: any(tmp_path.iterdir()), PATIENCE_S, "the temporary directory")
            time.sleep(delay_s)
            node.signal_group(number)
            assert_stops(node)
        assert list(tmp_path.iterdir()) == []


def test_during_the_drain_delay_reads_are_served_and_submissions_refused() -> None:
    with NodeProcess.start_dev("--drain-delay", "3600", "--workers", "1") as node:
        tx_hash = submit(node)
        node.process.terminate()
        wait_until(lambda: node.probe("/ready") == 503, PATIENCE_S, "/ready 503")
        assert get_anew(f"{node.url}/tx/{tx_hash}").status_code == 200
        refused = post_anew(f"{node.url}/tx", {"from": FIRST, "to": SECOND, "value": 1, "gas": 21_000})
        assert (refused.status_code, refused.json()["code"]) == (503, "SHUTTING_DOWN")


def test_all_processes_end_with_the_supervisor(node: NodeProcess) -> None:
    children = list(node.children())
    assert len(children) == 3
    node.process.kill()
    node.process.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in children), PATIENCE_S, "the end of every process")


def test_a_temporary_chain_is_removed_and_a_given_one_is_kept(tmp_path: Path) -> None:
    with NodeProcess.start_dev() as node:
        (temporary,) = re.findall(r"^Data +(\S+) \(temporary", node.stdout, re.MULTILINE)
        assert Path(temporary).is_dir()
        assert node.stop() == 0
        assert not Path(temporary).exists()
    with NodeProcess.start_dev("--block-time", "0", data_dir=tmp_path) as node:
        assert f"{tmp_path} (kept)" in node.stdout
        tx_hash = submit(node)
        height = await_confirmed(node, tx_hash)["blockHeight"]
        assert node.stop() == 0
    with NodeProcess.start_dev(data_dir=tmp_path) as node:
        assert await_confirmed(node, tx_hash)["blockHeight"] == height
