"""When a process hangs, by a clock and looks of our own; and what is seen of a real process."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from cairn.heartbeat import SharedPage, Work
from cairn.watchdog import (
    HANG_LIMIT_S,
    LARGEST_PATIENCE,
    LONG_WORK_LIMIT_S,
    LOOK_S,
    STEADY_AFTER_S,
    TOLD_AFTER_S,
    UNKNOWN,
    Finding,
    Look,
    ProcessWatch,
    look_at,
)
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S

AT_REST = Look(beats=1, work=Work.RUNNING, state="S", ran_s=0.0)


class Watched:
    """A process and the time, which pass as the test says."""

    def __init__(self, look: Look = AT_REST, patience: int = 1) -> None:
        self.now = 1_000.0
        self.look = look
        self.watch = ProcessWatch(self.now, look, patience)
        self.told: list[Finding] = []

    def lives(self, seconds: float, look_s: float = LOOK_S) -> None:
        """It beats at each look."""
        for _ in range(int(seconds / look_s)):
            assert self.look.beats is not None
            self.look = replace(self.look, beats=self.look.beats + 1)
            self._look(look_s)

    def stays(self, seconds: float, state: str, work: Work = Work.RUNNING, ran: float = 0.0) -> Finding | None:
        """It does not beat, and runs for a share of the time. Returns that it hangs, if so."""
        for _ in range(int(seconds / LOOK_S)):
            self.look = replace(self.look, state=state, work=work, ran_s=self.look.ran_s + ran * LOOK_S)
            found = self._look(LOOK_S)
            if found is not None and found.is_hung:
                return found
        return None

    def _look(self, passed_s: float) -> Finding | None:
        self.now += passed_s
        found = self.watch.take(self.now, self.look)
        if found is not None:
            self.told.append(found)
        return found


@pytest.mark.parametrize(
    ("state", "ran", "described"), [("T", 0.0, "stopped"), ("S", 0.0, "blocked"), ("R", 1.0, "busy")]
)
def test_a_process_that_could_beat_and_does_not_hangs_at_the_limit(state: str, ran: float, described: str) -> None:
    process = Watched()
    process.lives(60)
    assert process.stays(HANG_LIMIT_S - LOOK_S, state, ran=ran) is None
    found = process.stays(LOOK_S, state, ran=ran)
    assert found is not None
    assert (found.silent_s, found.described) == (HANG_LIMIT_S, described)
    assert process.told == [found]


@pytest.mark.parametrize(
    ("last", "ran", "described"),
    [
        pytest.param("R", 0.004, "blocked", id="seen-as-it-wakes-to-look-for-pythons-lock"),
        pytest.param("S", 1.0, "busy", id="seen-in-a-moment-of-sleep"),
        pytest.param("R", 0.125, "busy", id="on-a-starved-machine"),
    ],
)
def test_what_a_silent_process_does_is_told_by_how_long_it_ran_and_not_by_one_look(
    last: str, ran: float, described: str
) -> None:
    process = Watched()
    process.stays(TOLD_AFTER_S - LOOK_S, "S" if ran < 0.1 else "R", Work.DISK, ran)
    process.stays(LOOK_S, last, Work.DISK, ran)
    assert [found.described for found in process.told] == [f"{described} while using the disk"]


def test_a_process_that_gets_a_hundredth_of_a_processor_and_uses_it_is_busy() -> None:
    found = Watched().stays(101 * HANG_LIMIT_S, "R", ran=0.01)
    assert found is not None
    assert found.described == "busy"


def test_a_process_that_waits_for_pythons_lock_is_blocked_though_it_often_waits_for_a_processor_to_look() -> None:
    process, found = Watched(), None
    while found is None:
        found = process.stays(3 * LOOK_S, "R", ran=0.004) or process.stays(LOOK_S, "S", ran=0.004)
    assert found.silent_s > 3 * HANG_LIMIT_S
    assert found.described == "blocked"


def test_one_beat_begins_the_count_anew() -> None:
    process = Watched()
    for _ in range(10):
        assert process.stays(HANG_LIMIT_S - LOOK_S, "S") is None
        process.lives(LOOK_S)
    assert process.told == []


def test_a_process_that_gets_no_processor_does_not_hang_for_half_an_hour() -> None:
    assert Watched().stays(1_800, "R", ran=0.0) is None


def test_on_a_starved_machine_only_the_time_that_a_process_ran_is_counted() -> None:
    process = Watched()
    # An eighth of a processor: six busy loops and two of ours on two of them, and worse.
    assert process.stays(8 * HANG_LIMIT_S - LOOK_S, "R", ran=0.125) is None
    assert process.told == []
    assert process.stays(LOOK_S, "R", ran=0.125) is not None


def test_a_process_that_waits_in_the_kernel_is_told_of_ever_more_seldom_and_never_ended() -> None:
    process = Watched()
    assert process.stays(3_600, "D", Work.DISK) is None
    assert [round(found.silent_s) for found in process.told] == [10, 20, 40, 80, 160, 320, 640, 1280, 2560]
    assert process.told[0].described == "waiting for the disk while using the disk"


def test_a_process_that_a_debugger_holds_is_not_ended() -> None:
    process = Watched()
    assert process.stays(3_600, "t") is None
    assert process.told[0].described == "held by a debugger"


@pytest.mark.parametrize(("state", "ran"), [("S", 0.0), ("R", 1.0)])
@pytest.mark.parametrize("work", [Work.OPENING, Work.DISK])
def test_long_work_is_told_of_and_has_a_longer_limit(work: Work, state: str, ran: float) -> None:
    process = Watched()
    assert process.stays(LONG_WORK_LIMIT_S - LOOK_S, state, work, ran) is None
    assert process.told[0].silent_s == TOLD_AFTER_S
    assert work.described in process.told[0].described
    assert process.stays(LOOK_S, state, work, ran) is not None


def test_syncs_of_ten_seconds_one_after_the_other_end_nobody() -> None:
    process = Watched()
    for _ in range(20):
        assert process.stays(10, "S", Work.DISK) is None
        # Between them the loop may not turn: a block's batch, then its watermark.
        assert process.stays(LOOK_S, "R", ran=0.1) is None


def test_a_start_may_take_long_without_a_word() -> None:
    process = Watched(Look(0, Work.STARTING, "R", 0.0))
    assert process.stays(LONG_WORK_LIMIT_S - LOOK_S, "S", Work.STARTING) is None
    assert process.told == []


@pytest.mark.parametrize("work", [Work.STARTING, Work.OPENING, Work.DISK])
def test_a_stopped_process_hangs_whatever_it_was_doing(work: Work) -> None:
    process = Watched(patience=LARGEST_PATIENCE)
    assert process.stays(HANG_LIMIT_S, "T", work) is not None


def test_where_the_system_tells_nothing_of_processes_the_limit_is_four_times_as_long() -> None:
    process = Watched()
    assert process.stays(4 * HANG_LIMIT_S - LOOK_S, UNKNOWN) is None
    assert process.stays(LOOK_S, UNKNOWN) is not None


def test_work_that_only_takes_long_is_finished_in_a_later_life() -> None:
    patience, lives = 1, 0
    while True:
        process = Watched(patience=patience)
        lives += 1
        if process.stays(100, "R", ran=1.0) is None:
            break
        patience = process.watch.next_patience()
    assert lives == 5


def test_patience_has_a_bound_and_ends_with_a_steady_life_and_a_stop_asks_for_none() -> None:
    hung = Watched(patience=LARGEST_PATIENCE)
    hung.stays(HANG_LIMIT_S * LARGEST_PATIENCE, "S")
    assert hung.watch.next_patience() == LARGEST_PATIENCE
    steady = Watched(patience=8)
    steady.lives(STEADY_AFTER_S)
    steady.stays(HANG_LIMIT_S * 8, "S")
    assert steady.watch.next_patience() == 1
    stopped = Watched()
    stopped.stays(HANG_LIMIT_S, "T")
    assert stopped.watch.next_patience() == 1


def test_a_program_that_does_not_beat_hangs_only_while_it_is_stopped() -> None:
    program = Watched(Look(None, Work.RUNNING, "S", 0.0))
    assert program.stays(3_600, "S") is None
    assert program.stays(HANG_LIMIT_S - LOOK_S, "T") is None
    assert program.stays(LOOK_S, "S") is None
    assert program.stays(HANG_LIMIT_S, "T") is not None
    assert [found.is_hung for found in program.told] == [True]


def test_a_real_process_is_seen_to_run_to_sleep_and_to_be_stopped() -> None:
    slot = SharedPage(1).slots[0]
    slot.beat()
    code = "import time\nwhile time.process_time() < 0.5: pass\nprint('asleep', flush=True)\ntime.sleep(1e6)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        wait_until(lambda: look_at(process.pid, slot).state == "S", PATIENCE_S, "sleep")
        assert look_at(process.pid, slot).ran_s >= 0.4
        assert look_at(process.pid, slot).beats == 1
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: look_at(process.pid, None) == replace(look_at(process.pid, None), beats=None, state="T"),
                   PATIENCE_S, "the stop")  # fmt: skip
    finally:
        process.kill()
        process.communicate()
    assert look_at(process.pid, slot).state == UNKNOWN
