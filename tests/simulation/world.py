"""What happens to nodes in one process, step by step. One seed decides everything.

A step draws from its own source of chance, made from the seed and its number: without some of the steps, the others
still do what they did. That is what makes a failing run small.
"""

import asyncio
import contextlib
import gc
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from cairn.domain.errors import Fatal, NodeError
from cairn.store.chain import ChainStore
from tests.simulation.clients import Clients
from tests.simulation.comet import Down
from tests.simulation.damage import Damage
from tests.simulation.disk import Crash, FaultKind, Machines, aside
from tests.simulation.follower import Worker
from tests.simulation.invariants import Invariants
from tests.simulation.ledger import Ledger
from tests.simulation.machinery import Clock
from tests.simulation.node import Node, Violation
from tests.simulation.setup import Setup, Tally
from tests.simulation.threads import Turns
from tests.support.audit import audit

MORE_SHARE = 0.15
STARTS = 3
"""How often a damaged node is started."""
REST_S = 30.0
"""Of virtual time: enough for a core to open its store anew and for everything to be sent again."""
LAST_ROUNDS = 400
LONGEST_S = 8 * 3_600.0
"""Of virtual time: who still waits then, in a step or at the end, waits for what never comes."""

Action = Callable[[random.Random], Awaitable[None]]


class World:
    """What all worlds have in common: machines, clients, workers, faults, and the look at everything after a step."""

    def __init__(
        self, seed: int, root: Path, machines: Machines, clock: Clock, setup: Setup, without: frozenset[str]
    ) -> None:
        self._seed = seed
        self._clock = clock
        self.setup = setup
        self.tally = Tally()
        self.ledger = Ledger(setup.rules, setup.state)
        self.violations: list[Violation] = []
        self.trace: Callable[[str], None] | None = None
        self.nodes = [
            Node(number, machines.add(root / str(number)), setup.genesis, settings)
            for number, settings in enumerate(setup.settings)
        ]
        for node in self.nodes:
            node.disk.rng = random.Random(f"{seed}/disk/{node.number}")
            node.disk.flush_rate = setup.flush_rate
        self.clients = Clients(setup, self.ledger, self.tally)
        self.invariants = Invariants(self.ledger, self.tally)
        self.workers: dict[int, Worker] = {}
        for node in self.nodes:
            node.on_exit = self._exited
            node.on_dropped = self.clients.told_dropped
            if node.number in setup.workers:
                scratch = root / f"worker{node.number}"
                self.workers[node.number] = Worker(node, scratch, self.invariants, self.clients, self.violations)
        self._without = without

    def table(self) -> dict[str, tuple[Action, float]]:
        """What may happen, and how often."""
        faults = self.setup.fault_rate
        return {
            "submit": (self._submit, 30),
            "wait": (self._wait, 6),
            "probe": (self._probe, 1),
            "follow": (self._follow, 3 if self.workers else 0),
            "kill": (self._kill, 0.7 * faults),
            "power": (self._power, 0.7 * faults),
            "fault": (self._fault, 2 * faults),
            "full": (self._full, 0.4 * faults),
            "restart": (self._restart, 0.7 * faults),
            "outage": (self._outage, 0.3),
            "damage": (self._damage, 0.3 * faults),
            "audit": (self._audit, 0.5),
        }

    def more(self) -> dict[str, tuple[Action, float]]:
        """What may happen in some steps, with its weight."""
        faults = self.setup.fault_rate
        return {
            "twice": (self._submit_twice, 2),
            "tell": (self._crash_at_telling, 2 * faults),
            "read": (self._read_fault, 2 * faults),
            "opening": (self._crash_while_opening, 2 * faults),
            "worker": (self._end_worker, 2 if self.workers else 0),
            "link": (self._break_link, 2 if self.workers else 0),
            "keep": (self._keep_copy, 1.5 * faults),
            "back": (self._roll_back, 1.5 * faults),
        }

    # Where worlds differ.

    def buried(self, node: Node) -> None:
        """Its process is gone."""

    def give_turns(self) -> None:
        """After that: let threads go on, where no step does."""

    def move_on(self) -> None:
        """Before everything is looked at: let the model come to where the nodes are."""

    def unfinished(self) -> list[str]:
        """What is still to come, once all faults have ended."""
        found = [f"{node.name} does not come back" for node in self.nodes if not node.is_ready]
        for promise in self.clients.promises.values():
            if self.clients.minable(promise):
                found.append(f"{promise.node.name} never gets 0x{promise.tx.hash[:6].hex()} into a block")
        return found + [waits_for for worker in self.workers.values() if (waits_for := worker.waits_for())]

    async def carry_on(self, rng: random.Random) -> None:
        """One step towards that."""

    async def last_look(self) -> None:
        """Once everything is as promised."""

    def describe(self, node: Node) -> str:
        core = node.core
        state = "down" if core is None else f"{core.head}/{len(core._pool.order.entries)}"
        phase = "" if node.process is None else node.process._phase
        return f"{state} {phase} op {node.disk.ops}"

    # The run.

    async def run(self, steps: Sequence[int]) -> None:
        """Take the steps, and check the promises after each. Raises `Violation`."""
        asyncio.get_running_loop().set_exception_handler(self._callback_failed)
        table = [(name, *entry) for name, entry in self.table().items() if name not in self._without]
        weights = [weight for _, _, weight in table]
        more = [(name, *entry) for name, entry in self.more().items() if name not in self._without and entry[1]]
        for node in self.nodes:
            node.start()
        await asyncio.sleep(1.0)
        for step in steps:
            rng = random.Random(f"{self._seed}/{step}")
            name, action, _ = rng.choices(table, weights)[0]
            # Drawn aside: the other steps of a seed stay what they were before there were these.
            aside_rng = random.Random(f"{self._seed}/{step}/more")
            if more and aside_rng.random() < MORE_SHARE:
                name, action, _ = aside_rng.choices(more, [weight for _, _, weight in more])[0]
            self.tally.steps[name] += 1
            self._tell(f"step {step:4} {name:9}")
            await self._in_time(f"step {step}, {name}", self._step(action, rng))
        await self._in_time("the end", self._end())
        # A failure that nobody asked for is told when it is collected: now, not in the run of another seed.
        gc.collect()
        self._raise_found()

    async def _step(self, action: Action, rng: random.Random) -> None:
        await self.guarded(action(rng))
        await asyncio.sleep(rng.choice((0, 0.01, 0.1, 0.5)))
        await self._settle(rng)

    async def _in_time(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        """A wait without end would never be seen: as long as nodes look at their clocks, time goes on."""
        task = asyncio.get_running_loop().create_task(work)
        ended, _ = await asyncio.wait([task], timeout=LONGEST_S)
        if not ended:
            raise Violation("hang", f"{what}: nobody goes on in {' < '.join(_waits_in(task))}")
        task.result()

    def _tell(self, what: str) -> None:
        if self.trace is not None:
            nodes = " | ".join(map(self.describe, self.nodes))
            self.trace(f"{self._clock.monotonic():9.2f} {what} | {nodes}")

    async def guarded(self, action: Awaitable[None]) -> None:
        """Who is asked may be gone before it answers."""
        with contextlib.suppress(Down, Crash):
            await action

    async def _settle(self, rng: random.Random) -> None:
        """Take the dead away, start what must run, and look at everything."""
        for node in self.nodes:
            if node.disk.is_dead:
                await self.raise_again(node, rng.random() < 0.7)
            elif not node.is_up and rng.random() < 0.3:
                node.start()
        self._raise_found()
        with aside():
            self.move_on()
            for node in self.nodes:
                self.invariants.check(node, random.Random(rng.random()))
                self.clients.check(node)
        self._raise_found()
        self.give_turns()

    async def raise_again(self, node: Node, starts: bool = True) -> None:
        """Take the dead away, and give the machine its power back."""
        node.bury()
        self.buried(node)
        await asyncio.sleep(0)
        node.disk.revive()
        if starts:
            node.start()

    def _raise_found(self) -> None:
        for thread in Turns.started:
            if thread.failure is not None:
                raise Violation("thread", repr(thread.failure))
        if self.violations:
            raise self.violations[0]

    def _callback_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        if isinstance(failure, Violation):
            self.violations.append(failure)
        elif isinstance(failure, Exception) and not isinstance(failure, Down):
            self.violations.append(Violation("callback", f"{context.get('message')}: {failure!r}"))

    def _exited(self, node: Node, failure: BaseException | None) -> None:
        if failure is None:
            return
        if not isinstance(failure, Fatal):
            self.violations.append(Violation("exit", f"{node.name} ends with {failure!r}"))
        elif node.damage:
            self.tally.count("damaged files refused")
        else:
            self.violations.append(Violation("exit", f"{node.name} stops for good: {failure!r}"))

    async def _end(self) -> None:
        """All faults end; then everything that was promised must come true."""
        rng = random.Random(f"{self._seed}/end")
        for node in self.nodes:
            node.disk.heal()
            node.disk.is_full = False
            if not node.is_up:
                node.start()
        for worker in self.workers.values():
            worker.resume()
        await asyncio.sleep(REST_S)
        rounds = 0
        while unfinished := self.unfinished():
            rounds += 1
            if rounds > LAST_ROUNDS:
                raise Violation("stuck", "; ".join(unfinished))
            await self._settle(rng)
            await self.carry_on(rng)
            await asyncio.sleep(1.0)
        for thread in list(Turns.started):
            while not thread.is_idle and not thread.is_done:
                thread.step()
        self._tell("the end")
        await self._settle(rng)
        await self.last_look()
        for node in self.nodes:
            self._audit_node(node)
        for node in self.nodes:
            await node.stop()
        self._raise_found()

    # Clients and operators.

    async def _submit(self, rng: random.Random) -> None:
        for _ in range(rng.choice((1, 1, 2, 5, 12))):
            self.clients.submit(rng.choice(self.nodes), self.clients.draw_tx(rng))

    async def _submit_twice(self, rng: random.Random) -> None:
        """Who was not answered yet sends it again."""
        node, tx = rng.choice(self.nodes), self.clients.draw_tx(rng)
        if rng.random() < 0.5:
            node.disk.arm(rng.choice((1, 2, 3)), rng.choice(("kill", "power", "sync", "write")), rng.getrandbits(32))
        for _ in range(rng.choice((2, 3))):
            self.clients.submit(node, tx)

    async def _wait(self, rng: random.Random) -> None:
        await asyncio.sleep(rng.choice((1.0, 4.0, 25.0)))

    async def _follow(self, rng: random.Random) -> None:
        rng.choice(list(self.workers.values())).act(rng)

    async def _outage(self, rng: random.Random) -> None:
        """Hours pass, or the clock is set: nothing that can be mined may be lost by that."""
        if rng.random() < 0.5:
            self._clock.step_s += rng.choice((-7_200, 14_400, 10**6))
        else:
            await asyncio.sleep(14_400)

    async def _probe(self, rng: random.Random) -> None:
        process = rng.choice(self.nodes).process
        if process is not None:
            await process.check()

    async def _audit(self, rng: random.Random) -> None:
        self._audit_node(rng.choice(self.nodes))

    def _audit_node(self, node: Node) -> None:
        core = node.core
        if core is None or core.failed.done():
            return
        try:
            with aside():
                audit(core._chain)
        except Fatal as failure:
            raise Violation("audit", f"{node.name}: {failure.detail}") from failure

    # Faults.

    async def _kill(self, rng: random.Random) -> None:
        node = rng.choice(self.nodes)
        if node.is_up:
            node.disk.crash(power=False, seed=rng.getrandbits(32))

    async def _power(self, rng: random.Random) -> None:
        node = rng.choice(self.nodes)
        if node.is_up:
            node.forget_supervisor()
            node.disk.crash(power=True, seed=rng.getrandbits(32))

    async def _fault(self, rng: random.Random) -> None:
        """Something goes wrong at one of the next writes."""
        node = rng.choice(self.nodes)
        kinds: tuple[FaultKind, ...] = ("kill", "power", "power", "write", "short", "sync", "sync", "refuse")
        node.disk.arm(rng.choice((1, 2, 3, 5, 10, 30)), rng.choice(kinds), rng.getrandbits(32))

    async def _crash_at_telling(self, rng: random.Random) -> None:
        """The power fails at the moment at which a worker is told something: it must be so, for ever."""
        rng.choice(self.nodes).crash_at_telling(rng.choice((1, 2, 5, 20)), rng.getrandbits(32))

    async def _read_fault(self, rng: random.Random) -> None:
        rng.choice(self.nodes).disk.arm(rng.choice((1, 3, 10, 100)), "read", 0)

    async def _crash_while_opening(self, rng: random.Random) -> None:
        """Again and again, each time a little later or earlier."""
        node = rng.choice(self.nodes)
        for _ in range(rng.choice((1, 1, 3))):
            await node.stop()
            if node.disk.is_dead:
                return
            node.disk.arm(rng.randint(1, 40), rng.choice(("kill", "power", "power")), rng.getrandbits(32))
            node.start()
            await asyncio.sleep(0.5)
            if node.has_died():
                node.forget_supervisor()
                await self.raise_again(node)

    async def _end_worker(self, rng: random.Random) -> None:
        rng.choice(list(self.workers.values())).die()

    async def _break_link(self, rng: random.Random) -> None:
        rng.choice(list(self.workers.values())).lose_link()

    async def _keep_copy(self, rng: random.Random) -> None:
        node = rng.choice(self.nodes)
        if node.is_ready:
            node.disk.keep_copy()
            node.kept_told, node.kept_promises = node.told, self.clients.promises_of(node)
            self.kept_copy(node)
            self.tally.count("copies of a disk kept")

    async def _roll_back(self, rng: random.Random) -> None:
        """An older copy of the disk is put in its place: a node that has seen more must notice."""
        node = rng.choice(self.nodes)
        seen = node.seen.last()
        # A supervisor that was just started, and has seen no chain yet, cannot know better.
        if not node.disk.has_copy or seen is None or seen.height <= node.kept_told or not node.is_up:
            return
        await node.stop()
        if node.disk.is_dead:
            return
        node.disk.heal()
        node.disk.is_full = False
        before = node.disk.put(None)
        if self.may_go_on_from_copy(node) and rng.random() < 0.5:
            self.tally.count("nodes that went on from an older copy")
            self.forget(node)
            node.told = node.kept_told
            self.clients.go_back(node, node.kept_told, node.kept_promises)
            node.start()
            return
        self.tally.count("older copies refused")
        node.start()
        await asyncio.sleep(3.0)
        if node.is_ready:
            raise Violation("rollback", f"{node.name} goes on from block {node.kept_told}, and has had {node.told}")
        await node.stop()
        if not node.disk.is_dead:
            node.disk.put(before)
            node.start()

    def kept_copy(self, node: Node) -> None:
        """The copy of its disk was made."""

    def may_go_on_from_copy(self, node: Node) -> bool:
        """Whether a node that has forgotten what it had seen gets the rest from others."""
        return False

    def forget(self, node: Node) -> None:
        """It is set up again, on another disk: nobody is held to what was before."""
        node.forget_supervisor()
        node.told = -1
        node.epoch += 1
        node.told_drops.clear()
        if node.number in self.workers:
            self.workers[node.number].begin_anew()
        self.clients.forget(node)
        self.invariants.forget(node)

    async def _full(self, rng: random.Random) -> None:
        disk = rng.choice(self.nodes).disk
        disk.is_full = not disk.is_full

    async def _restart(self, rng: random.Random) -> None:
        node = rng.choice(self.nodes)
        if node.is_up and not node.disk.is_full:
            await node.stop()
            if rng.random() < 0.5:
                node.forget_supervisor()

    async def _damage(self, rng: random.Random) -> None:
        """Files are lost, torn or rotten: the node must say so, change nothing, and go on when they are whole again."""
        node = rng.choice(self.nodes)
        await node.stop()
        if node.disk.is_dead or not (node.disk.path / "watermark").exists():
            return
        node.disk.heal()
        node.disk.is_full = False
        with aside():
            damage = Damage(node.disk, rng)
            if damage.is_rot:
                self._look_at_rot(node, damage.what)
        if not damage.is_rot:
            await self._refuse_starts(node, damage)
        with aside():
            damage.undo()
            node.disk.trust_logs(node.disk.path / "chain")
        node.start()

    async def _refuse_starts(self, node: Node, damage: Damage) -> None:
        node.damage = damage.what
        node.forget_supervisor()
        for _ in range(STARTS):
            node.start()
            await asyncio.sleep(3.0)
            if node.is_ready:
                raise Violation("damage", f"{node.name} starts with {damage.what}")
            await node.stop()
        node.damage = ""
        with aside():
            changed = damage.changed()
        if changed:
            raise Violation("damage", f"{node.name} refuses to start with {damage.what}, and changes {changed[0]}")

    def _look_at_rot(self, node: Node, what: str) -> None:
        """Opened by itself: what a node went on to write would be lost when the damage is undone."""
        try:
            chain = ChainStore.open(node.disk.path, node.genesis)
        except NodeError:
            self.tally.count("damaged files refused")
            return
        try:
            if chain.visible < node.told:
                raise Violation("damage", f"{node.name} opens {what}, and has lost block {node.told}")
            audit(chain)
            self.tally.count("damaged files without harm")
        except NodeError:
            self.tally.count("damaged files refused when they were read")
        finally:
            chain.close()


def _waits_in(task: "asyncio.Task[None]") -> list[str]:
    """The functions that wait for each other, the innermost first."""
    names = []
    work: Any = task.get_coro()
    while (frame := getattr(work, "cr_frame", None)) is not None:
        names.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        work = work.cr_await
    return names[::-1]
