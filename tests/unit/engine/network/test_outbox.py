"""What the outbox decides, step by step: without an event loop, by a clock that the test moves."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from cairn.cli.network.homes import CONFIGURATION
from cairn.domain.genesis import dev_genesis
from cairn.domain.transactions import encode_tx
from cairn.domain.types import DYNAMIC_FEE, MAX_UINT64, MAX_UINT256, Account, Address, Tx, TxHash
from cairn.engine.network.bundle import MOST, MOST_BYTES, encode_bundle
from cairn.engine.network.outbox import (
    BUSY,
    IN_TIME_FACTOR,
    LATE_FACTOR,
    MOST_AHEAD,
    MOST_JUST_IN_TIME,
    USUAL,
    Answer,
    Batch,
    Outbox,
)
from cairn.engine.network.overlay import Overlay
from cairn.engine.network.rpc import CometBftRefusal, RpcAway
from cairn.mempool.order import HERE, RETURNED, SENT, Delivery, Entry
from cairn.mempool.pool import Mempool, PoolLimits
from tests.support.core_fixtures import signed

AWAY = RpcAway("nobody is there")
FULL = CometBftRefusal(-32603, "Internal error", "mempool is full")
REFUSED = CometBftRefusal(-32603, "Internal error", "something else")


class State:
    nonce = 0

    def account(self, address: Address) -> Account:
        return Account(10**22, self.nonce)


class Scene:
    def __init__(self, block_pause_s: float = 0.0) -> None:
        self.now = 1_000.0
        self.waits_ended = 0
        self.state = State()
        self.pool = Mempool(dev_genesis().rules, PoolLimits(), self.state)
        self.overlay = Overlay(State())
        self.outbox = Outbox(
            self.pool, self.overlay, self._end_wait, lambda: self.now, lambda: 0.0, block_pause_s=block_pause_s
        )
        self._steps = self.outbox.steps()
        self.step: Batch | float = next(self._steps)

    def _end_wait(self) -> None:
        self.waits_ended += 1

    def admit(self, *nonces: int) -> None:
        for nonce in nonces:
            self.pool.admit(signed(nonce), 0)
        self.outbox.wake()

    def entry(self, nonce: int) -> Entry:
        entry = self.pool.find(signed(nonce).hash)
        assert entry is not None
        return entry

    def deliveries(self, *nonces: int) -> list[Delivery]:
        return [self.entry(nonce).delivery for nonce in nonces]

    def take(self, *nonces: int) -> None:
        """CheckTx lets them pass."""
        for nonce in nonces:
            self.overlay.check(signed(nonce))
            self.overlay.add(signed(nonce))

    def go_on(self, answer: Answer = None) -> Batch | float:
        """The batch was answered, or the wait is over."""
        self.step = self._steps.send(answer)
        return self.step

    def pass_time(self) -> float:
        """Let the wait last as long as it may."""
        assert isinstance(self.step, float)
        self.now += self.step
        waited_s = self.step
        self.go_on()
        return waited_s

    def batch(self) -> list[int]:
        """The nonces in the batch that is to be handed over; waits for it, but not for ever."""
        for _ in range(100):
            if isinstance(self.step, list):
                return nonces(self.step)
            self.pass_time()
        pytest.fail("nothing is sent")

    def confirm(self, *nonces: int) -> None:
        """A block with these is committed."""
        txs = [signed(nonce) for nonce in nonces]
        self.state.nonce += len(txs)
        self.pool.confirm(txs)
        self.outbox.committed(txs)

    def send_late(self, *nonces: int) -> float:
        """They arrive right after a block; how long it takes until they are sent."""
        arrived_at = self.now
        self.admit(*nonces)
        self.go_on()
        assert self.batch() == list(nonces)
        sent_at = self.now
        self.go_on()
        return sent_at - arrived_at


def nonces(txs: Sequence[Tx]) -> list[int]:
    return [tx.nonce for tx in txs]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def make_busy(scene: Scene) -> None:
    scene.admit(*range(BUSY))
    assert scene.batch() == list(range(BUSY))
    scene.take(*range(BUSY))
    scene.go_on()


def test_with_nothing_to_send_it_scans_at_the_interval(scene: Scene) -> None:
    assert [scene.pass_time() for _ in range(3)] == pytest.approx([USUAL.scan_interval_s] * 3)


def test_a_wake_ends_the_wait_for_the_next_look(scene: Scene) -> None:
    scene.admit(0)
    assert scene.waits_ended == 1
    assert isinstance(scene.go_on(), list)
    assert scene.deliveries(0) == [SENT]
    # Nobody waits now: the next wait does not begin.
    scene.outbox.wake()
    assert scene.waits_ended == 1
    assert scene.go_on() == pytest.approx(USUAL.gather_s)


def test_a_wake_does_not_end_a_wait_for_something_else(scene: Scene) -> None:
    make_busy(scene)
    waits_ended = scene.waits_ended
    scene.outbox.deciding()
    scene.outbox.wake()
    assert scene.waits_ended == waits_ended + 1
    assert scene.go_on() == pytest.approx(USUAL.held_s)
    scene.outbox.wake()
    assert scene.waits_ended == waits_ended + 1
    scene.outbox.committed(())
    assert scene.waits_ended == waits_ended + 2
    # What may follow is gathered, however often somebody wakes it.
    assert scene.go_on() == pytest.approx(USUAL.quiet_s)
    scene.outbox.wake()
    assert scene.waits_ended == waits_ended + 2


def test_a_wait_that_ended_too_early_goes_on(scene: Scene) -> None:
    scene.now += 0.25
    assert scene.go_on() == pytest.approx(USUAL.scan_interval_s - 0.25)


@pytest.mark.parametrize("answer", [AWAY, REFUSED])
def test_a_batch_that_could_not_be_sent_is_unchanged(scene: Scene, answer: Answer) -> None:
    scene.admit(0, 1)
    assert scene.batch() == [0, 1]
    scene.go_on(answer)
    assert scene.deliveries(0, 1) == [HERE, HERE]
    assert scene.batch() == [0, 1]
    scene.go_on()
    assert scene.deliveries(0, 1) == [SENT, SENT]


def test_a_returned_transaction_is_sent_alone_until_it_is_taken(scene: Scene) -> None:
    scene.admit(0, 1, 2)
    scene.batch()
    scene.go_on()
    scene.entry(0).delivery = scene.entry(1).delivery = RETURNED
    for _ in range(2):
        assert scene.batch() == [0]
        scene.go_on(AWAY)
        assert scene.deliveries(0, 1, 2) == [RETURNED, RETURNED, SENT]
    assert scene.batch() == [0]
    # While others are handed over, it comes back once more.
    scene.go_on()
    scene.entry(0).delivery = RETURNED
    assert scene.batch() == [1]
    scene.go_on()
    assert scene.deliveries(0, 1, 2) == [RETURNED, SENT, SENT]


def test_a_returned_transaction_ends_the_batch_before_it(scene: Scene) -> None:
    scene.admit(0, 1, 2, 3)
    scene.entry(2).delivery = RETURNED
    batches = []
    for _ in range(3):
        batches.append(scene.batch())
        scene.go_on()
    assert batches == [[0, 1], [2], [3]]


def test_a_transaction_removed_while_sending_is_skipped(scene: Scene) -> None:
    scene.admit(0, 1, 2)
    scene.entry(0).delivery = RETURNED
    assert scene.batch() == [0]
    scene.pool.remove(signed(2).hash)
    scene.go_on()
    assert scene.batch() == [1]


def test_a_batch_whose_transactions_were_all_removed_is_skipped(scene: Scene) -> None:
    scene.admit(0, 1)
    scene.entry(0).delivery = RETURNED
    assert scene.batch() == [0]
    scene.pool.remove(signed(1).hash)
    assert isinstance(scene.go_on(), float)


def test_after_a_block_makes_room_new_transactions_are_sent_at_once(scene: Scene) -> None:
    scene.admit(0)
    assert scene.batch() == [0]
    scene.go_on(FULL)
    scene.outbox.committed([])
    scene.go_on()
    assert scene.batch() == [0]
    scene.go_on()
    began = scene.now
    scene.admit(1)
    scene.go_on()
    assert scene.batch() == [1]
    assert scene.now - began < USUAL.scan_interval_s / 2


def test_a_transaction_refused_before_its_call_fails_is_returned(scene: Scene) -> None:
    scene.admit(0, 1)
    scene.batch()
    scene.entry(1).delivery = RETURNED
    scene.go_on(AWAY)
    assert scene.deliveries(0, 1) == [HERE, RETURNED]


def test_a_transaction_held_before_a_block_is_sent_only_if_returned(scene: Scene) -> None:
    scene.admit(0, 1)
    scene.batch()
    scene.take(0, 1)
    scene.go_on()
    scene.overlay.reset()
    scene.now += 2 * USUAL.resend_after_s
    # CometBFT has still to ask for the first one; the second one it has thrown out.
    scene.entry(1).delivery = RETURNED
    assert scene.batch() == [1]


def test_a_restart_of_cometbft_clears_the_returned_state(scene: Scene) -> None:
    scene.admit(0, 1)
    scene.batch()
    scene.go_on()
    scene.entry(0).delivery = RETURNED
    scene.outbox.restarted()
    assert scene.batch() == [0, 1]


def test_a_transaction_removed_and_admitted_again_is_sent_again(scene: Scene) -> None:
    scene.admit(0)
    scene.batch()
    scene.admit(1, 2)
    scene.go_on()
    scene.pool.remove(signed(1).hash)
    scene.admit(1)
    assert scene.batch() == [1, 2]
    scene.go_on()
    assert scene.deliveries(0, 1, 2) == [SENT, SENT, SENT]


def test_one_stale_transaction_among_others_is_found(scene: Scene) -> None:
    scene.admit(0)
    scene.batch()
    scene.go_on()
    scene.take(0)
    scene.now += USUAL.stale_after_s
    scene.admit(1)
    both = [signed(1), signed(0)]
    assert scene.outbox.is_any_stale(both)
    scene.entry(0).delivery = RETURNED
    assert not scene.outbox.is_any_stale(both)


def longest(nonce: int) -> Tx:
    """What takes most bytes of all transfers: every number is as large as it can be."""
    return Tx(
        TxHash(nonce.to_bytes(32, "big")),
        Address(b"\xff" * 20),
        Address(b"\xff" * 20),
        MAX_UINT64 - nonce,
        MAX_UINT64,
        MAX_UINT256,
        MAX_UINT256,
        b"\xff" * 64 + b"\1",
        DYNAMIC_FEE,
        MAX_UINT256,
        MAX_UINT256,
        b"\xff" * 256,
    )


def test_a_batch_of_the_longest_transfers_fits_into_one_transaction_of_cometbft(scene: Scene) -> None:
    entries = [Entry(longest(nonce), 0, nonce, 0) for nonce in range(2 * MOST)]
    end = scene.outbox._end_of_batch(entries, 0)
    bundle = encode_bundle([encode_tx(entry.tx, MAX_UINT64) for entry in entries[:end]])
    # Not much smaller than need be, and never one that CometBFT refuses.
    assert 0.8 * CONFIGURATION["mempool.max_tx_bytes"] < len(bundle) < CONFIGURATION["mempool.max_tx_bytes"]  # type: ignore[operator]
    assert scene.outbox._end_of_batch(entries, end) == 2 * end


def test_transfers_without_data_are_sent_512_at_a_time(scene: Scene) -> None:
    entries = [Entry(structs.replace(longest(nonce), data=b""), 0, nonce, 0) for nonce in range(2 * MOST)]
    assert scene.outbox._end_of_batch(entries, 0) == MOST
    bundle = encode_bundle([encode_tx(entry.tx, MAX_UINT64) for entry in entries[:MOST]])
    assert len(bundle) <= MOST_BYTES + 1


PAUSE_S = 0.4


class TestJustInTime:
    """Between two blocks, what arrives is sent at once shortly before the next one can be proposed."""

    @pytest.fixture
    def scene(self) -> Scene:
        return Scene(PAUSE_S)

    def test_without_a_block_before_it_a_transaction_is_sent_at_once(self, scene: Scene) -> None:
        assert scene.send_late(0) == 0

    def test_what_arrives_after_a_block_is_sent_together_ahead_of_the_next(self, scene: Scene) -> None:
        scene.confirm()
        began_at = scene.now
        scene.admit(0)
        scene.go_on()
        scene.now += 0.1
        scene.admit(1)
        scene.go_on()
        assert scene.batch() == [0, 1]
        assert scene.now - began_at == pytest.approx(PAUSE_S - USUAL.ahead_s)

    def test_what_arrives_later_than_that_is_sent_at_once(self, scene: Scene) -> None:
        scene.confirm()
        scene.now += PAUSE_S - USUAL.ahead_s
        assert scene.send_late(0) == 0

    def test_a_block_without_it_makes_the_next_sending_earlier_and_one_with_it_later(self, scene: Scene) -> None:
        scene.confirm()
        scene.send_late(0)
        # The next block comes too early for it.
        scene.confirm()
        too_late_s = LATE_FACTOR * USUAL.ahead_s
        assert scene.send_late(1) == pytest.approx(PAUSE_S - too_late_s)
        scene.confirm(0, 1)
        assert scene.send_late(2) == pytest.approx(PAUSE_S - IN_TIME_FACTOR * too_late_s)

    def test_a_part_of_the_pause_is_calm_even_if_all_is_late(self, scene: Scene) -> None:
        """Else nothing would show that things are in time again."""
        scene.confirm()
        waited_s = 0.0
        for nonce in range(5):
            waited_s = scene.send_late(nonce)
            scene.confirm()
        assert waited_s == pytest.approx(PAUSE_S * (1 - MOST_AHEAD))

    def test_while_all_is_in_time_the_time_ahead_shrinks_to_its_least(self, scene: Scene) -> None:
        scene.confirm()
        waited_s = 0.0
        for nonce in range(200):
            waited_s = scene.send_late(nonce)
            scene.confirm(nonce)
        assert waited_s == pytest.approx(PAUSE_S - USUAL.least_ahead_s)

    def test_what_waited_for_no_block_says_nothing_about_the_time_ahead(self, scene: Scene) -> None:
        scene.send_late(0)
        scene.confirm()
        assert scene.send_late(1) == pytest.approx(PAUSE_S - USUAL.ahead_s)

    def test_after_many_nothing_is_held_back(self, scene: Scene) -> None:
        many = range(MOST_JUST_IN_TIME + 1)
        scene.confirm()
        assert scene.send_late(*many) > 0
        scene.confirm(*many)
        assert scene.send_late(len(many)) < PAUSE_S - USUAL.ahead_s

    def test_while_a_block_is_decided_nothing_is_sent_for_a_while(self, scene: Scene) -> None:
        scene.outbox.deciding()
        assert scene.send_late(0) == pytest.approx(USUAL.held_s)

    def test_what_comes_after_the_sending_waits_for_the_next_block(self, scene: Scene) -> None:
        scene.confirm()
        scene.send_late(0)
        scene.admit(1)
        scene.go_on()
        scene.now += 0.2
        scene.confirm(0)
        committed_at = scene.now
        scene.go_on()
        assert scene.batch() == [1]
        assert scene.now - committed_at == pytest.approx(PAUSE_S - IN_TIME_FACTOR * USUAL.ahead_s)

    def test_without_a_next_block_what_comes_after_the_sending_waits_for_a_while(self, scene: Scene) -> None:
        scene.confirm()
        scene.send_late(0)
        assert scene.send_late(1) == pytest.approx(USUAL.held_s)
        assert scene.send_late(2) == pytest.approx(USUAL.gather_s)

    def test_a_node_that_gets_block_after_block_sends_in_time(self, scene: Scene) -> None:
        scene.confirm()
        began_at = scene.now
        scene.admit(0)
        for _ in range(100):
            scene.go_on()
            if isinstance(scene.step, list):
                break
            scene.now += 0.01
            scene.confirm()
        assert scene.now - began_at < 2 * PAUSE_S
