"""Signed chains, and their snapshots carried from one store to another."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cairn.domain.genesis import DEV_KEYS, Genesis, dev_genesis, genesis_digest
from cairn.domain.governance import ValidatorRecord, encode_governance
from cairn.domain.transactions import sign_draft
from cairn.domain.transition import BlockOutcome, GovernanceChange
from cairn.domain.types import Address, BlockHash, Draft, Tx
from cairn.store.chain import ChainStore
from cairn.store.directory import snapshots_path
from cairn.store.snapshot import Manifest, SnapshotDirectory
from tests.support.blocks import extend
from tests.support.tx_data import data_by_number, gas_of

CHAIN_ID = 1337
GWEI = 10**9
PEOPLE = [address for address, _ in DEV_KEYS]
VALIDATORS = tuple(ValidatorRecord(bytes([number]) * 32, 10, PEOPLE[number], f"v{number}") for number in range(1, 4))


def network_genesis(gas_price: int = GWEI) -> Genesis:
    dev = dev_genesis()
    return Genesis(dev.chain_id, dev.timestamp, gas_price, dev.block_gas_limit, dev.alloc, VALIDATORS)


def pay(chain: ChainStore, sender: int, to: Address, value: int = 1, after: Sequence[Tx] = (), data: bytes = b"") -> Tx:
    """A signed transfer by a dev account; `after` are those that come before it in its block."""
    address, key = DEV_KEYS[sender]
    nonce = chain.account(address).nonce + sum(tx.sender == address for tx in after)
    draft = Draft(address, to, value, gas_of(data), chain.genesis.gas_price, nonce, data=data)
    return sign_draft(draft, key, CHAIN_ID)


def prune_until(chain: ChainStore, base: int, pauses: int) -> bool:
    """Remove the blocks below `base`, and break off at that pause in it. Returns whether it came to that pause."""
    left = pauses

    def pause() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise InterruptedError

    try:
        chain.prune(base, pause)
    except InterruptedError:
        return True
    return False


def add_block(
    chain: ChainStore, txs: Sequence[Tx] = (), proposer: Address = PEOPLE[9], change: GovernanceChange | None = None
) -> BlockOutcome:
    return extend(chain, txs, proposer, change)


def grow_signed(chain: ChainStore, blocks: int, strangers: int = 2) -> None:
    """Blocks of transfers to dev accounts and to `strangers` new accounts each."""
    for _ in range(blocks):
        txs: list[Tx] = []
        for number in range(strangers):
            stranger = Address(bytes(16) + (1_000 * (chain.visible + 1) + number).to_bytes(4, "big"))
            txs.append(pay(chain, number % 9, stranger, 5, txs, data_by_number(number)))
        txs.append(pay(chain, 0, PEOPLE[1], 7, txs))
        add_block(chain, txs)


@dataclass
class Parcel:
    """A snapshot outside of any store."""

    manifest: Manifest
    trusted: BlockHash
    chunks: list[bytes] = field(default_factory=list)


def take_snapshot(chain: ChainStore, height: int | None = None) -> Parcel:
    """The snapshot of the newest block that changed the state, or of `height`."""
    if height is None:
        height = chain.find_height(chain.state_block_hash)
    assert height is not None
    governance = b"" if chain.governance is None else encode_governance(chain.governance)
    shelf = SnapshotDirectory(snapshots_path(chain.directory))
    manifest = shelf.take(chain, height, genesis_digest(chain.genesis), governance, lambda: None)
    found = chain.find_header(height)
    assert found is not None
    chunks = [shelf.find_chunk(height, index) for index in range(len(manifest.chunks))]
    return Parcel(manifest, found[0], [chunk for chunk in chunks if chunk is not None])


def restore_snapshot(chain: ChainStore, parcel: Parcel) -> None:
    restore = chain.begin_restore(parcel.manifest, parcel.trusted)
    for index, chunk in enumerate(parcel.chunks):
        restore.add_chunk(index, chunk)
    chain.finish_restore(restore)
    chain.clear_restore()


def open_chain(directory: Path, gas_price: int = GWEI) -> ChainStore:
    return ChainStore.open(directory, network_genesis(gas_price))
