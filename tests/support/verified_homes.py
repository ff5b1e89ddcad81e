"""Data directories with an entry of every kind, for what reads all of a store."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cairn.domain.certificates import BlockSignature, engine_chain_id, sign_block
from cairn.domain.genesis import Genesis, dev_genesis, encode_genesis, parse_genesis
from cairn.domain.transactions import encode_record
from cairn.domain.transition import BlockOutcome, build_block
from cairn.domain.types import Address, Tx
from cairn.store.chain import ChainStore
from cairn.store.directory import journal_path
from cairn.store.journal import Journal
from cairn.store.signing_key import SigningKey
from tests.support.core_fixtures import ACCOUNTS, signed, signed_of_each_type
from tests.support.signed_chain import FOUR, SignedChain
from tests.support.signed_chain import network_genesis as signed_genesis
from tests.support.signing import KEY
from tests.support.snapshots import grow_signed, network_genesis, open_chain, restore_snapshot, take_snapshot
from tests.support.tx_data import data_by_number

SEGMENT_BYTES = 4_096
SECOND_KEY = SigningKey(bytes(range(32)))


class VerifiedHome(NamedTuple):
    directory: Path
    genesis: Genesis


def lone_home(directory: Path) -> VerifiedHome:
    """A dev chain with all types of transactions, data, balances that are set, a second key, and pending ones."""
    genesis = dev_genesis()
    chain = ChainStore.open(directory, genesis)
    journal = Journal.open(journal_path(directory), chain.watermark, SEGMENT_BYTES)
    _sign(chain, _block(chain, signed_of_each_type()), KEY)
    for nonce in range(4, 8):
        _sign(chain, _block(chain, [signed(nonce, data=data_by_number(nonce)), signed(nonce - 4, sender=3)]), KEY)
    _sign(chain, _block(chain, [signed(nonce, sender=5, value=nonce) for nonce in range(40)]), KEY, SECOND_KEY)
    _sign(chain, _block(chain, [], {ACCOUNTS[7]: 12_345, ACCOUNTS[8]: 10**20}), SECOND_KEY)
    chain.save_tree()
    _sign(chain, _block(chain, [signed(8, data=b"the last one with data")]), SECOND_KEY)
    _sign(chain, _block(chain, []), SECOND_KEY)
    chain.probe()
    for nonce in range(9, 14):
        tx = signed(nonce, data=data_by_number(nonce))
        journal.append_add(7, tx, encode_record(tx))
        journal.sync()
    journal.close()
    chain.close()
    return VerifiedHome(directory, genesis)


def pruned_home(directory: Path) -> VerifiedHome:
    """A lone chain without its oldest blocks."""
    genesis = lone_home(directory).genesis
    chain = ChainStore.open(directory, genesis)
    chain.prune(4, lambda: None)
    chain.close()
    return VerifiedHome(directory, genesis)


def network_home(directory: Path) -> VerifiedHome:
    """A node of a network whose validators have changed, with the signatures of that, and with missed votes."""
    # Its validators in the order in which every file has them.
    network = SignedChain(directory, parse_genesis(encode_genesis(signed_genesis())))
    network.decide(signed(0), signed(1))
    network.decide(powers=FOUR | {4: 3})
    network.decide(signed(2, data=b"order 7"))
    network.decide(powers=FOUR | {4: 3, 5: 1})
    network.decide()
    network.decide(signed(3))
    asyncio.run(network.steps.collect())
    _miss_votes(network.store, 4)
    genesis = network.genesis
    network.store.close()
    return VerifiedHome(directory, genesis)


def restored_home(directory: Path, height: int = 4) -> VerifiedHome:
    """A node of a network that began with a snapshot of this height."""
    giving = open_chain(directory.with_name("giving"))
    grow_signed(giving, height)
    parcel = take_snapshot(giving)
    giving.close()
    chain = open_chain(directory)
    Journal.open(journal_path(directory), chain.watermark, SEGMENT_BYTES).close()
    restore_snapshot(chain, parcel)
    grow_signed(chain, 3)
    chain.close()
    return VerifiedHome(directory, network_genesis())


def verified_homes(root: Path) -> Iterator[tuple[str, VerifiedHome]]:
    for name, make in (
        ("lone", lone_home),
        ("pruned", pruned_home),
        ("network", network_home),
        ("restored", restored_home),
    ):
        yield name, make(root / name / "data")


def _block(chain: ChainStore, txs: list[Tx], balances: dict[Address, int] | None = None) -> BlockOutcome:
    header, rules = chain.head_header, chain.genesis.rules
    proposer = ACCOUNTS[9]
    return build_block(header, chain.head_hash, chain, txs, header.timestamp + 1, proposer, rules, balances=balances)


def _sign(chain: ChainStore, outcome: BlockOutcome, key: SigningKey, successor: SigningKey | None = None) -> None:
    following = None if successor is None else successor.public_key
    chain_id, block = engine_chain_id(chain.genesis), outcome.block
    signed_block: BlockSignature = sign_block(block.header, block.hash, chain_id, key.public_key, key.sign, following)
    chain.commit(outcome, signed=signed_block)


def _miss_votes(chain: ChainStore, blocks: int) -> None:
    """Blocks that some validators did not vote on."""
    assert chain.governance is not None
    validators = [each.engine_address for each in chain.governance.validators]
    for number in range(blocks):
        chain.commit(_block(chain, []), absent=validators[: number % 3])
