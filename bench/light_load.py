"""Four validators at a light load: what a second, a block and a transaction cost, by kind of process.

`make bench-network ARGS="--rate 60"`. The processes cost more when nothing happens often than when much happens at
once, so a network of payments that trickle in has its own figure.
"""

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.confirmation import measure_confirmation
from bench.machine import Memory, cpu_seconds, memory
from bench.network_runs import NODES
from bench.recovery import RecoverySampler
from bench.report import Line
from bench.workload import bench_genesis, presign
from cairn.cometbft import TomlValue
from tests.support.network import Network

ACCOUNTS = 400
SETTLE_S = 3.0
"""After the start: stores are opened, peers connected."""
WARM_UP_S = 2.0
MAX_CPU_MS_AT_60 = 3.0
KINDS = {"cometbft": "CometBFT", "cairn-core": "core", "cairn-api": "workers", "cairn": "supervisor"}
"""Names of processes, from the longest on, and what they are called here."""


@dataclass(frozen=True, slots=True)
class Span:
    """A while in which the network did one thing."""

    seconds: float
    blocks: int
    cpu_s: Mapping[str, float]
    """By kind of process, over all nodes."""

    @property
    def total_s(self) -> float:
        return sum(self.cpu_s.values())


@dataclass(frozen=True, slots=True)
class LightLoad:
    idle: Span
    loaded: Span
    confirmation_s: Sequence[float]
    """Sorted, from the POST to the event."""
    recovery_us: float
    """What one signature check took beside the load: it shows how much the machine had to do for others."""
    memory: Mapping[str, Memory]
    """Of one idle node, by kind of process."""


def measure_light_load(
    scratch: Path, rate: float, seconds: float, config: Mapping[str, TomlValue], environment: Mapping[str, str]
) -> LightLoad:
    warm_up, load = round(rate * WARM_UP_S), round(rate * seconds)
    submissions = presign(warm_up + load, ACCOUNTS)
    with Network(scratch, NODES, config, linked=False) as network:
        network.genesis = msgspec.structs.replace(network.genesis, alloc=bench_genesis(ACCOUNTS).alloc)
        for node in network.nodes:
            node.environment = environment
        network.start()
        time.sleep(SETTLE_S)
        with _span(network) as idle:
            time.sleep(seconds)
        held = {kind: memory(pids[:1]) for kind, pids in _pids(network).items()}
        measure_confirmation(network, submissions[:warm_up], rate)
        with RecoverySampler() as sampler, _span(network) as loaded:
            confirmation_s = measure_confirmation(network, submissions[warm_up:], rate)
            recovery_us = sampler.finish().mean_us
        return LightLoad(idle[0], loaded[0], sorted(confirmation_s), recovery_us, held)


@contextmanager
def _span(network: Network) -> Iterator[list[Span]]:
    """What happens within the `with` block is in the list after it."""
    found: list[Span] = []
    pids = _pids(network)
    height, before, began = network.nodes[0].height(), _cpu(pids), time.perf_counter()
    yield found
    took_s, after = time.perf_counter() - began, _cpu(pids)
    cpu_s = {kind: after[kind] - before[kind] for kind in pids}
    found.append(Span(took_s, network.nodes[0].height() - height, cpu_s))


def _pids(network: Network) -> dict[str, list[int]]:
    """The processes of all nodes by kind, the first node's first."""
    kinds: dict[str, list[int]] = {label: [] for label in KINDS.values()}
    for node in network.nodes:
        assert node.process is not None
        kinds[KINDS["cairn"]].append(node.process.process.pid)
        for pid, name in node.process.children().items():
            kinds[next(label for start, label in KINDS.items() if name.startswith(start))].append(pid)
    return kinds


def _cpu(kinds: Mapping[str, Sequence[int]]) -> Counter[str]:
    return Counter({kind: cpu_seconds(pids) for kind, pids in kinds.items()})


def light_lines(found: LightLoad, rate: float) -> list[Line]:
    count, waits = len(found.confirmation_s), found.confirmation_s
    idle, loaded = found.idle, found.loaded
    # A second of the load costs what an idle one does, blocks, and transactions.
    bar = MAX_CPU_MS_AT_60 if rate == 60 else None
    lines = [Line("idle_ms_per_s", f"idle: CPU a second, {NODES} nodes", 1e3 * idle.total_s / idle.seconds, "ms")]
    lines += [
        Line(f"idle_{kind.lower()}_ms_per_s", f"  ... of which {kind}", 1e3 * cpu_s / idle.seconds, "ms")
        for kind, cpu_s in idle.cpu_s.items()
    ]
    lines += [
        Line("idle_blocks_per_s", "idle: blocks", idle.blocks / idle.seconds, "/s"),
        Line(
            "cpu_ms_per_tx", f"CPU a transaction at {rate:g}/s, {NODES} nodes", 1e3 * loaded.total_s / count, "ms", bar
        ),
    ]
    lines += [
        Line(f"{kind.lower()}_ms_per_tx", f"  ... of which {kind}", 1e3 * cpu_s / count, "ms")
        for kind, cpu_s in loaded.cpu_s.items()
    ]
    lines += [
        Line("cost_ratio", "  ... in recoveries", 1e6 * loaded.total_s / count / found.recovery_us, "x"),
        Line("recovery_us", "one bare libsecp256k1 recovery, beside the load", found.recovery_us, "us"),
        Line("blocks_per_s", f"blocks at {rate:g}/s", loaded.blocks / loaded.seconds, "/s"),
        Line("confirm_p50_ms", "POST to txConfirmed, p50", 1e3 * statistics.median(waits), "ms"),
        Line("confirm_p99_ms", "POST to txConfirmed, p99", 1e3 * waits[int(0.99 * (count - 1))], "ms"),
    ]
    for kind, held in found.memory.items():
        lines += [
            Line(f"{kind.lower()}_rss_mb", f"memory of one idle node's {kind}, RSS", held.rss_mb, "MB"),
            Line(f"{kind.lower()}_pss_mb", "  ... shared pages by share (PSS)", held.pss_mb, "MB"),
        ]
    return lines
