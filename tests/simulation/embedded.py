"""One node that makes its blocks alone: the model follows the blocks, and holds each of them against the rules.

On a dev chain it is told to make blocks, time and money, and to go back, with faults in the middle of it.
"""

import asyncio
import contextlib
import random
import zipfile
from dataclasses import dataclass
from pathlib import Path

from cairn.domain.errors import InvalidConfig, NodeError
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.types import Address
from cairn.store.chain import ChainStore
from cairn.store.state_file import save_state
from tests.simulation.clients import Promise
from tests.simulation.disk import Machines, aside
from tests.simulation.machinery import Clock
from tests.simulation.node import Node, Violation
from tests.simulation.setup import Setup
from tests.simulation.threads import Turns
from tests.simulation.world import Action, World


@dataclass(frozen=True)
class Kept:
    """What a snapshot must bring back."""

    height: int
    promises: dict[tuple[int, bytes], Promise]


class EmbeddedWorld(World):
    def __init__(
        self, seed: int, root: Path, machines: Machines, clock: Clock, setup: Setup, without: frozenset[str]
    ) -> None:
        super().__init__(seed, root, machines, clock, setup, without)
        self._node = self.nodes[0]
        self._dice = random.Random(f"{seed}/threads")
        self._kept: dict[int, Kept] = {}
        self._reverts = 0
        self._reverting: int | None = None
        """The snapshot that was asked for last: a crash may leave open whether it has become the chain."""
        self._wanted: dict[bytes, set[int]] = {}
        """Balances that were asked for and not seen yet: a crash may leave open whether they were set."""
        self._saved: bytes | None = None
        """The chain as it was saved to a file last."""
        self._node.on_announced = self._announced
        if setup.is_dev:
            self._node.dev_keys = dict(DEV_KEYS)

    def table(self) -> dict[str, tuple[Action, float]]:
        dev = 1.0 if self.setup.is_dev else 0.0
        return super().table() | {
            "mine": (self._mine, 8 * dev),
            "snapshot": (self._snapshot, 2 * dev),
            "revert": (self._revert, 2 * dev),
            "balance": (self._set_balance, 2 * dev),
            "ahead": (self._increase_time, 1 * dev),
        }

    def more(self) -> dict[str, tuple[Action, float]]:
        return super().more() | {"save": (self._save_state, 2.0 if self.setup.is_dev else 0)}

    def _announced(self, node: Node, height: int) -> None:
        """At once: the thread that prunes may take any turn from now on, and the model must have seen the block."""
        try:
            with aside():
                self._take_over_blocks()
        except Violation as violation:
            self.violations.append(violation)

    def give_turns(self) -> None:
        for thread in list(Turns.started):
            for _ in range(self._dice.choice((0, 1, 3, 20))):
                thread.step()

    def move_on(self) -> None:
        self._check_saved()
        self._take_over_blocks()

    def _take_over_blocks(self) -> None:
        core = self._node.core
        if core is None or core.failed.done():
            return
        reverts = core.seen_head().reverts
        if reverts != self._reverts:
            self._take_back(reverts)
        chain = core._chain
        for height in range(self.ledger.height + 1, chain.visible + 1):
            self._take_over(chain, height)

    def _take_over(self, chain: ChainStore, height: int) -> None:
        """Believe a block of the node's only as far as the rules allow it."""
        found = chain.find_header(height)
        if found is None:
            raise Violation("lost", f"{self._node.name} does not have block {height}, below its head")
        hashes = chain.tx_hashes(height)
        by_hash = {transfer.hash: raw for raw, transfer in self.ledger.transfers.items()}
        raws = []
        for start in range(0, len(hashes), 32):
            raw = by_hash.get(hashes[start : start + 32])
            if raw is None:
                raise Violation("model", f"block {height} holds a transfer that nobody has signed")
            raws.append(raw)
        if not raws and self._take_over_balance(chain, height, bytes(found[1].proposer)):
            return
        if not self.ledger.judge(raws):
            raise Violation("model", f"block {height} breaks a rule")
        self.ledger.decide(raws, bytes(self._node.settings.proposer))
        self.tally.count("blocks")
        self.tally.count("transfers confirmed", len(raws))

    def _take_over_balance(self, chain: ChainStore, height: int, proposer: bytes) -> bool:
        """Whether the block sets a balance that was asked for."""
        for address, balances in self._wanted.items():
            balance = chain.account_at(Address(address), height).balance
            if balance in balances and balance != self.ledger.head.account(address)[0]:
                balances.discard(balance)
                self.ledger.set_balance(address, balance, proposer)
                return True
        return False

    # What `cairn dev --state` leaves. The file is on the same disk; whatever happens, it is whole.

    @property
    def _state_path(self) -> Path:
        return self._node.disk.path / "saved" / "chain.state"

    async def _save_state(self, rng: random.Random) -> None:
        node = self._node
        await node.stop()
        if node.disk.is_dead:
            return
        with aside():
            self._state_path.parent.mkdir(exist_ok=True)
        if rng.random() < 0.5:
            node.disk.arm(rng.randint(1, 12), rng.choice(("kill", "power", "write", "sync")), rng.getrandbits(32))
        # Until it is saved, the one before may be found, or the new one.
        self._saved = None
        with contextlib.suppress(InvalidConfig):
            save_state(node.disk.path, node.genesis, self._state_path)
            with aside():
                self._saved = self._state_path.read_bytes() if self._state_path.exists() else None
            self.tally.count("dev chains saved to a file")
        if rng.random() < 0.5:
            node.forget_supervisor()
            node.disk.crash(power=True, seed=rng.getrandbits(32))

    def _check_saved(self) -> None:
        path = self._state_path
        if self._saved is not None and (not path.exists() or path.read_bytes() != self._saved):
            raise Violation("state file", f"{self._node.name} has saved its chain, and the file is another or gone")
        if path.exists():
            try:
                with zipfile.ZipFile(path) as archive:
                    flaw = archive.testzip()
            except zipfile.BadZipFile as failure:
                flaw = str(failure)
            if flaw is not None:
                raise Violation("state file", f"the chain that {self._node.name} has saved is not whole: {flaw}")

    # What the developer does.

    async def _ask(self, rng: random.Random, name: str, *arguments: object) -> object:
        """Returns None when the node cannot, or is gone before it answers."""
        node, process = self._node, self._node.process
        if not node.is_ready or process is None:
            return None
        life = node.life
        task = asyncio.get_running_loop().create_task(getattr(process, name)(*arguments))
        while not task.done() and not node.disk.is_dead and node.life == life and node.is_up:
            await asyncio.sleep(0.01)
        if not task.done():
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if node.disk.is_dead or task.cancelled():
            return None
        failure = task.exception()
        if failure is not None and not isinstance(failure, NodeError):
            raise Violation("dev", f"{name} fails with {failure!r}")
        if isinstance(failure, NodeError):
            # As the link does: a failure of the node's own ends its core.
            if node.process is process:
                process.answered_with(failure)
            return None
        return task.result()

    async def _mine(self, rng: random.Random) -> None:
        await self._ask(rng, "mine", rng.choice((1, 1, 2, 5)), rng.choice((0, 10)))

    async def _increase_time(self, rng: random.Random) -> None:
        await self._ask(rng, "increase_time", rng.choice((0, 1, 100, 20_000)))

    async def _snapshot(self, rng: random.Random) -> None:
        # Nothing may be on its way: what is answered while the snapshot is taken would belong to both.
        await asyncio.sleep(1.0)
        self._look_first()
        before = self.clients.promises.copy()
        number = await self._ask(rng, "snapshot")
        core = self._node.core
        if isinstance(number, int) and core is not None and core._dev_clock is not None:
            self._look_first()
            # A block may have followed before the answer was heard.
            self._kept[number] = Kept(core._dev_clock.kept.state.snapshots[number].height, before)
            self.tally.count("snapshots of a dev chain")

    def _look_first(self) -> None:
        with aside():
            self.move_on()
            self.clients.check(self._node)

    async def _revert(self, rng: random.Random) -> None:
        if self._node.is_ready:
            self._look_first()
        if not self._kept:
            return
        number = rng.choice(list(self._kept))
        # A revert that was asked for in vain may yet have been decided.
        self._reverting = number
        answer = await self._ask(rng, "revert", number)
        if answer is False:
            raise Violation("dev", f"{self._node.name} took snapshot {number}, and has it no more")
        if answer:
            self._look_first()
            if self._reverting is not None:
                raise Violation("dev", f"a revert to snapshot {number} was answered and not made")

    def _take_back(self, reverts: int) -> None:
        number = self._reverting
        if number is None or reverts != self._reverts + 1:
            raise Violation("dev", f"{self._node.name} was reverted {reverts} times; {self._reverts} were asked for")
        kept = self._kept[number]
        self._reverts, self._reverting = reverts, None
        self._kept = {each: snapshot for each, snapshot in self._kept.items() if each < number}
        self.ledger.take_back(kept.height)
        self.invariants.reverted(self._node, kept.height)
        self._node.told = min(self._node.told, kept.height)
        self.clients.promises = kept.promises.copy()
        self._node.told_drops.clear()
        self._node.epoch += 1
        self.clients.next_nonce.clear()
        self.clients.dropped.clear()
        self._wanted.clear()
        self.tally.count("reverts of a dev chain")

    async def _set_balance(self, rng: random.Random) -> None:
        address = rng.choice([*self.setup.keys, *self.setup.strangers])
        balance = rng.choice((0, 1, 10**18, 10**24))
        self._look_first()
        self._wanted.setdefault(bytes(address), set()).add(balance)
        height = await self._ask(rng, "set_balance", address, balance)
        if isinstance(height, int):
            self.tally.count("balances set")
            with aside():
                self.move_on()
            # A disk that failed meanwhile hides the block until the store is opened again.
            if self.ledger.height >= height:
                self._wanted.get(bytes(address), set()).discard(balance)

    def describe(self, node: Node) -> str:
        return f"{super().describe(node)} reverts {self._reverts}"
