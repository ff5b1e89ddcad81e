"""A dev chain with a long history, full blocks and a filled mempool, and the node that serves it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.prefill import store_block, stored_tx
from bench.workload import GENESIS_TIMESTAMP
from cairn.domain.genesis import DEV_KEYS, dev_genesis
from cairn.domain.types import TRANSFER_GAS, Address
from cairn.store.chain import ChainStore
from tests.support.node_process import NodeProcess

SENDERS = [address for address, _ in DEV_KEYS[:9]]
PAYER, PAYER_KEY = DEV_KEYS[9]
"""The account of the other client: nobody else uses it."""
FULL_BLOCK_TXS = 10_000
SUBMITTED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Size:
    small_blocks: int
    """With one transaction each, all of the same sender."""
    full_blocks: int
    pending: int


LARGE = Size(small_blocks=1_000, full_blocks=14, pending=6_000)
"""More full blocks than a worker remembers the trees of, so that a proof must build one."""
SMALL = Size(small_blocks=300, full_blocks=2, pending=1_000)


@dataclass(frozen=True, slots=True)
class Filled:
    """What requests can name."""

    height: int
    full_heights: Sequence[int]
    block_hashes: Sequence[str]
    """Of the full blocks."""
    tx_hashes: Sequence[str]
    """Some of each full block."""
    nonces: Mapping[Address, int]
    """Of each sender: the first that no block has."""


def fill_chain(directory: Path, size: Size) -> Filled:
    """Store the blocks, without a node."""
    nonces: Counter[Address] = Counter()
    full_heights, block_hashes, tx_hashes = [], [], []
    stored = 0
    with closing(ChainStore.open(directory, dev_genesis())) as chain:
        for number in range(size.small_blocks + size.full_blocks):
            is_full = number >= size.small_blocks
            txs = []
            for index in range(FULL_BLOCK_TXS if is_full else 1):
                sender = SENDERS[index % len(SENDERS)]
                txs.append(stored_tx(stored, nonces[sender], sender))
                nonces[sender] += 1
                stored += 1
            store_block(chain, txs, GENESIS_TIMESTAMP + number)
            if is_full:
                full_heights.append(chain.head_header.height)
                block_hashes.append("0x" + chain.head_hash.hex())
                tx_hashes += ["0x" + tx.hash.hex() for tx in txs[:: FULL_BLOCK_TXS // 50]]
        return Filled(chain.head_header.height, full_heights, block_hashes, tx_hashes, nonces)


@contextmanager
def running_node(data_dir: Path, program: Sequence[str] | None = None) -> Iterator[NodeProcess]:
    """A node that makes no block unless told: what is submitted stays in the mempool."""
    args = ("dev", "--port", "0", "--data-dir", str(data_dir), "--quiet")
    node = NodeProcess(args, program=program)
    try:
        node.wait_ready()
        call(node.url, "cairn_setMiningMode", {"automine": None, "interval": None})
        yield node
    finally:
        node.close()


def fill_mempool(url: str, count: int) -> None:
    """Transfers that the node signs."""
    with httpx.Client(base_url=url, timeout=60) as http:
        for start in range(0, count, SUBMITTED_AT_ONCE):
            transfers = [
                {
                    "from": "0x" + SENDERS[(start + number) % len(SENDERS)].hex(),
                    "to": "0x" + PAYER.hex(),
                    "value": 1,
                    "gas": TRANSFER_GAS,
                }
                for number in range(SUBMITTED_AT_ONCE)
            ]
            answer = http.post("/txs", json=transfers)
            answer.raise_for_status()
            refused = [each for each in answer.json() if "code" in each]
            if refused:
                raise RuntimeError(f"the mempool could not be filled: {refused[0]}")


def call(url: str, method: str, *params: object) -> Any:
    answer = httpx.post(f"{url}/rpc", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, timeout=60)
    content = answer.json()
    if "error" in content:
        raise RuntimeError(f"{method}: {content['error']}")
    return content["result"]
