"""Answers of hot routes that are written together, at the end of a turn of the event loop.

A processor that counts and sends answers one after another still has the code and the data for it in its caches;
between two requests it has not. So under load, what is asked for or ends in the same turn is served first, and then all
the answers are counted and written. Where few come together, the call at the end of the turn costs more than that
saves, and each answer is written at once. How many submissions come together, the core's answer tells. How many reads
do, a trial finds out.
"""

import asyncio
import math
from typing import Any

from cairn.metrics import FAST, FAST_S, RouteTraffic

FEW = 3
"""So many submissions are answered one by one."""
BUSY_GROUPS = 8
BUSY_S = 0.25
"""If so many groups of reads take less, 2,000 reads a second, it is tried, but not again within `TRIAL_EVERY_S`."""
TRIAL_EVERY_S = 1.0
TRIAL_TURNS = 128
PAYING = 8
"""With so many answers in a turn, on average, it pays."""
PAID_TURNS = 2_048
"""Once it has paid, so many are looked at: clients may be slow for a moment."""
MOST = 64
"""More do not wait for the end of the turn."""
MAX_GATHERED_BYTES = 16 * 1024
"""A longer answer is written at once, since its client may have to be waited for."""


class GatheredAnswers:
    """One per worker.

    An answer that is in it is neither counted nor written yet. So a connection that has one there first writes all of
    them before it writes anything else, or ends.
    """

    def __init__(self) -> None:
        self.pays = False
        """To gather reads, as far as is known."""
        self.ends_due = 0
        """Calls at the end of this turn. While one is due, to put an answer here costs none."""
        self.batch = 0
        """Which answers are gathered now: those that were written before are of another batch."""
        self._answers: list[Any] = []
        """Of each: what it is written to, its bytes, where it is counted, and how long it took, or `FAST`. The list is
        flat, so that a slice has one of these for all answers."""
        self._is_tried = False
        """This turn is one of the trial."""
        self._turns = self._written = 0
        """Of the trial."""
        self._trial_turns = TRIAL_TURNS
        self._groups = 0
        """Of reads that were answered one by one, since `_began_at`."""
        self._began_at = 0.0
        self._tried_at = -math.inf

    def end_group(self, now: float) -> None:
        """`GROUP` reads of a route were answered one by one: under load it is tried again."""
        self._groups += 1
        if self._groups < BUSY_GROUPS:
            return
        # A clock that stands still tells nothing.
        if 0 < now - self._began_at < BUSY_S and now - self._tried_at >= TRIAL_EVERY_S:
            self.pays, self._tried_at = True, now
        self._groups, self._began_at = 0, now

    def expect(self, answers: int) -> None:
        """So many submissions were just done: what answers them is called before the end of the turn."""
        if answers > FEW:
            self._await_end()

    def _await_end(self) -> None:
        self.ends_due += 1
        asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self.ends_due -= 1
        self.write()

    def put(self, transport: asyncio.Transport, answer: bytes, traffic: RouteTraffic, took_s: float) -> None:
        """One with 200, which is counted by `traffic`."""
        if not self.ends_due:
            self._is_tried = True
            self._await_end()
        if took_s <= FAST_S:
            # One stands for all: to come back to each of them would cost more than the rest of counting.
            traffic.fast_s, took_s = took_s, FAST
        self._answers += (transport, answer, traffic, took_s)
        if len(self._answers) == 4 * MOST:
            self.write()

    def write(self) -> None:
        """All of them, after all are counted."""
        if not self._answers:
            return
        answers, self._answers = self._answers, []
        self.batch += 1
        self._count_answers(answers[2::4], answers[3::4])
        for transport, answer in zip(answers[::4], answers[1::4], strict=True):
            # uvloop raises on one that it has found closed.
            if not transport.is_closing():
                transport.write(answer)
        if self._is_tried:
            self._is_tried = False
            self._turns += 1
            self._written += len(answers) // 4
            if self._turns == self._trial_turns:
                self.pays = self._written >= PAYING * self._turns
                self._trial_turns = PAID_TURNS if self.pays else TRIAL_TURNS
                self._turns = self._written = 0

    def _count_answers(self, counted_by: list[RouteTraffic], times_s: list[float]) -> None:
        first = counted_by[0]
        if counted_by.count(first) == len(counted_by):
            first.answered_together(times_s)
            return
        for traffic in set(counted_by):
            traffic.answered_together([each for by, each in zip(counted_by, times_s, strict=True) if by is traffic])
