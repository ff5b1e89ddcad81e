"""The supervisor, with real processes that it starts, loses and stops."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cairn.supervisor import Child, SignalPipe, Timers, describe_exit
from tests.support.node_process import is_alive, wait_until


class Supervised:
    """A supervisor of stand-in processes, and what they have said so far."""

    def __init__(self, scenario: str, *socket: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.supervised", scenario, *map(str, socket)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._said = b""

    def said(self) -> str:
        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], 0)[0]:
            chunk = os.read(self.process.stdout.fileno(), 65_536)
            if not chunk:
                break
            self._said += chunk
        return self._said.decode()

    def pids(self, name: str) -> list[int]:
        """The ids of every life of a process, in order."""
        return [int(pid) for pid in re.findall(rf"^started {name} (\d+)$", self.said(), re.MULTILINE)]

    def wait_started(self, *names: str, lives: int = 1) -> None:
        wait_until(lambda: all(len(self.pids(name)) >= lives for name in names), 10, f"{names}: {self.said()}")

    def wait(self, timeout_s: float = 10) -> tuple[int, str]:
        """The exit code and what went to standard error."""
        assert self.process.stderr is not None
        code = self.process.wait(timeout_s)
        return code, self.process.stderr.read().decode()

    def close(self) -> None:
        # The whole group, also when its leader has ended: some stand-ins ignore everything else.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def start() -> Iterator[Callable[[str], Supervised]]:
    started: list[Supervised] = []

    def start(scenario: str) -> Supervised:
        started.append(Supervised(scenario))
        return started[-1]

    yield start
    for each in started:
        each.close()


def start_steady(start: Callable[[str], Supervised], scenario: str = "steady") -> Supervised:
    node = start(scenario)
    node.wait_started("core", "worker-0", "worker-1")
    return node


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_ends_every_process_in_order_and_exits_0(
    start: Callable[[str], Supervised], number: signal.Signals
) -> None:
    node = start_steady(start)
    wait_until(lambda: "timer ran" in node.said(), 30, "the timer to run")
    node.process.send_signal(number)
    code, errors = node.wait()
    assert code == 0, errors
    said = node.said()
    assert {f"{name} ended by SIGTERM" for name in ("core", "worker-0", "worker-1")} <= set(said.splitlines())
    assert said.index("listener closed") < said.index("worker-0 ended")
    assert number.name in errors


def test_ctrl_c_to_the_whole_group_reaches_only_the_supervisor(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start)
    os.killpg(node.process.pid, signal.SIGINT)
    code, errors = node.wait()
    assert code == 0, errors
    assert node.said().count("ended by SIGTERM") == 3


def test_the_core_drains_before_the_workers_are_told(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start, "slow drain")
    node.process.terminate()
    wait_until(lambda: "core ended" in node.said(), 5, "the core's end")
    assert "worker" not in node.said().partition("core ended")[2]
    assert node.wait()[0] == 0
    assert node.said().count("ended by SIGTERM") == 3


@pytest.mark.parametrize("name", ["core", "worker-1"])
def test_a_killed_process_is_started_again(start: Callable[[str], Supervised], name: str) -> None:
    node = start_steady(start)
    os.kill(node.pids(name)[0], signal.SIGKILL)
    node.wait_started(name, lives=2)
    assert not is_alive(node.pids(name)[0])
    node.process.terminate()
    code, errors = node.wait()
    assert code == 0
    assert "killed by SIGKILL" in errors


def test_a_process_that_fails_again_and_again_is_started_ever_more_slowly(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start, "failing worker")
    node.wait_started("worker-0", lives=4)
    time.sleep(1)
    assert len(node.pids("worker-0")) < 10
    assert len(node.pids("worker-1")) == 1
    node.process.terminate()
    code, errors = node.wait()
    assert code == 0
    assert "RuntimeError: a mistake of ours" in errors
    assert "exit code 1" in errors


@pytest.mark.parametrize("scenario", ["fatal core", "fatal worker"])
def test_a_fatal_finding_stops_everything(start: Callable[[str], Supervised], scenario: str) -> None:
    node = start(scenario)
    code, errors = node.wait()
    assert code == 3, errors
    names = ("core", "worker-0", "worker-1")
    assert all(len(node.pids(name)) <= 1 for name in names)
    assert not any(is_alive(pid) for name in names for pid in node.pids(name))


def test_whoever_ignores_the_stop_is_killed_in_the_end(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start, "stubborn")
    node.process.terminate()
    code, errors = node.wait()
    assert code == 0
    assert "took too long to stop" in errors
    assert not any(is_alive(pid) for name in ("core", "worker-0", "worker-1") for pid in node.pids(name))


def test_a_second_ctrl_c_forces_but_a_doubled_one_does_not(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start, "stubborn for long")
    node.process.send_signal(signal.SIGINT)
    wait_until(lambda: node.said().count("ended by SIGTERM") == 2, 5, "the workers' end")
    node.process.send_signal(signal.SIGINT)
    node.process.send_signal(signal.SIGTERM)
    time.sleep(1.6)
    assert node.process.poll() is None
    node.process.send_signal(signal.SIGINT)
    assert node.wait(2)[0] == 130


def test_without_the_supervisor_nobody_stays(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start)
    node.process.kill()
    node.process.wait()
    pids = [pid for name in ("core", "worker-0", "worker-1") for pid in node.pids(name)]
    wait_until(lambda: not any(is_alive(pid) for pid in pids), 5, "the end of all")
    assert node.said().count("ended by lifeline") == 3


def test_it_sleeps_while_nothing_happens(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start)
    time.sleep(0.2)
    before = context_switches(node.process.pid)
    time.sleep(0.5)
    assert context_switches(node.process.pid) == before


def context_switches(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        return sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)


def test_back_off_grows_to_its_bound_and_a_stable_life_resets_it() -> None:
    child = Child("worker", lambda lifeline: 0, started_at=100.0)
    assert [child.back_off_s(now=101.0) for _ in range(8)] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert child.back_off_s(now=105.0) == 0.0
    assert child.back_off_s(now=101.0) == 0.05


def test_timers_run_in_order_of_time_and_then_of_arrival() -> None:
    timers = Timers()
    ran: list[str] = []
    assert timers.next_in_s() is None
    timers.add(60.0, lambda: ran.append("late"))
    timers.add(0.0, lambda: ran.append("first"))
    timers.add(0.0, lambda: ran.append("second"))
    assert timers.next_in_s() == 0.0
    time.sleep(0.001)
    timers.run_due()
    assert ran == ["first", "second"]
    assert 59 < (timers.next_in_s() or 0) <= 60
    timers.clear()
    assert timers.next_in_s() is None


def test_signals_come_out_of_the_pipe_and_the_old_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with SignalPipe() as signals:
        assert signals.wait(0.0) == b""
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.wait(1.0) == bytes([signal.SIGTERM])
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_hang_up_that_nohup_ignores_stays_ignored() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with SignalPipe() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.wait(0.0) == b""
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_exits_are_described_in_words() -> None:
    assert describe_exit(1) == "exit code 1"
    assert describe_exit(-9) == "killed by SIGKILL"


class TestEngine:
    """The program that works for the core: CometBFT."""

    @pytest.fixture
    def start_with(self, tmp_path: Path) -> Iterator[Callable[[str], Supervised]]:
        started: list[Supervised] = []

        def start_with(scenario: str) -> Supervised:
            node = Supervised(scenario, tmp_path / "abci.sock")
            started.append(node)
            node.wait_started("core", "worker-0", "worker-1", "engine")
            return node

        yield start_with
        for each in started:
            each.close()

    def test_it_starts_once_the_core_listens(self, start_with: Callable[[str], Supervised]) -> None:
        said = start_with("steady").said()
        assert said.index("core listens") < said.index("started engine")

    def test_it_is_stopped_before_the_workers(self, start_with: Callable[[str], Supervised]) -> None:
        node = start_with("steady")
        node.process.terminate()
        assert node.wait()[0] == 0
        said = node.said()
        assert said.index("engine ended by SIGTERM") < said.index("listener closed") < said.index("worker-0 ended")

    def test_it_comes_back_after_any_death(self, start_with: Callable[[str], Supervised]) -> None:
        node = start_with("steady")
        os.kill(node.pids("engine")[0], signal.SIGKILL)
        node.wait_started("engine", lives=2)
        assert len(node.pids("core")) == 1

    def test_no_exit_code_of_it_is_fatal_and_it_backs_off(self, start_with: Callable[[str], Supervised]) -> None:
        node = start_with("quitting engine")
        node.wait_started("engine", lives=4)
        node.process.terminate()
        code, errors = node.wait()
        assert code == 0
        pauses = [float(pause) for pause in re.findall(r'"in_s": ([\d.]+)', errors)]
        assert pauses[:3] == [0.05, 0.1, 0.2]

    def test_one_that_hangs_after_its_core_s_death_is_killed_and_starts_with_the_next(
        self, start_with: Callable[[str], Supervised]
    ) -> None:
        node = start_with("hanging engine")
        os.kill(node.pids("core")[0], signal.SIGKILL)
        node.wait_started("core", "engine", lives=2)
        assert not is_alive(node.pids("engine")[0])

    def test_one_that_hangs_after_its_core_listened_anew_is_killed(
        self, start_with: Callable[[str], Supervised], tmp_path: Path
    ) -> None:
        node = start_with("hanging engine")
        socket = tmp_path / "abci.sock"
        socket.unlink()
        socket.touch()
        node.wait_started("engine", lives=2)
        assert len(node.pids("core")) == 1

    def test_one_that_does_not_stop_is_killed_in_time(self, start_with: Callable[[str], Supervised]) -> None:
        node = start_with("hanging engine")
        began = time.monotonic()
        node.process.terminate()
        assert node.wait()[0] == 0
        assert time.monotonic() - began < 4
        assert node.said().count("ended by SIGTERM") == 3
        assert not is_alive(node.pids("engine")[0])
