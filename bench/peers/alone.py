"""What only Cairn has a figure for: chains with many transfers, and a network of validators."""

import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import structlog

from bench import network
from bench.depth import depth_figures, measure_depth
from bench.light_load import measure_light_load
from bench.peers.rounds import measured
from bench.peers.rows import ALONE
from bench.peers.samples import Sample
from bench.peers.session import Figures

Tell = Callable[[str], None]
NETWORK_ROUNDS = 3
NETWORK_PACED = 100
STORED = (10_000, 10_000_000)
SMOKE_STORED = (2_000, 4_000)
DEPTH_WRITE_ROUNDS = 2
LIGHT_PER_S = 60
LIGHT_S = 15
SMOKE_LIGHT_S = 1


def measure_stored(scratch: Path, smoke: bool, tell: Tell) -> Figures:
    """Measure what each kind of request costs with few and with many stored transfers."""
    # Filling a chain is the node's own code in this process: it would log.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    few, many = SMOKE_STORED if smoke else STORED
    return depth_figures(measure_depth(scratch, (few, many), tell, 1 if smoke else DEPTH_WRITE_ROUNDS))


def measure_network(scratch: Path, smoke: bool, tell: Tell) -> Figures:
    """Measure what four validators confirm, beside four of CometBFT's kvstore."""
    sizes = network.SMOKE if smoke else replace(network.FULL, rounds=NETWORK_ROUNDS, paced=NETWORK_PACED)
    found = network.measure(scratch, sizes)
    pairs = zip(found.cairn, found.kvstore, strict=True)
    return {
        "cairn_per_s": statistics.median(run.per_second for run in found.cairn),
        "kvstore_per_s": statistics.median(run.per_second for run in found.kvstore),
        "kvstore_ratio": statistics.median(ours.per_second / theirs.per_second for ours, theirs in pairs),
        "cairn_cpu_us": statistics.median(run.cpu_us for run in found.cairn),
        "kvstore_cpu_us": statistics.median(run.cpu_us for run in found.kvstore),
    }


def measure_light(scratch: Path, smoke: bool, tell: Tell) -> Figures:
    """Measure four validators to which payments trickle in."""
    found = measure_light_load(scratch, LIGHT_PER_S, SMOKE_LIGHT_S if smoke else LIGHT_S, {}, {})
    return {
        "light_cpu_ms": 1_000 * found.loaded.total_s / len(found.confirmation_s),
        "light_p50_ms": 1_000 * statistics.median(found.confirmation_s),
        "light_idle_cores": found.idle.total_s / found.idle.seconds,
    }


_WORKS: dict[str, Callable[[Path, bool, Tell], Figures]] = {
    "network": measure_network,
    "light": measure_light,
    "depth": measure_stored,
}
ALONE_ROWS = tuple(_WORKS)


def measure_alone(row: str, scratch: Path, smoke: bool, tell: Tell) -> Sample:
    """Measure one of the rows. An error is in the sample."""
    scratch.mkdir(parents=True, exist_ok=True)
    tell(f"Cairn: {row}")
    return measured(ALONE, row, 0, lambda: _WORKS[row](scratch, smoke, tell), 0.0)
