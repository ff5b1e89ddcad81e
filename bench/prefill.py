"""Fills a data directory without HTTP: valid blocks, written by the very store code that the node runs.

Only the signatures are made up: the store never reads them, and a million real ones would take minutes to make.
"""

from collections.abc import Sequence
from hashlib import blake2b
from random import Random

from bench.workload import GAS_PRICE, MAX_VALUE
from cairn.domain.transition import build_block
from cairn.domain.types import TRANSFER_GAS, ZERO_ADDRESS, Address, Tx, TxHash
from cairn.store.chain import ChainStore
from tests.support.signing import commit_signed


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
