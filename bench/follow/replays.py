"""How long a search for payments takes in a long chain, with one address and with thousands, and by which way."""

import random
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.greedy.chain import SENDERS
from bench.prefill import store_block, stored_tx
from bench.workload import GENESIS_TIMESTAMP
from cairn.api.chain_reads import ChainReads
from cairn.api.events.payment_search import FoundPayment, PaymentSearch
from cairn.domain.errors import Starting, Unavailable
from cairn.domain.genesis import dev_genesis
from cairn.domain.types import Address
from cairn.store.chain import ChainStore
from cairn.store.follower import FollowerStore


@dataclass(frozen=True, slots=True)
class Replay:
    name: str
    found: int
    took_ms: float
    longest_step_ms: float
    """Between two points at which others may have their turn."""

    def row(self) -> str:
        return f"| {self.name} | {self.found:,} | {self.took_ms:,.1f} | {self.longest_step_ms:.2f} |"


class StoreReads(ChainReads):
    """The reads of a worker."""

    def __init__(self, store: FollowerStore) -> None:
        super().__init__()
        self._store = store
        self.height = store.visible

    def why_unavailable(self) -> Unavailable:
        return Starting("it is open")


THRICE = Address(b"\x33" * 20)
FULL_BLOCKS = 3
FULL_BLOCK_TXS = 10_000


def measure_replays(directory: Path, blocks: int) -> list[Replay]:
    """On a chain of blocks with one transaction each, but for a few full ones."""
    rng = random.Random(1)
    with closing(ChainStore.open(directory / "data", dev_genesis())) as chain:
        payees = _fill(chain, blocks)
        with closing(FollowerStore.open(directory / "data", directory / "scratch")) as store:
            reads = StoreReads(store)
            strangers = [Address(rng.randbytes(20)) for _ in range(10_000)]
            return [
                _replay("1 address with 3 payments", reads, {THRICE}),
                _replay("1 address that pays in every block", reads, {SENDERS[0]}),
                _replay("10 addresses without any", reads, set(strangers[:10])),
                _replay("1,000 addresses without any", reads, set(strangers[:1_000])),
                _replay("10,000 addresses without any", reads, set(strangers)),
                _replay("10,000 addresses, most of them paid", reads, set(rng.sample(payees, 10_000))),
            ]


def _fill(chain: ChainStore, blocks: int) -> list[Address]:
    """Store the blocks. Returns who was paid."""
    payees: list[Address] = []
    nonces = dict.fromkeys(SENDERS, 0)
    full = {blocks * number // FULL_BLOCKS - 1 for number in range(1, FULL_BLOCKS + 1)}
    for number in range(blocks):
        txs = []
        for index in range(FULL_BLOCK_TXS if number in full else 1):
            sender = SENDERS[index % len(SENDERS)]
            txs.append(stored_tx(len(payees) + index, nonces[sender], sender))
            nonces[sender] += 1
        if number in full:
            txs[-1] = msgspec.structs.replace(txs[-1], to=THRICE)
        payees += [tx.to for tx in txs]
        store_block(chain, txs, GENESIS_TIMESTAMP + number)
    return payees


def _replay(name: str, reads: StoreReads, followed: set[Address]) -> Replay:
    found, longest_s = 0, 0.0
    began = at = time.thread_time()
    for step in PaymentSearch(reads, followed, (0, 0)).steps(reads.height):
        now = time.thread_time()
        longest_s, at = max(longest_s, now - at), now
        found += isinstance(step, FoundPayment)
    return Replay(name, found, 1_000 * (time.thread_time() - began), 1_000 * longest_s)
