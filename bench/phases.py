"""What is measured of one node: start, memory, the load, and lookups."""

import functools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.load import LoadResult, run_load
from bench.machine import Memory
from bench.node import BenchNode, make_home
from bench.recovery import Recovery, RecoverySampler
from bench.workload import Submission, bench_genesis, lookup, presign
from cairn.domain.types import ACCESS_LIST, DYNAMIC_FEE, LEGACY

CONNECTIONS = 64
DATA_DIR = "data"
REFERENCE = b"invoice 4711, customer 20077"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    accounts: int
    starts: int
    load: int
    load_parts: int
    rest_s: float


FULL = Sizes(
    accounts=5_000,
    starts=5,
    load=100_000,
    load_parts=5,
    rest_s=1.0,
)
SMOKE = Sizes(
    accounts=50,
    starts=1,
    load=300,
    load_parts=2,
    rest_s=0.1,
)


@dataclass(frozen=True, slots=True)
class LoadCost:
    """What one transaction costs, from its first byte until it is confirmed and the store is at rest."""

    cpu_us: float
    """Of all processes."""
    core_cpu_us: float
    """The share of the core; the rest is the workers'."""
    confirmed_s: float
    """From the first submission to the last confirmation."""
    posts: LoadResult
    recovery: Recovery
    """Measured beside the load."""

    @property
    def cost_ratio(self) -> float:
        """Held against its own recoveries, so that a slow minute of the machine hits both."""
        return self.cpu_us / self.recovery.mean_us


def median_ratio(parts: Iterable[LoadCost]) -> float:
    return statistics.median(part.cost_ratio for part in parts)


@dataclass(frozen=True, slots=True)
class MainFigures:
    start_s: list[float]
    idle: Memory
    loaded: Memory
    parts: list[LoadCost]
    """Accounts that pay each other."""
    strangers: LoadCost
    """Each transfer makes an account."""
    with_data: LoadCost
    """Each transfer carries a reference."""
    typed: dict[int, list[LoadCost]]
    """By the type of the transactions, measured in turns."""
    gets: LoadResult

    @property
    def confirmed_per_s(self) -> float:
        return len(self.posts.latencies_s) / sum(part.confirmed_s for part in self.parts)

    @property
    def posts(self) -> LoadResult:
        return functools.reduce(LoadResult.joined, (part.posts for part in self.parts))


def measure_main(scratch: Path, sizes: Sizes, tell: Tell) -> MainFigures:
    """Start-up, idle memory, the load, and lookups of all that it left behind."""
    genesis = bench_genesis(sizes.accounts)
    tell(f"start-up on an empty directory, {sizes.starts} times")
    starts = []
    for number in range(sizes.starts):
        make_home(scratch / f"start-{number}", bench_genesis(10))
        with BenchNode(scratch / f"start-{number}", sizes.rest_s) as node:
            starts.append(node.ready_s)
            node.await_quiet()
            idle = node.memory()
    tell(f"signing {sizes.load:,} transfers ahead of time")
    submissions = presign(sizes.load, sizes.accounts)
    part_size = -(-sizes.load // sizes.load_parts)
    to_strangers = presign(part_size, sizes.accounts, first=sizes.load, to_strangers=True)
    # The nonces go on from load to load.
    kinds = (LEGACY, ACCESS_LIST, DYNAMIC_FEE) * sizes.load_parts
    of_each_kind = presign(len(kinds) * part_size // 2, sizes.accounts, first=sizes.load + part_size, kinds=kinds)
    signed = sizes.load + part_size + len(of_each_kind)
    with_data = presign(part_size, sizes.accounts, first=signed, data=REFERENCE)
    make_home(scratch / "main", genesis)
    with BenchNode(scratch / "main", sizes.rest_s) as node:
        node.await_quiet()
        parts = []
        for part in split(submissions, sizes.load_parts):
            tell(f"submitting {len(part):,} transfers over {CONNECTIONS} connections")
            parts.append(measure_load(node, part))
        node.await_quiet()
        loaded = node.memory()
        tell("looking up every one of them")
        gets = look_up(node, submissions)
        tell(f"submitting {len(to_strangers):,} transfers to accounts that the chain has never seen")
        strangers = measure_load(node, to_strangers)
        # In turns: what the store does behind the node falls now on one part, now on another.
        typed: dict[int, list[LoadCost]] = defaultdict(list)
        for kind, transfers in zip(kinds, split(of_each_kind, len(kinds)), strict=True):
            tell(f"submitting {len(transfers):,} transfers of type {kind}")
            typed[kind].append(measure_load(node, transfers))
        tell(f"submitting {len(with_data):,} transfers with {len(REFERENCE)} bytes of data")
        costs_with_data = measure_load(node, with_data)
    return MainFigures(starts, idle, loaded, parts, strangers, costs_with_data, typed, gets)


def split(submissions: Sequence[Submission], parts: int) -> list[Sequence[Submission]]:
    size = -(-len(submissions) // parts)
    return [submissions[start : start + size] for start in range(0, len(submissions), size)]


def measure_load(node: BenchNode, submissions: Sequence[Submission]) -> LoadCost:
    requests = [(tx.request, tx.tx_hash.hex().encode()) for tx in submissions]
    before_s, core_before_s = node.cpu_seconds(), node.core_cpu_seconds()
    started = time.perf_counter()
    with RecoverySampler() as sampler:
        posts = run_load(node.port, requests, CONNECTIONS)
        recovery = sampler.finish()
    node.await_empty_mempool()
    confirmed_s = time.perf_counter() - started
    node.await_quiet()
    cpu_s, core_cpu_s = node.cpu_seconds() - before_s, node.core_cpu_seconds() - core_before_s
    return LoadCost(
        cpu_us=cpu_s / len(submissions) * 1e6,
        core_cpu_us=core_cpu_s / len(submissions) * 1e6,
        confirmed_s=confirmed_s,
        posts=posts,
        recovery=recovery,
    )


def look_up(node: BenchNode, submissions: Sequence[Submission]) -> LoadResult:
    """GET /tx of each, in random order. Raises `RuntimeError` unless every one is confirmed."""
    requests = [(lookup(tx.tx_hash), b'"confirmed"') for tx in submissions]
    Random(0).shuffle(requests)
    return run_load(node.port, requests, CONNECTIONS)
