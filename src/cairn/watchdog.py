"""When a process hangs: the rule, without a clock or a process of its own.

A process beats while its event loop turns (`cairn.heartbeat`). One that does not beat may hang, or may wait for what it
has no power over: a processor, a disk. So time without a beat is counted by what the system says of the process then:

- stopped (SIGSTOP): all of it;
- asleep: all of it, since a process that could run would beat;
- running, or waiting for a processor: the time that it has run, so that a busy machine ends nobody;
- in the kernel, mostly waiting for a disk: none of it, and to kill it then would not end it;
- held by a debugger: none of it.

The supervisor's clock does not count time in which it did not look: then the whole machine may have stood still.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from cairn.heartbeat import Slot, Work

HANG_LIMIT_S = 10.0
"""Counted time after which a process hangs. With its detection and the start of the next, 15 s are promised."""
LOOK_S = 0.5
LONG_WORK_LIMIT_S = 300.0
"""The limit for work that takes as long as the disk takes, or as there is data."""
TOLD_AFTER_S = 10.0
"""Long work, or a wait for the disk, is told of after this time, and then each time that it has doubled."""
LARGEST_PATIENCE = 32
"""A process that was replaced gets twice the time, up to this many times: what only takes long is finished at last."""
STEADY_AFTER_S = 120.0
"""One that has beaten for so long gets the usual time again."""
UNKNOWN_SHARE = 0.25
"""The share that counts of time in an unknown state; some systems tell nobody what a process does."""
BUSY_SHARE = 0.05
"""A thread that has run for this share of its silence is busy, not counting when it waited for a processor. One that
waits for Python's lock wakes 200 times a second to look for it, which takes less."""

STOPPED, TRACED, WAITING, RUNNING, ASLEEP, UNKNOWN = "T", "t", "D", "R", "S", "?"
_DESCRIBED = {STOPPED: "stopped", TRACED: "held by a debugger", WAITING: "waiting for the disk"}


@dataclass(frozen=True, slots=True)
class Look:
    """What is seen of a process at one moment."""

    beats: int | None
    """None for a program that does not beat: it counts as alive unless it is stopped."""
    work: Work
    state: str
    """A letter of /proc/PID/stat, of the thread that runs the event loop."""
    ran_s: float
    """For how long that thread has run so far."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A process that has not beaten for `silent_s`."""

    is_hung: bool
    """Whether it is to be ended. If not, it waits for something else, and only that is said."""
    silent_s: float
    ran_s: float
    """For how long its thread has run meanwhile."""
    waited_s: float
    """For how long it would have run, but others had the processors."""
    state: str
    work: Work

    @property
    def described(self) -> str:
        # Not by whether it runs at this moment: that is chance.
        is_busy = self.ran_s >= BUSY_SHARE * (self.silent_s - self.waited_s)
        state = _DESCRIBED.get(self.state, "busy" if is_busy else "blocked")
        return state if self.work is Work.RUNNING else f"{state} while {self.work.described}"


class ProcessWatch:
    """One process, from its start to its end."""

    def __init__(self, now: float, first: Look, patience: int = 1) -> None:
        """`patience` is by how much the limits are longer, after earlier lives that hung."""
        self._began = now
        self._patience = patience
        self._last = first
        self._looked_at = now
        self._forget(now)

    def _forget(self, now: float) -> None:
        self._beat_at = now
        self._silent_s = self._ran_s = self._waited_s = 0.0
        self._stopped_s = self._stalled_s = self._long_work_s = 0.0
        self._tell_after_s = TOLD_AFTER_S

    @property
    def silent_s(self) -> float:
        """For how long it has not beaten, as of the last look."""
        return self._silent_s

    @property
    def last(self) -> Look:
        return self._last

    def next_patience(self) -> int:
        """That of the next life, if this one is ended because it hangs."""
        if self._stopped_s >= HANG_LIMIT_S or self._beat_at - self._began >= STEADY_AFTER_S:
            return 1
        return min(2 * self._patience, LARGEST_PATIENCE)

    def take(self, now: float, look: Look) -> Finding | None:
        """Count the time since the last look. Returns a finding if the process hangs, or has waited for long."""
        passed_s, ran_s = now - self._looked_at, look.ran_s - self._last.ran_s
        has_beaten = look.state != STOPPED if look.beats is None else look.beats != self._last.beats
        self._looked_at, self._last = now, look
        if has_beaten:
            self._forget(now)
            return None
        self._count(look, passed_s, ran_s)
        self._silent_s += passed_s
        self._ran_s += ran_s
        if self._is_hung():
            return self._found(True, look)
        waits = look.state in (WAITING, TRACED) or (look.work.may_take_long and look.work is not Work.STARTING)
        if waits and self._silent_s >= self._tell_after_s:
            self._tell_after_s = 2 * self._silent_s
            return self._found(False, look)
        return None

    def _found(self, is_hung: bool, look: Look) -> Finding:
        return Finding(is_hung, self._silent_s, self._ran_s, self._waited_s, look.state, look.work)

    def _count(self, look: Look, passed_s: float, ran_s: float) -> None:
        if look.state == STOPPED:
            self._stopped_s += passed_s
        elif look.state in (WAITING, TRACED):
            return
        else:
            if look.state == RUNNING:
                self._waited_s += max(0.0, passed_s - ran_s)
                passed_s = min(passed_s, ran_s)
            elif look.state == UNKNOWN:
                passed_s *= UNKNOWN_SHARE
            if look.work.may_take_long:
                self._long_work_s += passed_s
            else:
                self._stalled_s += passed_s

    def _is_hung(self) -> bool:
        return (
            # Whoever is stopped does nothing, so that no patience helps.
            self._stopped_s >= HANG_LIMIT_S
            or self._stalled_s >= HANG_LIMIT_S * self._patience
            or self._long_work_s >= LONG_WORK_LIMIT_S * self._patience
        )


_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def look_at(pid: int, slot: Slot | None) -> Look:
    """Look at a process now; `slot` is where it beats, if it does."""
    state, ran_s = _main_thread(pid)
    return Look(None, Work.RUNNING, state, ran_s) if slot is None else Look(slot.beats, slot.shown, state, ran_s)


def _main_thread(pid: int) -> tuple[str, float]:
    try:
        fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        return fields[0], (int(fields[11]) + int(fields[12])) * _TICK_S
    except (OSError, IndexError, ValueError):
        return UNKNOWN, 0.0
