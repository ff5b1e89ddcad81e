"""The chain's store, its follower and its copies against plain dictionaries."""

import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cairn.domain.transactions import encode_record
from cairn.domain.types import EMPTY_ACCOUNT, Account, Address, Tx, TxHash
from cairn.store.chain import AccountCache, ChainStore
from cairn.store.follower import FollowerStore
from cairn.store.reader import ChainReader
from tests.support.blocks import BALANCE, SENDERS, extend, head_of, history_of, store_genesis
from tests.support.disk import compact, database_of, flush
from tests.support.transfers import address, transfer
from tests.support.tx_data import data_fields, gas_of

PRICE = 10
PEOPLE = 8

transfers = st.tuples(st.integers(1, PEOPLE), st.integers(1, PEOPLE + 2), st.integers(0, 3), data_fields)


class Model:
    """All that the blocks say, in the simplest form."""

    def __init__(self) -> None:
        self.accounts: dict[Address, Account] = {address(sender): Account(BALANCE) for sender in SENDERS}
        self.history: dict[Address, list[tuple[int, int]]] = defaultdict(list)
        self.blocks: list[list[Tx]] = [[]]
        self.hashes = [b""]

    def account(self, who: Address) -> Account:
        return self.accounts.get(who, EMPTY_ACCOUNT)

    def change(self, who: Address, amount: int, nonces: int) -> None:
        before = self.account(who)
        self.accounts[who] = Account(before.balance + amount, before.nonce + nonces)

    def apply(self, txs: list[Tx], proposer: Address) -> None:
        height = len(self.blocks)
        for position, tx in enumerate(txs):
            self.change(tx.sender, -tx.value - PRICE * gas_of(tx.data), 1)
            self.change(tx.to, tx.value, 0)
            for who in {tx.sender, tx.to}:
                self.history[who].append((height, position))
        if txs:
            self.change(proposer, PRICE * sum(gas_of(tx.data) for tx in txs), 0)
        self.blocks.append(txs)


class StoreMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.model = Model()
        self.chain = ChainStore.open(self.root / "data", store_genesis())
        self.model.hashes[0] = self.chain.head_hash
        self.follower = FollowerStore.open(self.root / "data", self.root / "scratch")

    @rule(drawn=st.lists(transfers, max_size=40), proposer=st.integers(1, PEOPLE + 3))
    def commit(self, drawn: list[tuple[int, int, int, bytes]], proposer: int) -> None:
        nonces = {who: self.model.account(address(who)).nonce for who in range(1, PEOPLE + 1)}
        txs = []
        for sender, to, value, data in drawn:
            txs.append(transfer(sender, nonces[sender], to=to, value=value, data=data))
            nonces[sender] += 1
        self.model.hashes.append(extend(self.chain, txs, address(proposer)).block.hash)
        self.model.apply(txs, address(proposer))

    @rule()
    def flush(self) -> None:
        flush(database_of(self.chain))

    @rule()
    def compact(self) -> None:
        compact(database_of(self.chain))

    @rule()
    def forget_cached_accounts(self) -> None:
        self.chain._recent = AccountCache(2, self.chain._load)

    @rule()
    def open_anew(self) -> None:
        self.chain.close()
        self.chain = ChainStore.open(self.root / "data", store_genesis())

    @rule()
    def crash(self) -> None:
        """Go on with the files as they are now, as after a kill."""
        shutil.rmtree(self.root / "copy", ignore_errors=True)
        shutil.copytree(self.root / "data", self.root / "copy")
        copy = ChainStore.open(self.root / "copy", store_genesis())
        self.check(copy)
        copy.close()

    @rule()
    def follow(self) -> None:
        assert self.follower.catch_up() == len(self.model.blocks) - 1
        self.check(self.follower)

    @invariant()
    def chain_equals_model(self) -> None:
        assert self.chain.board.head == self.chain.watermark.height() == self.chain.visible
        self.check(self.chain)

    def check(self, reader: ChainReader) -> None:
        model = self.model
        height = len(model.blocks) - 1
        assert reader.visible == height
        assert head_of(reader)[0] == model.hashes[height]
        txs = model.blocks[height]
        assert list(reader.records(height)) == [encode_record(tx) for tx in txs]
        for position, tx in enumerate(txs):
            assert reader.find_location(tx.hash) == (height, position)
            assert reader.find_record(height, position) == encode_record(tx)
        assert reader.find_record(height, len(txs)) is None
        for number in range(1, PEOPLE + 4):
            who = address(number)
            assert reader.account(who) == model.account(who)
            assert history_of(reader, who, None, 1000) == model.history[who][::-1]
            if len(model.history[who]) > 2:
                before = model.history[who][-2]
                assert history_of(reader, who, before, 1) == [model.history[who][-3]]
        assert reader.find_location(TxHash(bytes(32))) is None

    def teardown(self) -> None:
        if hasattr(self, "chain"):
            self.follower.close()
            self.chain.close()
            shutil.rmtree(self.root)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=10, stateful_step_count=12)
