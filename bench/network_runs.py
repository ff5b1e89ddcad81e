"""One load on a network of four validators, ours or the yardstick's, from the first request to the last block."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from bench.kvstore import KvstoreNetwork, kvstore_requests
from bench.load import Request, run_loads
from bench.machine import cpu_seconds
from bench.workload import Submission, bench_genesis
from cairn.cometbft import TomlValue
from tests.support.network import Network, NetworkNode

NODES = 4
CONNECTIONS = 16
"""To each node."""
CONFIRM_TIMEOUT_S = 300

ROOM: dict[str, TomlValue] = {"mempool.size": 100_000, "mempool.cache_size": 200_000}
"""For all of the load at once: CometBFT refuses what has no room, and the yardstick has nothing else to keep it in."""


@dataclass(frozen=True, slots=True)
class NetworkRun:
    per_second: float
    """Confirmed, over the time from the first request until all are in blocks."""
    cpu_us: float
    """Of all processes of all nodes, for one transaction."""
    engine_us: float
    """The share of CometBFT."""


def run_kvstore(scratch: Path, count: int, size_bytes: int) -> NetworkRun:
    network = Network(scratch, NODES, ROOM, linked=False)
    with KvstoreNetwork(network) as kvstore:
        loads = list(zip(kvstore.ports, kvstore_requests(count, size_bytes, NODES), strict=True))
        return _measure(loads, kvstore.confirmed, lambda: kvstore.pids, lambda: kvstore.pids)


@contextmanager
def run_cairn(scratch: Path, accounts: int, load: Sequence[Submission]) -> Iterator[tuple[Network, NetworkRun]]:
    """The network stays up within the `with` block."""
    with Network(scratch, NODES, ROOM, linked=False) as network:
        network.genesis = msgspec.structs.replace(network.genesis, alloc=bench_genesis(accounts).alloc)
        network.start()
        loads = [(port_of(node), share(load, node.index)) for node in network.nodes]
        counter = BlockCounter(network.nodes[0])
        yield network, measure_load(network, loads, counter)


def measure_load(
    network: Network, loads: Sequence[tuple[int, Sequence[Request]]], counter: "BlockCounter"
) -> NetworkRun:
    return _measure(
        loads, counter.confirmed, lambda: pids_of(network.nodes), lambda: pids_of(network.nodes, "cometbft")
    )


def port_of(node: NetworkNode) -> int:
    return urlsplit(node.url).port or 0


def share(load: Sequence[Submission], index: int, nodes: int = NODES) -> list[Request]:
    """The requests for one node: a sender's all go to the same one, as a wallet's would."""
    return [(tx.request, tx.tx_hash.hex().encode()) for tx in load[index::nodes]]


class BlockCounter:
    """Counts the transactions of a node's blocks from a height on, each block once."""

    def __init__(self, node: NetworkNode, first: int = 0) -> None:
        self._node = node
        self._next = first
        self._txs = 0

    def confirmed(self) -> int:
        # Not by /chain, which also counts what is pending: watching should cost the node as little as it can.
        newest = self._node.public.read("/block/latest")["blockHeight"]
        for height in range(self._next, newest + 1):
            self._txs += len(self._node.block(height)["transactions"])
            self._next = height + 1
        return self._txs


def pids_of(nodes: Sequence[NetworkNode], name: str = "") -> list[int]:
    """The ids of all processes of these nodes, or of those with this name."""
    found = []
    for node in nodes:
        assert node.process is not None
        found += [pid for pid, named in node.process.children().items() if name in named]
        found += [] if name else [node.process.process.pid]
    return found


def _measure(
    loads: Sequence[tuple[int, Sequence[Request]]],
    confirmed: Callable[[], int],
    pids: Callable[[], list[int]],
    engine_pids: Callable[[], list[int]],
) -> NetworkRun:
    count = sum(len(requests) for _, requests in loads)
    before, engine_before = cpu_seconds(pids()), cpu_seconds(engine_pids())
    started = time.perf_counter()
    run_loads(loads, CONNECTIONS)
    while confirmed() < count:
        if time.perf_counter() - started > CONFIRM_TIMEOUT_S:
            raise RuntimeError(f"{confirmed()} of {count} are confirmed after {CONFIRM_TIMEOUT_S} s")
        time.sleep(0.05)
    seconds = time.perf_counter() - started
    cpu_s, engine_s = cpu_seconds(pids()) - before, cpu_seconds(engine_pids()) - engine_before
    return NetworkRun(count / seconds, cpu_s / count * 1e6, engine_s / count * 1e6)
