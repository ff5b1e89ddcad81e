"""The supervisor, with real processes that it starts, loses and stops."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cairn.supervisor import NAP_S, Child, SignalPipe, Timers, describe_exit, has_ended
from tests.support.node_process import is_alive, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.terminal import Terminal


class Supervised:
    """A supervisor of stand-in processes, and what they have said so far."""

    def __init__(self, scenario: str, *socket: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.supervised", scenario, *map(str, socket)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Buffered, as it is unless somebody wants it otherwise: what cannot be written stays for the next flush.
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
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
        return [int(pid) for pid in re.findall(rf"^started {name} (\d+) ", self.said(), re.MULTILINE)]

    def wait_started(self, *names: str, lives: int = 1) -> None:
        wait_until(lambda: all(len(self.pids(name)) >= lives for name in names), PATIENCE_S, f"{lives} of {names}")

    def wait_said(self, text: str, times: int = 1) -> None:
        wait_until(lambda: self.said().count(text) >= times, PATIENCE_S, text)

    def wait(self) -> tuple[int, str]:
        """The exit code and what went to standard error."""
        assert self.process.stderr is not None
        # First all that is to be read, or a supervisor that has much to say could never end.
        errors = self.process.stderr.read().decode()
        return self.process.wait(PATIENCE_S), errors

    def check_pauses(self, name: str, errors: str) -> None:
        """The first lives of a process that ends early came ever later, as the log says."""
        assert [float(pause) for pause in re.findall(r'"in_s": ([\d.]+)', errors)][:3] == [0.05, 0.1, 0.2]
        times = [float(at) for at in re.findall(rf"^started {name} \d+ ([\d.]+)$", self.said(), re.MULTILINE)]
        assert all(later - at >= pause for at, later, pause in zip(times, times[1:], [0.05, 0.1, 0.2], strict=False))

    def close(self) -> None:
        # The whole group, also when its leader has ended: some stand-ins ignore everything else.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_every_process_in_order_and_exits_0(
    start: Callable[[str], Supervised], number: signal.Signals
) -> None:
    node = start_steady(start)
    node.wait_said("timer ran")
    node.process.send_signal(number)
    code, errors = node.wait()
    assert code == 0, errors
    said = node.said()
    assert {f"{name} ended by SIGTERM" for name in ("core", "worker-0", "worker-1")} <= set(said.splitlines())
    assert said.index("listener closed") < said.index("worker-0 ended")
    assert number.name in errors


def test_the_end_of_the_parents_pipe_is_a_stop_and_what_comes_before_it_is_not(
    start: Callable[[str], Supervised],
) -> None:
    node = start_steady(start, "with a parent")
    node.wait_said("waiting for")
    assert node.process.stdin is not None
    node.process.stdin.write(b"not the end")
    node.process.stdin.flush()
    # It wakes up for that, and waits again.
    node.wait_said("waiting for", times=node.said().count("waiting for") + 2)
    assert node.process.poll() is None
    node.process.stdin.close()
    code, errors = node.wait()
    assert code == 0, errors
    assert node.said().count("ended by SIGTERM") == 3
    assert "the pipe of the parent process has ended" in errors


def test_ctrl_c_to_the_whole_group_reaches_only_the_supervisor(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start)
    os.killpg(node.process.pid, signal.SIGINT)
    code, errors = node.wait()
    assert code == 0, errors
    assert node.said().count("ended by SIGTERM") == 3


def test_the_core_drains_before_the_workers_are_told(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start, "drain without end")
    node.process.terminate()
    node.wait_said("core ended by SIGTERM")
    assert "listener closed" not in node.said()
    assert "worker-0 ended" not in node.said()


def test_the_workers_are_told_when_the_drain_is_over(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start, "drain")
    began = time.monotonic()
    node.process.terminate()
    assert node.wait()[0] == 0
    closed_at = re.search(r"^listener closed ([\d.]+)$", node.said(), re.MULTILINE)
    assert closed_at is not None
    assert float(closed_at[1]) - began >= 0.2
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
    assert len(node.pids("worker-1")) == 1
    node.process.terminate()
    code, errors = node.wait()
    assert code == 0
    node.check_pauses("worker-0", errors)
    assert "RuntimeError: a mistake of ours" in errors
    assert "exit code 1" in errors


def test_where_nobody_reads_errors_a_failing_process_is_started_again(start: Callable[[str], Supervised]) -> None:
    node = start("failing worker")
    assert node.process.stderr is not None
    node.process.stderr.close()
    node.wait_started("worker-0", lives=3)
    node.wait_started("worker-1")
    # A failed process that went on as a second supervisor would start it, too.
    assert len(node.pids("worker-1")) == 1
    node.process.terminate()
    assert node.process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("scenario", ["fatal core", "fatal worker"])
def test_a_fatal_finding_stops_everything(start: Callable[[str], Supervised], scenario: str) -> None:
    node = start(scenario)
    code, errors = node.wait()
    assert code == 3, errors
    names = ("core", "worker-0", "worker-1")
    assert all(len(node.pids(name)) <= 1 for name in names)
    assert not any(is_alive(pid) for name in names for pid in node.pids(name))


def test_a_process_that_ignores_the_stop_is_killed(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start, "stubborn")
    node.process.terminate()
    code, errors = node.wait()
    assert code == 0
    assert "took too long to stop" in errors
    assert not any(is_alive(pid) for name in ("core", "worker-0", "worker-1") for pid in node.pids(name))


def test_a_second_ctrl_c_forces_the_end(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start, "stubborn, every Ctrl-C another")
    node.process.send_signal(signal.SIGINT)
    node.wait_said("ended by SIGTERM", times=2)
    node.process.send_signal(signal.SIGINT)
    assert node.wait()[0] == 130
    assert not is_alive(node.pids("core")[0])


def test_a_ctrl_c_that_comes_twice_forces_nothing(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start, "stubborn, every Ctrl-C the same")
    node.process.send_signal(signal.SIGINT)
    node.wait_said("ended by SIGTERM", times=2)
    node.process.send_signal(signal.SIGINT)
    node.process.send_signal(signal.SIGTERM)
    # Its end is noticed after the signals before it.
    os.kill(node.pids("core")[0], signal.SIGKILL)
    assert node.wait()[0] == 0


def test_without_the_supervisor_no_process_stays(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start)
    node.process.kill()
    node.process.wait()
    pids = [pid for name in ("core", "worker-0", "worker-1") for pid in node.pids(name)]
    wait_until(lambda: not any(is_alive(pid) for pid in pids), PATIENCE_S, "the end of all")
    assert node.said().count("ended by lifeline") == 3


def test_the_supervisor_sleeps_between_timers(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start)
    node.wait_said("timer ran")
    began, waits = time.monotonic(), node.said().count("waiting for")
    node.wait_said("waiting for", times=waits + 20)
    assert time.monotonic() - began > 20 * NAP_S / 2
    assert "waiting for a signal" not in node.said()


# SIGHUP


def test_a_hang_up_without_a_terminal_is_a_reload_and_stops_nothing(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start, "reloading")
    for times in (1, 2):
        node.process.send_signal(signal.SIGHUP)
        node.wait_said("worker-0 reloads", times)
    assert node.said().count("the supervisor reloads") == 2
    assert node.process.poll() is None
    node.process.terminate()
    assert node.wait()[0] == 0


def test_a_reload_that_the_supervisor_refuses_reaches_nobody_else(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start, "refusing to reload")
    node.process.send_signal(signal.SIGHUP)
    node.wait_said("the supervisor reloads")
    node.wait_said("waiting for", times=node.said().count("waiting for") + 10)
    assert "worker-0 reloads" not in node.said()
    assert node.process.poll() is None


SUPERVISED = [sys.executable, "-m", "tests.support.supervised"]


def wait_written(said: Path, *texts: str) -> None:
    """Each must be there: what was started first may be the last to say so."""
    wait_until(lambda: said.exists() and all(text in said.read_text() for text in texts), PATIENCE_S, f"{texts}")


def wait_all_started(said: Path) -> None:
    wait_written(said, "started core", "started worker-0", "started worker-1")


def test_in_a_terminal_a_signal_is_a_reload_and_the_end_of_the_terminal_is_a_stop(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with Terminal(["sh", "-c", f'exec "$@" >{said} 2>&1', "sh", *SUPERVISED, "reloading"], os.environ) as terminal:
        wait_all_started(said)
        terminal.process.send_signal(signal.SIGHUP)
        wait_written(said, "worker-0 reloads")
        assert terminal.process.poll() is None
        terminal.hang_up()
        assert terminal.process.wait(PATIENCE_S) == 0
    assert "SIGHUP" in said.read_text()
    assert said.read_text().count("ended by SIGTERM") == 3


def test_a_terminal_that_ends_before_the_supervisor_is_there_is_a_stop(tmp_path: Path) -> None:
    said = tmp_path / "said"
    code = (
        "import runpy, sys, time; from pathlib import Path; from cairn import early_stop; early_stop.note_stops();"
        f"Path({str(tmp_path / 'begun')!r}).touch();"
        "\nwhile not early_stop.told(): time.sleep(0.01)\n"
        "sys.argv = ['', 'reloading']; runpy.run_module('tests.support.supervised', run_name='__main__')"
    )
    command = ["sh", "-c", f'exec "$@" >{said} 2>&1', "sh", sys.executable, "-c", code]
    with Terminal(command, os.environ) as terminal:
        wait_until((tmp_path / "begun").exists, PATIENCE_S, "the beginning")
        terminal.hang_up()
        assert terminal.process.wait(PATIENCE_S) == 0, said.read_text()


def test_a_hang_up_just_before_the_terminal_ends_is_a_stop(tmp_path: Path) -> None:
    """As some shells do it: they tell their programs, which have groups of their own, and then end."""
    said = tmp_path / "said"
    shell = f'set -m; "$@" >{said} 2>&1 & while [ ! -e {tmp_path}/end ]; do sleep 0.05; done; kill -HUP $!'
    command = [*SUPERVISED, "reloading until the terminal ends"]
    with Terminal(["sh", "-c", shell, "sh", *command], os.environ) as terminal:
        wait_all_started(said)
        (tmp_path / "end").touch()
        terminal.process.wait(PATIENCE_S)
        wait_until(lambda: said.read_text().count("ended by SIGTERM") == 3, PATIENCE_S, "the stop")


# Processes that hang


def hung_process(errors: str) -> tuple[str, str]:
    """The name of the process that the log says hangs, and how."""
    lines = [json.loads(line) for line in errors.splitlines() if line.endswith("}")]
    found, *_ = (line for line in lines if line["event"].startswith("a process hangs"))
    return found["process"], found["how"]


@pytest.mark.parametrize(
    ("scenario", "name", "found", "where"),
    [
        ("core that hangs asleep", "core", ("cairn-core", "blocked"), "in sleep_for_ever"),
        ("worker that hangs busy", "worker-1", ("cairn-api-1", "busy"), "in count_for_ever"),
    ],
)
def test_a_process_that_hangs_says_where_it_is_and_is_replaced(
    start: Callable[[str], Supervised], scenario: str, name: str, found: tuple[str, str], where: str
) -> None:
    node = start_steady(start, scenario)
    hung = node.pids(name)[0]
    others = {other: node.pids(other) for other in ("core", "worker-0", "worker-1") if other != name}
    assert node.process.stdin is not None
    node.process.stdin.write(b"!")
    node.process.stdin.flush()
    node.wait_started(name, lives=2)
    assert not is_alive(hung)
    assert {other: node.pids(other) for other in others} == others
    node.process.kill()
    errors = node.wait()[1]
    assert hung_process(errors) == found
    assert where in errors


@pytest.mark.parametrize("name", ["core", "worker-0"])
def test_a_stopped_process_is_replaced_whether_it_beats_or_starts(
    start: Callable[[str], Supervised], name: str
) -> None:
    node = start_steady(start, "stopped processes are replaced")
    stopped = node.pids(name)[0]
    os.kill(stopped, signal.SIGSTOP)
    node.wait_started(name, lives=2)
    assert not is_alive(stopped)
    node.process.kill()
    errors = node.wait()[1]
    assert hung_process(errors)[1] == "stopped" + " while starting" * (name == "core")


def test_a_pause_of_all_processes_ends_none(start: Callable[[str], Supervised]) -> None:
    node = start_steady(start, "stopped processes are replaced")
    for _ in range(3):
        os.killpg(node.process.pid, signal.SIGSTOP)
        # Longer than the limit of this scenario.
        time.sleep(1.5)
        os.killpg(node.process.pid, signal.SIGCONT)
        looks = node.said().count("waiting for")
        node.wait_said("waiting for", times=looks + 5)
    assert all(len(node.pids(name)) == 1 for name in ("core", "worker-0", "worker-1"))
    assert all(is_alive(node.pids(name)[0]) for name in ("core", "worker-0", "worker-1"))


def test_back_off_grows_to_its_bound_and_a_stable_life_resets_it() -> None:
    child = Child("worker", lambda lifeline: 0, started_at=100.0)
    assert [child.back_off_s(now=101.0) for _ in range(8)] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert child.back_off_s(now=105.0) == 0.0
    assert child.back_off_s(now=101.0) == 0.05


class Clock:
    """Time passes when `sleep` says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.late_s: deque[float] = deque()
        """By how much the next waits oversleep; the others do not."""
        self.waits: list[float | None] = []

    def __call__(self) -> float:
        return self.now

    def wait(self, timeout_s: float | None) -> bytes:
        self.waits.append(timeout_s)
        self.now += (timeout_s or 0.0) + (self.late_s.popleft() if self.late_s else 0.0)
        return b""


def test_timers_run_in_order_of_time_and_then_of_arrival() -> None:
    clock = Clock()
    timers = Timers(clock)
    ran: list[str] = []
    assert timers.next_in_s() is None
    timers.add(60.0, lambda: ran.append("late"))
    timers.add(0.0, lambda: ran.append("first"))
    timers.add(0.0, lambda: ran.append("second"))
    assert timers.next_in_s() == 0.0
    timers.run_due()
    assert ran == ["first", "second"]
    clock.now += 0.25
    assert timers.next_in_s() == 59.75
    timers.clear()
    assert timers.next_in_s() is None


def test_timers_are_waited_for_in_naps_and_nothing_else_is() -> None:
    clock = Clock()
    timers = Timers(clock)
    timers.wait(clock.wait)
    timers.add(0.5, lambda: None)
    for _ in range(3):
        timers.wait(clock.wait)
    assert clock.waits == [None, NAP_S, NAP_S, pytest.approx(0.1)]


def test_time_in_which_the_machine_stood_still_is_not_counted() -> None:
    clock = Clock()
    timers = Timers(clock)
    ran: list[float] = []
    timers.add(1.0, lambda: ran.append(clock.now))
    # Being a little late is normal, and counts.
    clock.late_s.extend([0.1, 4.0, 0.0, 60.0])
    while not ran:
        timers.wait(clock.wait)
        timers.run_due()
    # A late nap counts for half of one.
    assert ran == [pytest.approx(100.0 + 1.0 + 64.0, abs=NAP_S + 0.01)]


def test_signals_come_out_of_the_pipe_and_the_old_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with SignalPipe() as signals:
        assert signals.wait(0.0) == b""
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.wait(PATIENCE_S) == bytes([signal.SIGTERM])
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_end_of_the_parents_pipe_is_told_once_as_a_stop() -> None:
    reader, writer = os.pipe()
    try:
        with SignalPipe(reader) as signals:
            assert signals.wait(0.0) == b""
            os.write(writer, b"dropped")
            assert signals.wait(PATIENCE_S) == b""
            os.close(writer)
            assert signals.wait(PATIENCE_S) == bytes([signal.SIGTERM])
            assert signals.wait(0.0) == b""
    finally:
        os.close(reader)


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


def test_a_pipe_has_ended_when_nobody_can_write_to_it(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    assert not has_ended(reader)
    os.write(writer, b"more")
    assert not has_ended(reader)
    os.close(writer)
    assert has_ended(reader)
    os.close(reader)
    directory = os.open(tmp_path, os.O_RDONLY)
    assert has_ended(directory)
    os.close(directory)


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

    def test_the_engine_starts_once_the_core_listens(self, start_with: Callable[[str], Supervised]) -> None:
        said = start_with("late core").said()
        assert said.index("core listens") < said.index("started engine")

    def test_the_engine_is_stopped_before_the_workers(self, start_with: Callable[[str], Supervised]) -> None:
        node = start_with("steady")
        node.process.terminate()
        assert node.wait()[0] == 0
        said = node.said()
        assert said.index("engine ended by SIGTERM") < said.index("listener closed") < said.index("worker-0 ended")

    def test_a_stopped_engine_is_replaced(self, start_with: Callable[[str], Supervised]) -> None:
        node = start_with("stopped processes are replaced")
        os.kill(node.pids("engine")[0], signal.SIGSTOP)
        node.wait_started("engine", lives=2)
        assert len(node.pids("core")) == 1
        node.process.kill()
        assert hung_process(node.wait()[1]) == ("engine", "stopped")

    def test_the_engine_is_restarted_after_any_exit(self, start_with: Callable[[str], Supervised]) -> None:
        node = start_with("steady")
        os.kill(node.pids("engine")[0], signal.SIGKILL)
        node.wait_started("engine", lives=2)
        assert len(node.pids("core")) == 1

    def test_no_exit_code_of_the_engine_is_fatal_and_it_backs_off(
        self, start_with: Callable[[str], Supervised]
    ) -> None:
        node = start_with("quitting engine")
        node.wait_started("engine", lives=4)
        node.process.terminate()
        code, errors = node.wait()
        assert code == 0
        node.check_pauses("engine", errors)

    def test_an_engine_that_outlives_its_core_is_killed_and_restarted_with_the_next(
        self, start_with: Callable[[str], Supervised]
    ) -> None:
        node = start_with("hanging engine")
        os.kill(node.pids("core")[0], signal.SIGKILL)
        node.wait_started("core", "engine", lives=2)
        assert not is_alive(node.pids("engine")[0])

    def test_an_engine_of_an_earlier_core_is_killed(
        self, start_with: Callable[[str], Supervised], tmp_path: Path
    ) -> None:
        node = start_with("hanging engine")
        # While the old file is still there: the new one may not have its number.
        (tmp_path / "next.sock").touch()
        (tmp_path / "next.sock").replace(tmp_path / "abci.sock")
        node.wait_started("engine", lives=2)
        assert len(node.pids("core")) == 1

    def test_an_engine_that_does_not_stop_is_killed_in_time(self, start_with: Callable[[str], Supervised]) -> None:
        node = start_with("hanging engine")
        node.process.terminate()
        code, errors = node.wait()
        assert code == 0
        # By its own limit: that for all of them is far off.
        assert "took too long" not in errors
        assert node.said().count("ended by SIGTERM") == 3
        assert not is_alive(node.pids("engine")[0])
