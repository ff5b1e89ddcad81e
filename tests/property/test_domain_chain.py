"""Chains of random blocks: money is neither made nor lost, and the same blocks give the same hashes."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.domain.errors import InvalidBlock
from cairn.domain.genesis import DEV_SIGNER, Genesis, genesis_outcome
from cairn.domain.transition import BlockOutcome, build_block
from cairn.domain.types import (
    ACCESS_LIST,
    DYNAMIC_FEE,
    LEGACY,
    TRANSFER_GAS,
    ZERO_ADDRESS,
    Account,
    Address,
    SealedBlock,
    Tx,
    TxHash,
)
from tests.support.memory_state import MemoryState, naive_root, naive_state_root
from tests.support.verified_block import verify_block

PEOPLE = [ZERO_ADDRESS, *(Address(bytes([number]) * 20) for number in range(1, 6))]
GENESIS = Genesis(
    chain_id=1337,
    timestamp=100,
    gas_price=2,
    block_gas_limit=6 * TRANSFER_GAS,
    # Two can pay for many transfers, one for a few, the others for none until they receive.
    alloc={PEOPLE[1]: 10**9, PEOPLE[2]: 10**7, PEOPLE[3]: 150_000},
    signer=DEV_SIGNER,
)
SUPPLY = sum(GENESIS.alloc.values())

people = st.sampled_from(PEOPLE)
# Mostly what can be applied, or blocks would be empty; some of everything that cannot.
amounts = st.integers(0, 200_000) | st.integers(0, 200_000) | st.integers(0, 2**256 - 1)
txs = st.builds(
    Tx,
    hash=st.binary(min_size=32, max_size=32).map(TxHash),
    sender=st.sampled_from(PEOPLE[1:4]) | people,
    to=people,
    nonce=st.sampled_from([0, 0, 0, 0, 1]),
    gas=st.sampled_from([TRANSFER_GAS, TRANSFER_GAS, TRANSFER_GAS, TRANSFER_GAS + 1, 2**64 - 1, 0]),
    gas_price=st.sampled_from([2, 2, 2, 3, 3, 2**256 - 1, 1]),
    value=amounts,
    signature=st.just(bytes(65)),
    kind=st.sampled_from([LEGACY, ACCESS_LIST, DYNAMIC_FEE]),
    # What a transfer would pay at most moves no money.
    max_fee=st.sampled_from([0, 5, 2**256 - 1]),
    max_tip=st.sampled_from([0, 3]),
)
blocks = st.lists(st.tuples(st.lists(txs, max_size=8), people, st.integers(0, 300)), min_size=1, max_size=5)


class Chain(MemoryState):
    """A state in memory that blocks are applied to."""

    def __init__(self) -> None:
        outcome = genesis_outcome(GENESIS)
        super().__init__(outcome)
        self.head = outcome.block

    def build(self, block_txs: Sequence[Tx], timestamp: int, proposer: Address) -> BlockOutcome:
        head = self.head
        return build_block(head.header, head.hash, self, block_txs, timestamp, proposer, GENESIS.rules)

    def verify(self, block: SealedBlock) -> BlockOutcome:
        return verify_block(self.head.header, self.head.hash, self, block, GENESIS.rules)

    def commit(self, outcome: BlockOutcome) -> None:
        self.head = outcome.block
        self.apply(outcome)


def applicable(chain: Chain, offered: Sequence[Tx], proposer: Address, timestamp: int) -> list[Tx]:
    """As many of the offered transactions as can be applied, by trying each; their nonces count from the next one."""
    taken: list[Tx] = []
    for offer in offered:
        sent = sum(tx.sender == offer.sender for tx in taken)
        tx = msgspec.structs.replace(offer, nonce=chain.account(offer.sender).nonce + sent + offer.nonce)
        try:
            chain.build([*taken, tx], timestamp, proposer)
        except InvalidBlock:
            continue
        taken.append(tx)
    return taken


def apply_plainly(chain: Chain, block_txs: Sequence[Tx], proposer: Address) -> dict[Address, Account]:
    """The slow model: one account at a time, a new value at each step."""
    state = {address: chain.account(address) for address in PEOPLE}
    for tx in block_txs:
        sender = state[tx.sender]
        state[tx.sender] = Account(sender.balance - tx.value - tx.fee, sender.nonce + 1)
        recipient = state[tx.to]
        state[tx.to] = Account(recipient.balance + tx.value, recipient.nonce)
    for tx in block_txs:
        state[proposer] = Account(state[proposer].balance + tx.fee, state[proposer].nonce)
    named = {address for tx in block_txs for address in (tx.sender, tx.to)}
    return {who: account for who, account in state.items() if who in named or account != chain.account(who)}


@settings(max_examples=100)
@given(blocks)
def test_supply_is_conserved_and_a_second_run_gives_the_same_hashes(
    offers: list[tuple[list[Tx], Address, int]],
) -> None:
    chain, replay = Chain(), Chain()
    hashes: list[bytes] = [chain.head.hash]
    for offered, proposer, timestamp in offers:
        block_txs = applicable(chain, offered, proposer, timestamp)
        outcome = chain.build(block_txs, timestamp, proposer)
        assert outcome.accounts == apply_plainly(chain, block_txs, proposer)
        assert outcome.block.header.timestamp >= chain.head.header.timestamp
        chain.commit(outcome)
        replay.commit(replay.verify(outcome.block))
        assert replay.head == chain.head
        assert sum(account.balance for account in chain.accounts.values()) == SUPPLY
        assert all(account.balance >= 0 for account in chain.accounts.values())
        assert chain.head.header.state_root == naive_state_root(chain)
        assert chain.head.header.history_root == naive_root(hashes)
        hashes.append(chain.head.hash)


@settings(max_examples=100)
@given(st.lists(txs, max_size=8), txs, people)
def test_one_bad_transaction_refuses_the_whole_block(offered: list[Tx], last: Tx, proposer: Address) -> None:
    chain = Chain()
    before = (dict(chain.accounts), chain.tree.root)
    taken = applicable(chain, offered, proposer, 0)
    ahead = msgspec.structs.replace(last, nonce=len(taken) + 1)
    with pytest.raises(InvalidBlock, match="block 1"):
        chain.build([*taken, ahead], 0, proposer)
    assert (chain.accounts, chain.tree.root) == before
