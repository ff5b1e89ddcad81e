"""A pool that lists others' transactions only when it is asked is, to whoever asks, one that lists them at once."""

import contextlib
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.domain.errors import MempoolFull, Rejected
from cairn.domain.types import TxHash
from cairn.mempool.pool import Drop, Mempool, PoolLimits
from tests.support.transfers import RULES, Accounts, address, transfer

SENDERS = (1, 2, 3)
RICH = 10**18
NOW = 1_000

# Who, how far from the account's nonce, at what price; or a block of some senders' next ones, of a sort.
incoming = st.tuples(
    st.sampled_from(["note", "note", "note", "admit"]),
    st.sampled_from(SENDERS),
    st.integers(-1, 6),
    st.sampled_from([10, 10, 11, 12]),
)
blocks = st.tuples(st.just("block"), st.sampled_from(SENDERS), st.integers(1, 4), st.sampled_from([10, 12]))
questions = st.tuples(st.sampled_from(["ask", "expire"]), st.sampled_from(SENDERS), st.just(0), st.just(10))
histories = st.lists(st.one_of(incoming, incoming, blocks, questions), max_size=40)


class Scene:
    def __init__(self, limits: PoolLimits, at_once: bool) -> None:
        self.state = Accounts()
        for sender in SENDERS:
            self.state.put(address(sender), RICH, 5)
        self.pool = Mempool(RULES, limits, self.state)
        self.at_once = at_once
        self.drops: list[Drop] = []

    def play(self, action: str, sender: int, ahead: int, gas_price: int) -> None:
        tx = transfer(sender, self.state.account(address(sender)).nonce + ahead, gas_price=gas_price)
        match action:
            case "note":
                # What is past is never noted: whoever does it looks at the account first.
                if ahead >= 0:
                    self.drops += self.pool.note(tx, NOW)
            case "admit":
                with contextlib.suppress(Rejected, MempoolFull):
                    self.drops += self.pool.admit(tx, NOW).dropped
            case "block":
                nonce = self.state.account(address(sender)).nonce
                txs = [transfer(sender, nonce + number, gas_price=gas_price) for number in range(ahead)]
                for each in txs:
                    self.state.apply(each)
                self.drops += self.pool.confirm(txs)
            case "ask":
                self.answers()
            case "expire":
                self.pool.up_s += 2
                self.drops += self.pool.expire()
        if self.at_once:
            self.pool.list_noted()

    def answers(self) -> object:
        pool = self.pool
        senders = [
            (pool.next_nonce(address(sender)), pool.reserved(address(sender)), self.hashes(sender))
            for sender in SENDERS
        ]
        pool.list_noted()
        return senders, pool.pending_count, pool.queued_count, set(self.hashes())

    def hashes(self, sender: int | None = None) -> Sequence[TxHash]:
        entries = self.pool.page(100, None, None if sender is None else address(sender)).entries
        return [entry.tx.hash for entry in entries]


@settings(max_examples=400)
@given(history=histories)
def test_nobody_can_tell_when_it_was_listed(history: list[tuple[str, int, int, int]]) -> None:
    limits = PoolLimits(size=1_000, lifetime_s=5)
    late, soon = Scene(limits, at_once=False), Scene(limits, at_once=True)
    for action in history:
        late.play(*action)
        soon.play(*action)
    assert late.answers() == soon.answers()
    assert sorted(late.drops) == sorted(soon.drops)
    for tx_hash, _ in soon.drops:
        assert late.pool.drops.get(tx_hash) == soon.pool.drops.get(tx_hash)


@settings(max_examples=400)
@given(history=histories, size=st.integers(1, 6))
def test_it_never_holds_more_than_it_may(history: list[tuple[str, int, int, int]], size: int) -> None:
    scene = Scene(PoolLimits(size=size), at_once=False)
    for action in history:
        scene.play(*action)
        assert scene.pool.held_count <= size
        # Each in its place once, whatever had to go for it.
        entries = scene.pool.listed.entries_since(0)
        assert len({entry.seq for entry in entries}) == len(entries)
        assert {entry.tx.hash for entry in scene.pool.listed.mining_order()} <= {entry.tx.hash for entry in entries}
    listed = scene.hashes()
    assert len(set(listed)) == len(listed) == scene.pool.held_count <= size


def test_what_waits_leaves_when_its_time_is_over() -> None:
    scene = Scene(PoolLimits(lifetime_s=10), at_once=False)
    ready = [transfer(sender, 5) for sender in SENDERS[:2]]
    waiting = transfer(SENDERS[2], 6)
    for tx in (*ready, waiting):
        scene.pool.note(tx, NOW)
    scene.pool.up_s = 9
    assert scene.pool.expire() == []
    scene.pool.up_s = 10
    assert scene.pool.expire() == [(waiting.hash, "expired")]
    assert scene.pool.held_count == 2
