"""Snapshots and pruning against plain dictionaries, whatever the blocks hold."""

import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cairn.domain.transactions import encode_record
from cairn.domain.types import EMPTY_ACCOUNT, Account, Address, BlockHash, Tx
from cairn.store.chain import ChainStore
from cairn.store.follower import FollowerStore
from cairn.store.reader import ChainReader
from tests.support.audit import audit
from tests.support.blocks import BALANCE, SENDERS, extend, head_of, history_of, store_genesis
from tests.support.disk import compact, database_of, flush
from tests.support.snapshots import PEOPLE, add_block, open_chain, pay, restore_snapshot, take_snapshot
from tests.support.transfers import address, transfer
from tests.support.tx_data import data_fields, gas_of

PRICE = 10

people = st.one_of(
    st.integers(0, 8).map(PEOPLE.__getitem__), st.integers(1, 5).map(lambda number: Address(bytes([number]) * 20))
)
payments = st.tuples(st.integers(0, 8), people, st.integers(0, 3), data_fields)
blocks = st.lists(st.lists(payments, max_size=5), min_size=1, max_size=5)
Drawn = list[tuple[int, Address, int, bytes]]


def add(chain: ChainStore, drawn: Drawn) -> BlockHash:
    txs: list[Tx] = []
    for sender, to, value, data in drawn:
        txs.append(pay(chain, sender, to, value, txs, data))
    return add_block(chain, txs).block.hash


@settings(max_examples=12, deadline=None)
@given(before=blocks, after=blocks)
def test_a_restored_chain_is_the_same_chain(before: list[Drawn], after: list[Drawn]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        chain, joining = open_chain(Path(directory) / "one"), open_chain(Path(directory) / "two")
        for block in [*before, [(0, PEOPLE[1], 1, b"")]]:
            add(chain, block)
        restore_snapshot(joining, take_snapshot(chain))
        assert (head_of(joining), joining.tree.levels) == (head_of(chain), chain.tree.levels)
        for who, version in chain.accounts_at(chain.visible):
            assert joining.account(who) == version.account
        assert [add(chain, block) for block in after] == [add(joining, block) for block in after]
        assert audit(joining) == len(before) + 1
        for store in (chain, joining):
            store.close()


class PruneMachine(RuleBasedStateMachine):
    """A chain whose past goes away, and a follower of it."""

    @initialize()
    def start(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.chain = ChainStore.open(self.root / "data", store_genesis())
        self.follower = FollowerStore.open(self.root / "data", self.root / "scratch")
        self.accounts: dict[Address, Account] = {address(sender): Account(BALANCE) for sender in SENDERS}
        self.history: dict[Address, list[tuple[int, int]]] = defaultdict(list)
        self.blocks: list[list[Tx]] = [[]]
        self.hashes = [self.chain.head_hash]
        self.base = 0

    def change(self, who: Address, amount: int, nonces: int) -> None:
        before = self.accounts.get(who, EMPTY_ACCOUNT)
        self.accounts[who] = Account(before.balance + amount, before.nonce + nonces)

    @rule(
        drawn=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 7), st.integers(0, 2), data_fields), max_size=20),
        proposer=st.integers(1, 8),
    )
    def commit(self, drawn: list[tuple[int, int, int, bytes]], proposer: int) -> None:
        txs: list[Tx] = []
        for sender, to, value, data in drawn:
            nonce = self.accounts[address(sender)].nonce
            txs.append(transfer(sender, nonce, to=to, value=value, data=data))
            self.change(address(sender), -value - PRICE * gas_of(data), 1)
            self.change(address(to), value, 0)
            for who in {address(sender), address(to)}:
                self.history[who].append((len(self.blocks), len(txs) - 1))
        if txs:
            self.change(address(proposer), PRICE * sum(gas_of(tx.data) for tx in txs), 0)
        self.blocks.append(txs)
        self.hashes.append(extend(self.chain, txs, address(proposer)).block.hash)

    @precondition(lambda self: self.base < len(self.blocks) - 1)
    @rule(data=st.data())
    def prune(self, data: st.DataObject) -> None:
        self.base = data.draw(st.integers(self.base + 1, len(self.blocks) - 1))
        self.chain.prune(self.base, lambda: None)

    @precondition(lambda self: self.base < len(self.blocks) - 1)
    @rule(data=st.data(), steps=st.integers(1, 6))
    def prune_and_crash(self, data: st.DataObject, steps: int) -> None:
        self.base = data.draw(st.integers(self.base + 1, len(self.blocks) - 1))
        left = [steps]

        def pause() -> None:
            left[0] -= 1
            if not left[0]:
                raise InterruptedError

        try:
            self.chain.prune(self.base, pause)
        except InterruptedError:
            self.open_anew()

    @rule()
    def flush(self) -> None:
        flush(database_of(self.chain))

    @rule()
    def compact(self) -> None:
        compact(database_of(self.chain))

    @rule()
    def open_anew(self) -> None:
        self.chain.close()
        self.chain = ChainStore.open(self.root / "data", store_genesis())

    @rule()
    def follow(self) -> None:
        assert self.follower.catch_up() == len(self.blocks) - 1
        # It hears of a new base together with a new block.
        self.check(self.follower)

    @invariant()
    def chain_equals_model(self) -> None:
        assert self.chain.board.head == self.chain.watermark.height() == self.chain.visible
        assert self.chain.base == self.base
        self.check(self.chain)

    def check(self, reader: ChainReader) -> None:
        base = reader.base
        assert base <= self.base
        assert head_of(reader)[0] == self.hashes[-1]
        for height, txs in enumerate(self.blocks):
            kept = height >= base
            assert reader.find_height(self.hashes[height]) == (height if kept else None)
            assert (reader.find_header(height) is not None) == kept
            if kept:
                assert list(reader.records(height)) == [encode_record(tx) for tx in txs]
            for position, tx in enumerate(txs):
                assert reader.find_location(tx.hash) == ((height, position) if kept else None)
        for number in range(1, 9):
            who = address(number)
            assert reader.account(who) == self.accounts.get(who, EMPTY_ACCOUNT)
            known = [place for place in self.history[who] if place[0] >= base]
            assert history_of(reader, who, None, 1000) == known[::-1]
        assert {who: version.account for who, version in reader.accounts_at(reader.visible)} == {
            who: account for who, account in self.accounts.items() if account != EMPTY_ACCOUNT or self.history[who]
        }

    def teardown(self) -> None:
        if hasattr(self, "chain"):
            self.follower.close()
            self.chain.close()
            shutil.rmtree(self.root)


TestPrune = PruneMachine.TestCase
TestPrune.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
