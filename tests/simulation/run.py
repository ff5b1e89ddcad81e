"""One run of the simulation, and the way to make a failing one small."""

import asyncio
import faulthandler
import hashlib
import os
import random
import shutil
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.comet import AbciServer, Rpc
from tests.simulation.disk import Crash, Machines
from tests.simulation.embedded import EmbeddedWorld
from tests.simulation.machinery import Clock, SimulatedLoop, SmallJournal, simulated_surroundings
from tests.simulation.network import NetworkWorld
from tests.simulation.node import Link, Violation
from tests.simulation.setup import Tally, draw_embedded, draw_network
from tests.simulation.world import LONGEST_S, World
from tests.support.pace import PATIENCE_S
from tests.support.scratch import scratch_parent

STEPS = 150
EMBEDDED_SHARE = 0.25
HANGS_S = 6 * PATIENCE_S
"""Of real time, for a run of seconds."""


@dataclass(frozen=True)
class Result:
    seed: int
    steps: tuple[int, ...]
    failure: str
    """Empty when all went well."""
    kind: str
    seconds: float
    tally: Tally
    virtual_s: float
    digest: str
    """Of all that was told of its steps: the same for the same seed, or the run depends on something else too."""


def simulate(
    seed: int,
    steps: Sequence[int] = range(STEPS),
    without: frozenset[str] = frozenset(),
    trace: Callable[[str], None] | None = None,
) -> Result:
    """Run one seed. Whatever goes wrong is in the result."""
    begun_at = time.perf_counter()
    root = Path(tempfile.mkdtemp(prefix="cairn-simulation-", dir=scratch_parent()))
    failure, kind = "", ""
    tally = Tally()
    digest = hashlib.sha256()
    virtual_s = 0.0

    def tell(line: str) -> None:
        digest.update(line.encode())
        if trace is not None:
            trace(line)

    try:
        machines = Machines()
        with _never_hanging(seed), asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, SimulatedLoop)
            clock = Clock(loop)
            AbciServer.listening.clear()
            passed_by: list[str] = []
            with simulated_surroundings(seed, machines, clock, AbciServer, Rpc, Link, passed_by.append):
                world = _make_world(seed, root, machines, clock, without)
                world.trace = tell
                SmallJournal.segment_bytes = world.setup.journal_segment_bytes
                SmallJournal.max_segments = world.setup.journal_segments
                SmallJournal.opened = 0
                try:
                    runner.run(world.run(steps))
                    if not SmallJournal.opened:
                        raise Violation("disk", "the node opens another journal than the simulated one")
                    if passed_by:
                        raise Violation("disk", f"{passed_by[0]} is changed, but not through its disk")
                except Violation as violation:
                    failure, kind = str(violation), violation.kind
                finally:
                    tally, virtual_s = world.tally, loop.now
                    for disk in machines:
                        tally.met.update(disk.met)
                    _end_all(world, runner)
    except (Exception, Crash) as error:
        failure, kind = failure or "".join(traceback.format_exception(error)), kind or type(error).__name__
    finally:
        shutil.rmtree(root, ignore_errors=True)
    seconds = time.perf_counter() - begun_at
    return Result(seed, tuple(steps), failure, kind, seconds, tally, virtual_s, digest.hexdigest()[:16])


@contextmanager
def _never_hanging(seed: int) -> Generator[None, None, None]:
    """The last resort, where not even virtual time goes on: end this process, with the seed told."""

    def give_up() -> None:
        print(f"seed {seed} fails: it hangs", flush=True)
        faulthandler.dump_traceback()
        os._exit(1)

    timer = threading.Timer(HANGS_S, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _make_world(seed: int, root: Path, machines: Machines, clock: Clock, without: frozenset[str]) -> World:
    rng = random.Random(f"{seed}/setup")
    if rng.random() < EMBEDDED_SHARE:
        return EmbeddedWorld(seed, root, machines, clock, draw_embedded(rng), without)
    return NetworkWorld(seed, root, machines, clock, draw_network(rng), without)


def _end_all(world: World, runner: asyncio.Runner) -> None:
    async def end() -> None:
        for node in world.nodes:
            if node.is_up:
                node.disk.is_dead = True
                node.bury()
        for worker in world.workers.values():
            worker.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=LONGEST_S)

    runner.run(end())


def shrink(found: Result, without: frozenset[str] = frozenset(), seconds: float = 60.0) -> Result:
    """Leave out steps as long as the same kind of failure remains."""
    until = time.monotonic() + seconds
    best = found
    size = max(1, len(best.steps) // 2)
    while True:
        at, removed = 0, False
        while at < len(best.steps):
            if time.monotonic() > until:
                return best
            again = simulate(best.seed, best.steps[:at] + best.steps[at + size :], without)
            if again.kind == found.kind:
                best, removed = again, True
            else:
                at += size
        if size == 1 and not removed:
            return best
        size = max(1, size // 2)
