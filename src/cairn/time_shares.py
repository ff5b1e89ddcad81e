"""Shares of an event loop's time: clients take turns in short slices, and each is charged for the time that it used.

Work is measured, not counted. Whoever has used least goes first, so a client that asks for a thousand things waits for
itself, and nobody waits for it. What nobody else wants goes to whoever wants it.

The loop is given back after each round of a few milliseconds. Sockets are read and written in between.
"""

import asyncio
import heapq
import math
import time
import types
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Iterator
from contextvars import Context
from functools import partial
from typing import Any, Literal, TypeVar

SLICE_S = 0.001
"""How long a handler of a long answer works before it gives way."""
ROUND_S = 0.0015
"""Work of each queue in one round, that is between two looks at the sockets."""
FREE_STEP_S = 0.0001
"""So much of each answer that begins at once costs nothing of a round: queueing what is so short would cost more."""
INTAKE_ROUND_S = 0.0005
FREE_INTAKE_S = 0.000025
"""The same for what is parsed. Most takes no longer, and a new connection waits for several rounds: until it is
accepted, until it is made, and until what it asks is parsed.
"""
LONGEST_STEP_S = 0.005
"""The most that a client is charged for one step. No work here takes longer, so the rest was a pause of the machine."""
MAX_ACCOUNTS = 10_000
"""Clients of a queue whose use is remembered."""

Job = Callable[[], object]
QueueName = Literal["intake", "submissions", "reads"]
"""Each queue has its own part of a round, so none waits for another. In `intake` is what clients send: it is parsed."""

_T = TypeVar("_T")


async def in_slices(items: Iterable[_T]) -> AsyncIterator[_T]:
    """The items, one by one. After each slice of time, including the caller's work on them, others have a turn."""
    clock = time.perf_counter
    ends_at = clock() + SLICE_S
    for item in items:
        yield item
        if clock() > ends_at:
            await give_way()
            ends_at = clock() + SLICE_S


def one_slice(items: Iterable[_T]) -> Iterator[_T]:
    """Some of the items: for a slice of time, which includes the caller's work on them, from when it has the first one.

    So there are always two, if there are as many, however long it takes to find the first.
    """
    clock = time.perf_counter
    ends_at = math.inf
    for item in items:
        yield item
        now = clock()
        if now > ends_at:
            return
        ends_at = min(ends_at, now + SLICE_S)


async def give_way() -> None:
    """End this step: others have their turn before the caller goes on."""
    await asyncio.sleep(0)


def never() -> bool:
    return False


class TimeShares:
    """One per event loop. Work takes its turns in `run` or `call`; the shortest may use `begin` and `end`."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._queues: dict[QueueName, _Queue] = {
            "intake": _Queue(INTAKE_ROUND_S, FREE_INTAKE_S), "submissions": _Queue(), "reads": _Queue()
        }  # fmt: skip
        self._is_round_due = False
        self._turn: QueueName | None = None
        """The queue whose turn it is, while somebody has one."""
        self._slice_ends_at = 0.0
        """Of that turn."""
        self._is_in_round = False
        self._charged_s = 0.0
        """So much of the turn is charged for in other queues."""
        self._inner_turns = 0
        """Begun within that turn, and not ended."""

    def call(self, client: str, job: Job, queue: QueueName = "reads") -> None:
        """Run the job when it is the client's turn; never before this returns."""
        if self._is_in_round:
            # In the next round: the loop does what else it has to do in between.
            self._queues[queue].put_late(client, job)
        else:
            self._queues[queue].put(client, job)
            self._schedule_round()

    async def run(
        self,
        client: str,
        work: Coroutine[Any, Any, _T],
        queue: QueueName = "reads",
        is_gone: Callable[[], bool] = never,
        used_s: float = 0.0,
    ) -> _T:
        """Await `work`. Each of its steps takes a turn, and `give_way` in it ends a step.

        Once the client `is_gone`, the work is cancelled when it would have its turn. `used_s`: so much of the client's
        time was used before, for what could not wait.
        """
        return await self._steps(client, work, queue, is_gone, used_s)

    def begin(self, client: str, queue: QueueName) -> float | None:
        """Begin work at once; None if it must wait for its turn. `end` follows, with what this returned.

        Within a turn of another queue, the work is charged for in its own.
        """
        now = self.clock()
        if self._turn is not None:
            if now >= self._slice_ends_at:
                return None
            if self._turn == queue:
                return now
        return now if self._queues[queue].may_begin(client) else None

    def end(self, client: str, queue: QueueName, began: float, used_s: float = 0.0) -> float:
        """Returns how long the work took, with `used_s`: what was used before, for what could not wait."""
        took_s = self.clock() - began
        # Of its own turn, the round charges for all.
        if self._turn != queue:
            if self._turn is not None:
                self._charged_s += took_s
            if self._queues[queue].charge_at_once(client, took_s, used_s):
                self._schedule_round()
        return took_s + used_s

    def begin_turn(self, client: str, queue: QueueName) -> float | None:
        """Begin work at once that includes work of other queues, or None. `end_turn` follows."""
        began = self.begin(client, queue)
        if began is not None:
            if self._turn is not None:
                self._inner_turns += 1
            else:
                self._turn, self._slice_ends_at, self._charged_s = queue, began + self._queues[queue].slice_s, 0.0
        return began

    def end_turn(self, client: str, queue: QueueName, began: float) -> None:
        if self._inner_turns:
            self._inner_turns -= 1
        else:
            self._turn = None
            began += self._charged_s
        self.end(client, queue, began)

    def charge(self, client: str, queue: QueueName, used_s: float) -> None:
        """So much of the client's time was used for what could not wait for a turn."""
        if self._turn is None:
            self._queues[queue].charge_at_once(client, 0.0, used_s)

    @property
    def is_slice_over(self) -> bool:
        """Whether whoever has its turn should end it."""
        return self._turn is not None and self.clock() > self._slice_ends_at

    @property
    def waiting(self) -> int:
        """Jobs that wait for their turn."""
        return sum(len(queue) for queue in self._queues.values())

    @property
    def known_clients(self) -> int:
        return sum(queue.known_clients for queue in self._queues.values())

    # Rounds.

    def _schedule_round(self) -> None:
        if not self._is_round_due:
            self._is_round_due = True
            asyncio.get_running_loop().call_soon(self._run_round)

    def _run_round(self) -> None:
        self._is_round_due = False
        self._is_in_round = True
        for name, queue in self._queues.items():
            now = self.clock()
            ends_at = now + queue.left_of_round()
            while now < ends_at and queue.has_next():
                now = self._serve(name, queue, now)
        self._is_in_round = False
        # Each of them, and only now: a job of one queue may have put one into the other.
        waiting = [queue.end_round() for queue in self._queues.values()]
        if any(waiting):
            self._schedule_round()

    def _serve(self, name: QueueName, queue: "_Queue", began: float) -> float:
        """Give the next client its turn. Returns the time after it."""
        client, job = queue.pop()
        self._turn, self._slice_ends_at, self._charged_s = name, began + queue.slice_s, 0.0
        try:
            job()
        except Exception as failure:
            asyncio.get_running_loop().call_exception_handler({"message": "a job failed", "exception": failure})
        finally:
            self._turn = None
            now = self.clock()
            queue.charge(client, now - began - self._charged_s)
        return now

    @types.coroutine
    def _steps(
        self, client: str, work: Coroutine[Any, Any, _T], queue: QueueName, is_gone: Callable[[], bool], used_s: float
    ) -> Generator[Any, None, _T]:
        """Pass on what `work` waits for, and take a turn before each of its steps."""
        raised: BaseException | None = None
        gives_way = False
        while True:
            try:
                began = None if gives_way else self.begin(client, queue)
                if began is None:
                    turn = _Turn()
                    self.call(client, turn.begin, queue)
                    yield turn
                    began = self.clock()
            except BaseException as interrupt:
                raised, began = interrupt, self.clock()
            if raised is None and is_gone():
                raised = asyncio.CancelledError("the client has gone")
            try:
                awaited = work.send(None) if raised is None else work.throw(raised)
            except StopIteration as returned:
                result: _T = returned.value
                return result
            finally:
                # Or this frame and the exception that passes it would keep each other, and all that `work` held.
                raised = None
                self.end(client, queue, began, used_s)
                used_s = 0.0
            gives_way = awaited is None
            if not gives_way:
                try:
                    yield awaited
                except BaseException as interrupt:
                    raised = interrupt
                # For the same reason: a future keeps the exception that it raises here.
                awaited = None


def _do_nothing() -> None:
    pass


class _Turn:
    """What a task awaits until it is its client's turn. The task's step then runs within `begin`, and is measured."""

    # What a task asks of a future.
    _asyncio_future_blocking = True

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._resume: Job = _do_nothing

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, callback: "Callable[[_Turn], object]", *, context: Context) -> None:
        self._resume = partial(context.run, callback, self)

    def cancel(self, msg: object = None) -> bool:
        """Not before its turn: only then may the task clean up."""
        return False

    def result(self) -> None:
        return None

    def begin(self) -> None:
        # Once, and then nothing of the task is kept.
        resume, self._resume = self._resume, _do_nothing
        resume()


class _Queue:
    """Waiting work by client, in the order of fair queueing by virtual time.

    Each client has an account of the time that it used, and the one with the least is next. Virtual time is what that
    one has used. Who comes new, or comes back, begins there: nobody saves up for later.

    For example, A has used 30 ms and B 10 ms, and both wait: B has slices of 1 ms until it has used more than A, then
    they take turns. C, who comes when both are at 31 ms, begins at 31 ms, too.
    """

    def __init__(self, round_s: float = ROUND_S, free_step_s: float = FREE_STEP_S) -> None:
        self._round_s = round_s
        self._free_step_s = free_step_s
        self.slice_s = min(SLICE_S, round_s)
        self._used_s: dict[str, float] = {}
        """In virtual time, by client."""
        self._now_s = 0.0
        self._waiting: dict[str, deque[Job]] = {}
        self._order: list[tuple[float, int, str]] = []
        """A heap of the waiting clients: what each has used, and the number of its arrival."""
        self._arrivals = 0
        self._late: list[tuple[str, Job]] = []
        self._least_late_s = math.inf
        """What a client has used at least that waits for the next round."""
        self._spare_s = round_s
        """How long work may still begin at once before the loop is given back."""

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values())) + len(self._late)

    @property
    def known_clients(self) -> int:
        return len(self._used_s)

    def put(self, client: str, job: Job) -> None:
        waiting = self._waiting.get(client)
        if waiting is not None:
            waiting.append(job)
        else:
            self._waiting[client] = deque((job,))
            self._push(client)

    def _push(self, client: str) -> None:
        self._arrivals += 1
        heapq.heappush(self._order, (self._use_of(client), self._arrivals, client))

    def put_late(self, client: str, job: Job) -> None:
        """Put it into the next round."""
        self._late.append((client, job))

    def has_next(self) -> bool:
        """Whether somebody has its turn in this round: nobody before one that has used less and waits for the next."""
        return bool(self._order) and self._order[0][0] <= self._least_late_s

    def end_round(self) -> bool:
        """Whether somebody waits for another."""
        late, self._late, self._least_late_s = self._late, [], math.inf
        for client, job in late:
            self.put(client, job)
        return bool(self._waiting)

    def pop(self) -> tuple[str, Job]:
        """The client that has used least, and its oldest job. `charge` follows."""
        used_s, _, client = heapq.heappop(self._order)
        self._now_s = max(self._now_s, used_s)
        return client, self._waiting[client].popleft()

    def charge(self, client: str, took_s: float) -> None:
        """The client's job is done. If it has more, it waits for its next turn."""
        # The thread's processor time would not tell a pause: what the host takes away counts as the thread's.
        self._add(client, min(took_s, LONGEST_STEP_S))
        if self._late and self._late[-1][0] == client:
            self._least_late_s = min(self._least_late_s, self._used_s[client])
        if self._waiting[client]:
            self._push(client)
        else:
            del self._waiting[client]

    def may_begin(self, client: str) -> bool:
        """Whether work may begin without a turn: nobody else waits for one, and a round's time is not used up."""
        waiting = self._waiting
        return self._spare_s > 0 and (not waiting or (len(waiting) == 1 and client in waiting))

    def left_of_round(self) -> float:
        """What the work that began at once has left of the round. More may begin at once from now on."""
        # Not by the clock: a step may be long because another process had the processor.
        left_s, self._spare_s = self._spare_s, self._round_s
        return left_s

    def charge_at_once(self, client: str, took_s: float, besides_s: float = 0.0) -> bool:
        """Charge for work that began at once, and `besides_s` for what could not have waited.

        Returns whether a round must follow, in which the loop is given back: nothing more begins at once before.
        """
        is_round_over = False
        if took_s > self._free_step_s and self._spare_s > 0:
            self._spare_s -= took_s - self._free_step_s
            is_round_over = self._spare_s <= 0
        took_s += besides_s
        if took_s > LONGEST_STEP_S:
            took_s = LONGEST_STEP_S
        used_s = self._used_s.get(client)
        if used_s is None or used_s < self._now_s:
            self._add(client, took_s)
            return is_round_over
        if not self._waiting:
            # The client is alone: whoever comes next begins where it is now.
            self._now_s = used_s
        self._used_s[client] = used_s + took_s
        return is_round_over

    def _use_of(self, client: str) -> float:
        """Nobody is credited with time in which it asked for nothing."""
        return max(self._used_s.get(client, 0.0), self._now_s)

    def _add(self, client: str, took_s: float) -> None:
        if client not in self._used_s and len(self._used_s) >= MAX_ACCOUNTS:
            self._forget_rested()
        self._used_s[client] = self._use_of(client) + took_s

    def _forget_rested(self) -> None:
        """Forget those that are not ahead of the others; if all are, all: then each begins like the others."""
        self._used_s = {client: used_s for client, used_s in self._used_s.items() if used_s > self._now_s}
        if len(self._used_s) >= MAX_ACCOUNTS:
            self._used_s.clear()
