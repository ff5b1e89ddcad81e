"""Chains on a real disk, block by block, for tests of the store."""

from collections.abc import Sequence
from itertools import islice

from cairn.domain.genesis import DEV_SIGNER, Genesis
from cairn.domain.transition import BlockOutcome, GovernanceChange, build_block
from cairn.domain.types import TRANSFER_GAS, ZERO_ADDRESS, Address, BlockHash, BlockHeader, Tx
from cairn.store.chain import ChainStore
from cairn.store.history import Search, search_history
from cairn.store.keys import Location
from cairn.store.reader import ChainReader
from tests.support.signing import commit_signed
from tests.support.transfers import RULES, address, transfer
from tests.support.tx_data import data_by_number

SENDERS = range(1, 41)
BALANCE = 10**18


def store_genesis(timestamp: int = 1_000) -> Genesis:
    return Genesis(
        chain_id=RULES.chain_id,
        timestamp=timestamp,
        gas_price=RULES.gas_price,
        block_gas_limit=10_000 * TRANSFER_GAS,
        alloc={address(sender): BALANCE for sender in SENDERS},
        signer=DEV_SIGNER,
    )


def outcome_on(
    chain: ChainStore, txs: Sequence[Tx], proposer: Address = ZERO_ADDRESS, change: GovernanceChange | None = None
) -> BlockOutcome:
    """What the block with `txs` on top of the head would be; nothing is written."""
    return build_block(
        chain.head_header,
        chain.head_hash,
        chain,
        txs,
        chain.head_header.timestamp + 1,
        proposer,
        chain.genesis.rules,
        change,
    )


def extend(
    chain: ChainStore, txs: Sequence[Tx], proposer: Address = ZERO_ADDRESS, change: GovernanceChange | None = None
) -> BlockOutcome:
    outcome = outcome_on(chain, txs, proposer, change)
    commit_signed(chain, outcome)
    return outcome


def head_of(reader: ChainReader) -> tuple[BlockHash, BlockHeader]:
    """The newest block that the reader shows."""
    found = reader.find_header(reader.visible)
    assert found is not None, f"block {reader.visible} has no header"
    return found


def history_of(reader: ChainReader, who: Address, before: Location | None = None, limit: int = 1_000) -> list[Location]:
    """Where an account's transactions are, newest first."""
    steps = search_history(reader, Search(who), before)
    return list(islice((step.location for step in steps if step.is_found), limit))


def next_transfers(chain: ChainStore, count: int, to: int = 999) -> list[Tx]:
    """`count` valid transfers, by one sender after the other; every other one with data."""
    nonces = {sender: chain.account(address(sender)).nonce for sender in SENDERS}
    txs = []
    for number in range(count):
        sender = SENDERS[number % len(SENDERS)]
        txs.append(transfer(sender, nonces[sender], to=to, data=data_by_number(number)))
        nonces[sender] += 1
    return txs


def grow(chain: ChainStore, blocks: int, txs_each: int) -> None:
    for _ in range(blocks):
        extend(chain, next_transfers(chain, txs_each))
