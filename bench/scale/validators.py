"""Networks of several sizes whose validators are far from each other."""

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bench.__main__ import tell
from bench.confirmation import measure_confirmation
from bench.machine import memory
from bench.network_runs import ROOM, BlockCounter, measure_load, pids_of, port_of, share
from bench.recovery import RecoverySampler
from bench.scale.figures import FarValidators, Sizes
from bench.wan import Distance, far_apart
from bench.workload import Submission, bench_genesis, presign
from tests.support.network import Network

ACCOUNTS_A_NODE = 25


def measure_validators(
    scratch: Path, validators: int, delays_ms: Sequence[float], sizes: Sizes
) -> Iterator[FarValidators]:
    """One network, with one delay after the other: to start sixteen nodes takes longer than to measure them."""
    accounts = ACCOUNTS_A_NODE * validators
    # A sender stays at its validator, over all loads.
    load, paced = sizes.load // validators * validators, sizes.paced // validators * validators
    submissions = presign((load + paced) * len(delays_ms), accounts)
    with (
        Network(scratch / "network", validators, ROOM, linked=False) as network,
        far_apart(network, scratch) as distance,
    ):
        network.genesis = msgspec.structs.replace(network.genesis, alloc=bench_genesis(accounts).alloc)
        began = time.perf_counter()
        network.start()
        tell(f"{validators} validators are ready after {time.perf_counter() - began:.0f} s")
        for number, delay_ms in enumerate(delays_ms):
            tell(f"{validators} validators, {delay_ms:g} ms")
            distance.become(delay_ms)
            first = number * (load + paced)
            middle, last = first + load, first + load + paced
            yield _measure(network, distance, delay_ms, submissions[first:middle], submissions[middle:last], sizes)
        # Before their namespaces are gone.
        network.close()


def _measure(
    network: Network,
    distance: Distance,
    delay_ms: float,
    load: Sequence[Submission],
    paced: Sequence[Submission],
    sizes: Sizes,
) -> FarValidators:
    validators = len(network.nodes)
    first = _settled_height(network) + 1
    loads = [(port_of(node), share(load, node.index, validators)) for node in network.nodes]
    with RecoverySampler() as sampler:
        run = measure_load(network, loads, BlockCounter(network.nodes[0], first))
        recovery_us = sampler.finish().mean_us
    loaded, carried, began = _settled_height(network), distance.carried(), time.perf_counter()
    waits_s = sorted(measure_confirmation(network, paced, sizes.paced_per_s))
    took_s, blocks = time.perf_counter() - began, _settled_height(network) - loaded
    after = distance.carried()
    return FarValidators(
        validators=validators,
        delay_ms=delay_ms,
        confirmed_per_s=run.per_second,
        cpu_us=run.cpu_us,
        recovery_us=recovery_us,
        load_blocks=loaded - first + 1,
        confirmed_p50_s=statistics.median(waits_s),
        confirmed_p99_s=waits_s[int(0.99 * (len(waits_s) - 1))],
        block_s=took_s / blocks,
        block_packets=(after.packets - carried.packets) / blocks,
        block_bytes=(after.size_bytes - carried.size_bytes) / blocks,
        dropped_packets=after.dropped,
        memory_mb=memory(pids_of(network.nodes)).pss_mb / validators,
    )


def _settled_height(network: Network) -> int:
    """The height of the newest block, once the node that is watched has it too."""
    height = max(node.height() for node in network.nodes)
    network.nodes[0].await_height(height)
    return height
