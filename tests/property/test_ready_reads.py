"""Reads that a worker answers at once are those that the application answers, which asks the core and the disk."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cairn.board import Board
from cairn.config import Settings
from cairn.core.service import Core
from cairn.domain.crypto import checksum_address
from cairn.domain.errors import MempoolFull, Rejected
from cairn.domain.types import Address, SealedBlock
from tests.support import core_fixtures
from tests.support.core_fixtures import ACCOUNTS, GWEI, make_block, open_core, signed
from tests.support.direct_worker import FOR_THE_APPLICATION, CurrentCore, DirectWorker, get
from tests.support.rest_node import hash_of

SENDERS = [0, 1, 2]
NEIGHBOUR = Address(bytes(18) + ACCOUNTS[0][18:])
"""Shares the slot of the first sender on the board, and has never sent anything."""
SHOWN = [*(ACCOUNTS[sender] for sender in SENDERS), ACCOUNTS[9], NEIGHBOUR, Address(b"\xee" * 20)]
LIMITS: Settings = core_fixtures.settings(mempool_size=5, mempool_lifetime_s=10)
STRINGS = "?amounts=string"

senders = st.sampled_from(SENDERS)


class ReadyReads(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="cairn-ready-"))
        self.loop = asyncio.new_event_loop()
        self.board = Board()
        self.txs: list[str] = []
        self.blocks: list[str] = []
        self.snapshots: list[int] = []
        self.is_late = False
        self.run(self.begin())

    def run(self, doing: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(doing)

    async def begin(self) -> None:
        self.core = self.open()
        self.gateway = CurrentCore(self.core)
        self.hot = DirectWorker(self.gateway, self.root / "hot", LIMITS, self.board)
        # It has no board: it asks the core for each next nonce, and the watermark for each head.
        self.plain = DirectWorker(self.gateway, self.root / "plain", LIMITS)
        self.meet()

    def open(self) -> Core:
        core = open_core(self.root / "data", LIMITS, board=self.board)
        core.feed.subscribe_blocks(self.hear)
        core.start()
        return core

    def hear(self, height: int, block: SealedBlock | None) -> None:
        if not self.is_late:
            self.hot.view.on_commit(height, block)

    def meet(self) -> None:
        self.gateway.core = self.core
        self.hot.meet(self.core)
        self.plain.meet(self.core)

    # What happens.

    @rule(sender=senders, ahead=st.sampled_from([0, 0, 0, 1, 2, -1]), price=st.sampled_from([1, 1, 2, 4]))
    def submit(self, sender: int, ahead: int, price: int) -> None:
        async def submit() -> None:
            nonce = max(0, await self.core.next_nonce(ACCOUNTS[sender]) + ahead)
            tx = signed(nonce, sender=sender, gas_price=price * GWEI)
            self.txs.append(hash_of(tx))
            try:
                await self.core.submit(tx)
            except (Rejected, MempoolFull) as refusal:
                event(type(refusal).__name__)

        self.run(submit())

    @rule(is_late=st.booleans())
    def mine(self, is_late: bool) -> None:
        """A late worker has not heard of the block when it is asked."""

        async def mine() -> None:
            self.is_late = is_late
            make_block(self.core)
            self.blocks.append("0x" + self.core._chain.head_hash.hex())

        self.run(mine())

    @rule()
    def expire(self) -> None:
        async def expire() -> None:
            self.core._pool.up_s += 11
            self.core.admissions._dropped(self.core._pool.expire())
            await asyncio.sleep(0)

        self.run(expire())

    @rule(sender=senders)
    def take_all_money(self, sender: int) -> None:
        async def take() -> None:
            await self.core.set_balance(ACCOUNTS[sender], 10**15)

        self.run(take())

    @rule()
    def restart(self) -> None:
        async def restart() -> None:
            await self.core.stop()
            self.core = self.open()
            self.meet()

        self.run(restart())

    @rule()
    def snapshot(self) -> None:
        async def snapshot() -> None:
            self.snapshots.append(await self.core.snapshot())

        self.run(snapshot())

    @rule(data=st.data())
    def revert(self, data: Any) -> None:
        if not self.snapshots:
            return
        number = data.draw(st.sampled_from(self.snapshots))
        self.snapshots = self.snapshots[: self.snapshots.index(number)]

        async def revert() -> None:
            assert await self.core.revert(number)
            for worker in (self.hot, self.plain):
                worker.view.on_phase("unavailable", "the chain goes back")
                worker.view.on_info(self.core.info())
            await self.core.stop()
            self.core.failed.exception()
            self.core = self.open()
            self.meet()

        self.run(revert())

    # What must hold at any time.

    def targets(self) -> Iterator[str]:
        yield from ("/chain", f"/chain{STRINGS}", "/chain?amounts=number", "/mempool", f"/mempool{STRINGS}")
        for address in SHOWN:
            text = "0x" + address.hex()
            for spelling in (text, checksum_address(address), text.swapcase()):
                yield from (f"/account/{spelling}", f"/account/{spelling}{STRINGS}")
            yield f"/account/{text}?height=0"
        for tx_hash in self.txs[-6:]:
            yield from (f"/tx/{tx_hash}", f"/tx/{tx_hash}{STRINGS}")
        for name in (*self.blocks[-4:], "0", "1", str(len(self.blocks)), "latest", "0x" + "00" * 32):
            yield from (f"/block/{name}", f"/block/{name}{STRINGS}")

    @invariant()
    def ready_answers_are_the_application_s(self) -> None:
        async def compare() -> None:
            for target in self.targets():
                expected = await self.plain.ask(get(target, FOR_THE_APPLICATION))
                # The second time it may have been kept.
                for _ in range(2):
                    assert await self.hot.ask(get(target)) == expected, target
                assert await self.hot.ask(get(target, FOR_THE_APPLICATION)) == expected, target
            self.gateway.asked = 0
            for address in SHOWN:
                assert self.hot.at_once(get(f"/account/0x{address.hex()}")) is not None
            for target in ("/chain", *(f"/tx/{tx_hash}" for tx_hash in self.txs[-6:])):
                answer = self.hot.at_once(get(target)) or await self.hot.answer()
                # Who asks for one that is unknown or was dropped asks the core.
                assert self.gateway.asked == 0 or b" 404 " in answer.status
                self.gateway.asked = 0
            assert self.gateway.asked == 0, "it was asked before, and nothing has changed"

        if hasattr(self, "hot"):
            self.run(compare())

    def teardown(self) -> None:
        async def end() -> None:
            await self.core.stop()

        if hasattr(self, "hot"):
            self.run(end())
            self.hot.close()
            self.plain.close()
            self.loop.close()
            shutil.rmtree(self.root)


TestReadyReads = ReadyReads.TestCase
TestReadyReads.settings = settings(max_examples=10, stateful_step_count=20, deadline=None)
