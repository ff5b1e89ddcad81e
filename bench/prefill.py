"""Fills a data directory without HTTP: valid blocks, written by the very store code that the node runs.

Only the signatures are made up: the store never reads them, and a million real ones would take minutes to make.
"""

from collections.abc import Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from random import Random

from bench.workload import GAS_PRICE, GENESIS_TIMESTAMP, MAX_VALUE, account
from cairn.domain.genesis import Genesis
from cairn.domain.transition import build_block
from cairn.domain.types import TRANSFER_GAS, ZERO_ADDRESS, Address, Tx, TxHash
from cairn.store.chain import ChainStore
from tests.support.signing import commit_signed

TXS_PER_BLOCK = 2_000


def prefill(directory: Path, genesis: Genesis, count: int) -> None:
    """Store the first `count` transfers of the endless sequence in which the accounts take turns."""
    senders = [account(index)[0] for index in range(len(genesis.alloc))]
    with closing(ChainStore.open(directory, genesis)) as chain:
        for first in range(0, count, TXS_PER_BLOCK):
            txs = [_stored_tx(index, senders) for index in range(first, min(count, first + TXS_PER_BLOCK))]
            store_block(chain, txs, GENESIS_TIMESTAMP + first)


def store_block(chain: ChainStore, txs: Sequence[Tx], timestamp: int) -> None:
    """Make the next block of these transactions, and store it."""
    outcome = build_block(
        parent=chain.head_header,
        parent_hash=chain.head_hash,
        state=chain,
        txs=txs,
        timestamp=timestamp,
        proposer=ZERO_ADDRESS,
        rules=chain.genesis.rules,
    )
    commit_signed(chain, outcome)


def _stored_tx(index: int, senders: Sequence[Address]) -> Tx:
    nonce, turn = divmod(index, len(senders))
    return stored_tx(index, nonce, senders[turn])


def stored_tx(index: int, nonce: int, sender: Address) -> Tx:
    """A transfer to a stranger. No two indexes have the same hash."""
    # Addresses and hashes are spread as real ones are: that is what makes an index of a million entries costly.
    random = Random(f"prefill {index}")
    return Tx(
        hash=TxHash(blake2b(b"prefill %d" % index, digest_size=32).digest()),
        sender=sender,
        to=Address(random.randbytes(20)),
        nonce=nonce,
        gas=TRANSFER_GAS,
        gas_price=GAS_PRICE,
        value=random.randrange(1, MAX_VALUE),
        signature=random.randbytes(64) + b"\0",
    )
