"""What is sent to CometBFT, in which order, and when again. Time passes only while everybody waits."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest

from cairn.domain.genesis import GWEI, dev_genesis
from cairn.domain.transactions import decode_tx, encode_tx
from cairn.domain.types import Account, Address, Tx
from cairn.engine.network import parsed_txs as senders_module
from cairn.engine.network.bundle import Bundle, encode_bundle, is_bundle, open_bundle
from cairn.engine.network.outbox import BUSY, USUAL, Broadcaster, Outbox, Timing
from cairn.engine.network.overlay import Overlay
from cairn.engine.network.parsed_txs import ParsedTxs
from cairn.engine.network.rpc import CometBftRefusal, Rpc, RpcAway
from cairn.mempool.order import RETURNED, Entry
from cairn.mempool.pool import Mempool, PoolLimits
from tests.support.core_fixtures import CHAIN_ID, signed
from tests.support.virtual_time import virtual_loop

pytestmark = pytest.mark.virtual_time

IN_CACHE = CometBftRefusal(-32603, "Internal error", "tx already exists in cache")
FULL = CometBftRefusal(-32603, "Internal error", "mempool is full: number of txs 2 (max: 2)")
TOO_LARGE = CometBftRefusal(-32603, "Internal error", "Tx too large. Max size is 250, but got 340")


class Mempools(Rpc):
    """Takes what it is sent, or answers as the test says."""

    def __init__(self) -> None:
        super().__init__("unix:///nowhere", 1.0)
        self.batches: list[list[Tx]] = []
        self.answer: Callable[[Sequence[Tx]], CometBftRefusal | None] = lambda txs: None

    async def broadcast(self, raw: bytes) -> CometBftRefusal | None:
        await asyncio.sleep(0)
        raws = open_bundle(raw) if is_bundle(raw) else [raw]
        txs = [decode_tx(raw, CHAIN_ID, GWEI) for raw in raws]
        answer = self.answer(txs)
        self.batches.append(txs)
        return answer

    @property
    def sent(self) -> list[Tx]:
        return [tx for batch in self.batches for tx in batch]


class State:
    def __init__(self) -> None:
        self.nonces: dict[Address, int] = {}

    def account(self, address: Address) -> Account:
        return Account(10**22, self.nonces.get(address, 0))


RARELY = USUAL._replace(scan_interval_s=3600.0)
"""What a wake brings about must not wait for the next look at everything, so that never comes by itself."""


class Scene:
    def __init__(self, timing: Timing = USUAL, work_clock: Callable[[], float] = lambda: 0.0) -> None:
        self.state = State()
        self.rpc = Mempools()
        self.pool = Mempool(dev_genesis().rules, PoolLimits(), self.state)
        self.overlay = Overlay(self.state)
        self.parsed_txs = ParsedTxs(CHAIN_ID, GWEI)
        wait_is_over = asyncio.Event()
        self.outbox = Outbox(self.pool, self.overlay, wait_is_over.set, lambda: virtual_loop().now, work_clock, timing)
        self.broadcaster = Broadcaster(self.outbox, wait_is_over, self.parsed_txs, self.rpc, CHAIN_ID)

    def admit(self, *nonces: int, sender: int = 0, local: bool = True) -> None:
        for nonce in nonces:
            self.pool.admit(signed(nonce, sender=sender), 0, local=local)
        self.outbox.wake()

    def commit(self, *txs: Tx) -> None:
        for tx in txs:
            self.state.nonces[tx.sender] = tx.nonce + 1
        self.overlay.reset()
        self.pool.confirm(txs)
        self.outbox.committed(txs)

    def take(self, *txs: Tx) -> None:
        """CheckTx lets them pass."""
        for tx in txs:
            self.overlay.check(tx)
            self.overlay.add(tx)

    async def until_sent(self, *nonces: int) -> None:
        """Wait until exactly these of the first sender were sent, and nothing else since the last call."""
        for _ in range(200):
            if len(self.rpc.sent) >= len(nonces):
                break
            await asyncio.sleep(0.01)
        # A sending that has begun ends.
        await asyncio.sleep(0.02)
        assert [tx.nonce for tx in self.rpc.sent] == list(nonces)
        self.rpc.batches.clear()

    async def nothing_is_sent(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        assert not self.rpc.batches

    def give_back(self, *txs: Tx) -> None:
        """CheckTx refuses them, or they are thrown out."""
        for tx in txs:
            self.entry(tx).delivery = RETURNED

    def entry(self, tx: Tx) -> Entry:
        entry = self.pool.find(tx.hash)
        assert entry is not None
        return entry


@asynccontextmanager
async def playing(scene: Scene) -> AsyncIterator[Scene]:
    running = asyncio.create_task(scene.broadcaster.run())
    # The first look at everything is over.
    await asyncio.sleep(0.01)
    yield scene
    scene.broadcaster.stop()
    await running
    scene.parsed_txs.close()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with playing(Scene(RARELY)) as scene:
        yield scene


async def test_new_transactions_are_sent_by_nonce_and_only_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(senders_module, "open_bundle", lambda raw: pytest.fail("it is known"))
    scene.admit(0, 1)
    await scene.until_sent(0, 1)
    scene.admit(3, 2)
    await scene.until_sent(2, 3)
    # CheckTx will have nothing to recover, and no bundle to open.
    raws = [encode_tx(signed(nonce), CHAIN_ID) for nonce in (2, 3)]
    assert scene.parsed_txs.find(raws[0]) == signed(2)
    bundle = scene.parsed_txs.find(encode_bundle(raws))
    assert isinstance(bundle, Bundle)
    assert bundle.txs[0] is scene.parsed_txs.find(raws[0])


async def make_busy(scene: Scene) -> None:
    scene.admit(*range(BUSY))
    await scene.until_sent(*range(BUSY))


async def test_a_busy_node_gathers_while_more_arrive() -> None:
    scene = Scene(RARELY._replace(gather_busy_s=3600.0))
    async with playing(scene):
        await make_busy(scene)
        for nonce in range(8, 18):
            scene.admit(nonce)
            await scene.nothing_is_sent(0.9 * USUAL.quiet_s)
        await scene.until_sent(*range(8, 18))


async def test_a_busy_node_does_not_wait_for_transactions_of_other_nodes() -> None:
    scene = Scene(RARELY._replace(gather_busy_s=3600.0))
    async with playing(scene):
        await make_busy(scene)
        scene.admit(8)
        for nonce in range(3):
            scene.pool.admit(signed(nonce, sender=1), 0, local=False)
            await asyncio.sleep(0.9 * USUAL.quiet_s)
        await scene.until_sent(8)


async def test_a_busy_node_gathers_for_a_limited_time(scene: Scene) -> None:
    await make_busy(scene)
    for nonce in range(8, 18):
        scene.admit(nonce)
        await asyncio.sleep(0.9 * USUAL.quiet_s)
    first, *_ = scene.rpc.batches
    assert [tx.nonce for tx in first] == [8, 9, 10, 11, 12, 13]


async def test_a_busy_node_sends_nothing_while_a_block_is_decided(scene: Scene) -> None:
    await make_busy(scene)
    scene.outbox.deciding()
    scene.admit(8, 9)
    scene.outbox.look_at_all()
    await scene.nothing_is_sent(0.9 * USUAL.held_s)
    scene.take(*(signed(nonce) for nonce in range(BUSY)))
    scene.commit(*(signed(nonce) for nonce in range(BUSY)))
    await scene.until_sent(8, 9)


async def test_a_block_that_is_never_decided_holds_nothing_up_for_long(scene: Scene) -> None:
    await make_busy(scene)
    scene.outbox.deciding()
    scene.admit(8, 9)
    await scene.nothing_is_sent(0.9 * USUAL.held_s)
    await scene.until_sent(8, 9)


async def test_a_restart_of_cometbft_ends_the_wait(scene: Scene) -> None:
    await make_busy(scene)
    scene.outbox.deciding()
    scene.admit(8)
    await scene.nothing_is_sent(0.9 * USUAL.held_s)
    scene.outbox.restarted()
    await scene.until_sent(*range(9))


async def test_a_node_that_is_not_busy_sends_while_a_block_is_decided(scene: Scene) -> None:
    scene.admit(0)
    await scene.until_sent(0)
    scene.outbox.deciding()
    scene.admit(1)
    await scene.until_sent(1)


async def test_a_queued_transaction_is_not_sent(scene: Scene) -> None:
    scene.admit(1, 2, 4)
    await scene.nothing_is_sent(60.0)
    scene.admit(0)
    await scene.until_sent(0, 1, 2)


async def test_a_transaction_is_sent_when_a_block_closes_the_gap_before_it(scene: Scene) -> None:
    scene.admit(1)
    await scene.nothing_is_sent(60.0)
    scene.commit(signed(0, value=7))
    await scene.until_sent(1)


async def test_transactions_of_other_nodes_are_sent_only_when_our_cometbft_lost_them(scene: Scene) -> None:
    scene.admit(0, local=False)
    scene.take(signed(0))
    scene.admit(1)
    await scene.until_sent(1)
    scene.take(signed(1))
    scene.outbox.look_at_all()
    await scene.nothing_is_sent(2 * USUAL.resend_after_s)
    scene.outbox.look_at_all()
    await scene.nothing_is_sent(1.0)
    # After a block CometBFT asks for all that it still holds: until then nothing is lost.
    scene.overlay.reset()
    scene.outbox.look_at_all()
    await scene.nothing_is_sent(1.0)
    scene.overlay.clear()
    scene.outbox.look_at_all()
    await scene.until_sent(0, 1)


class Looks:
    """When everything is looked at, as it comes by itself; each look lasts `each_s`."""

    def __init__(self, scene: Scene, monkeypatch: pytest.MonkeyPatch, each_s: float) -> None:
        self.at: list[float] = []
        mining_order = scene.pool.order.mining_order

        def looked_at() -> Iterator[Entry]:
            self.at.append(round(virtual_loop().now, 3))
            virtual_loop().spend(each_s)
            return mining_order()

        monkeypatch.setattr(scene.pool.order, "mining_order", looked_at)


async def test_a_transaction_that_cometbft_lost_is_sent_again() -> None:
    scene = Scene()
    async with playing(scene):
        scene.admit(0)
        await scene.until_sent(0)
        await scene.nothing_is_sent(0.9 * USUAL.resend_after_s)
        await scene.until_sent(0)


async def test_scans_of_the_mempool_take_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(work_clock=lambda: virtual_loop().now)
    looks = Looks(scene, monkeypatch, 0.5)
    async with playing(scene):
        await asyncio.sleep(30.0)
        assert looks.at == [0.0, 10.5, 21.0]


async def test_a_pause_during_a_scan_does_not_delay_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    looks = Looks(scene, monkeypatch, 4.0)
    async with playing(scene):
        await asyncio.sleep(13.0)
        assert looks.at == [0.0, 5.0, 10.0, 15.0]


async def test_a_refused_transaction_is_sent_again_and_a_confirmed_one_is_not(scene: Scene) -> None:
    scene.admit(0, 1, 2)
    await scene.until_sent(0, 1, 2)
    scene.commit(signed(0))
    scene.give_back(signed(2))
    scene.outbox.look_at_all()
    await scene.until_sent(2)


async def test_an_unreachable_cometbft_gets_everything_later(scene: Scene) -> None:
    def away(txs: Sequence[Tx]) -> CometBftRefusal | None:
        raise RpcAway("nobody is there")

    scene.rpc.answer = away
    scene.admit(0, 1)
    await scene.nothing_is_sent(60.0)
    scene.rpc.answer = lambda txs: None
    scene.outbox.look_at_all()
    await scene.until_sent(0, 1)


async def test_a_full_mempool_is_left_alone_until_the_next_block(scene: Scene) -> None:
    scene.admit(0, 1)
    await scene.until_sent(0, 1)
    scene.rpc.answer = lambda txs: FULL
    scene.admit(2, 3)
    await scene.until_sent(2, 3)
    scene.admit(4)
    await scene.nothing_is_sent(60.0)
    scene.rpc.answer = lambda txs: None
    scene.commit(signed(0), signed(1))
    await scene.until_sent(2, 3, 4)


async def test_a_transaction_that_cometbft_knows_counts_as_sent(scene: Scene) -> None:
    scene.rpc.answer = lambda txs: IN_CACHE
    scene.admit(0, 1)
    await scene.until_sent(0, 1)
    scene.outbox.look_at_all()
    await scene.nothing_is_sent(1.0)


async def test_batches_shrink_to_what_cometbft_takes(scene: Scene) -> None:
    scene.rpc.answer = lambda txs: TOO_LARGE if len(txs) > 2 else None
    scene.admit(*range(5))
    await asyncio.sleep(60.0)
    assert [[tx.nonce for tx in batch] for batch in scene.rpc.batches] == [[0, 1, 2, 3, 4], [0, 1], [2, 3], [4]]


async def test_a_transaction_that_is_too_large_does_not_delay_others(scene: Scene) -> None:
    scene.rpc.answer = lambda txs: TOO_LARGE if txs[0].nonce == 0 else None
    scene.admit(0, 1, 2)
    await asyncio.sleep(60.0)
    assert [[tx.nonce for tx in batch] for batch in scene.rpc.batches] == [[0, 1, 2], [0], [1], [2]]


async def test_transactions_that_arrive_within_the_pause_are_sent_together(scene: Scene) -> None:
    scene.admit(0)
    await scene.until_sent(0)
    for nonce in (1, 2, 3):
        scene.admit(nonce)
        await asyncio.sleep(0)
    await asyncio.sleep(60.0)
    assert [[tx.nonce for tx in batch] for batch in scene.rpc.batches] == [[1, 2, 3]]


async def test_a_transaction_that_cometbft_got_from_a_peer_is_not_sent(scene: Scene) -> None:
    scene.take(signed(0))
    scene.admit(0, 1)
    await scene.until_sent(1)
    scene.outbox.look_at_all()
    await scene.nothing_is_sent(1.0)


async def test_only_local_transactions_become_stale_and_only_after_the_limit(scene: Scene) -> None:
    scene.admit(0)
    scene.admit(0, sender=1, local=False)
    await scene.until_sent(0)
    scene.outbox.look_at_all()
    await asyncio.sleep(0.9 * USUAL.stale_after_s)
    assert not scene.outbox.is_any_stale([signed(0)])
    await asyncio.sleep(0.2 * USUAL.stale_after_s)
    assert scene.outbox.is_any_stale([signed(0)])
    assert not scene.outbox.is_any_stale([signed(0, sender=1)])
    assert not scene.outbox.is_any_stale([signed(1)])
