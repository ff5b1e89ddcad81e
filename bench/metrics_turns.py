"""What metrics and logs cost a node: the same node with them and without, in turns.

`python -m bench.metrics_turns`, on a machine that does nothing else. The nodes are those of `bench.switching`, under
full load. Two neighbouring slots, one with metrics and logs and one without, are a pair. Compared are the processor
time of its processes an answer, which is what bounds the throughput, and the throughput itself. Each node is new, since
where its code lies in memory may matter, too; the intervals are those of all pairs, as if it did not. By its own counts
a node must have counted in the slots with metrics only. Written to reports/metrics.md.
"""

import argparse
import math
import statistics
import sys
import tempfile
from bisect import bisect
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from bench.flood import flood
from bench.load import Request
from bench.machine import this_machine
from bench.metrics_cost import call
from bench.node import BenchNode, make_home
from bench.switching import GO, SLOT_S, notes_in
from bench.workload import bench_genesis, presign
from tests.support.direct_worker import get
from tests.support.metrics import scrape
from tests.support.ports import free_ports

REPORT = Path(__file__).parents[1] / "reports" / "metrics.md"
ACCOUNTS = 1_000
CONNECTIONS = 64
SUBMISSIONS = 100_000
READS = 600_000
COUNTED_WITHIN = 0.02
"""What a node has counted may differ by so much of all answers from those in the slots with metrics."""


class Load(NamedTuple):
    route: str
    requests: list[Request]


class Slot(NamedTuple):
    counts: bool
    seconds: float
    used_s: float
    """Processor time of all processes."""
    answers: int

    @property
    def cost(self) -> float:
        return self.used_s / self.answers

    @property
    def rate(self) -> float:
        return self.answers / self.seconds


class Pair(NamedTuple):
    """What metrics and logs add, as a logarithm."""

    cost: float
    throughput: float


def all_loads() -> dict[str, Load]:
    payments = [(each.request, each.tx_hash.hex().encode()) for each in presign(SUBMISSIONS, ACCOUNTS)]
    account = "0x" + next(iter(bench_genesis(ACCOUNTS).alloc)).hex()
    return {
        "POST /tx": Load("POST /tx", payments),
        "GET /account/{address}": Load("GET /account/{address}", [(get(f"/account/{account}"), b"balance")] * READS),
        "eth_getBalance": Load("POST /rpc", [(call("eth_getBalance", account, "latest"), b"result")] * READS),
    }


def measure(scratch: Path, loads: dict[str, Load]) -> dict[str, list[Pair]]:
    """By load, of one new node."""
    home, directory = scratch / "home", scratch / "notes"
    directory.mkdir()
    make_home(home, bench_genesis(ACCOUNTS))
    [metrics_port] = free_ports(1)
    # One worker: with more of them, and the load generator, a machine of two processors would measure its scheduler.
    env = {"CAIRN_WORKERS": "1", "CAIRN_METRICS_PORT": str(metrics_port)}
    program = [sys.executable, "-m", "bench.switching", str(directory)]
    pairs = {}
    with BenchNode(home, env=env, program=program) as node:
        (directory / GO).touch()
        for name, load in loads.items():
            node.await_quiet()
            before = _counted(metrics_port, load.route)
            answered_at = sorted(flood(node.port, load.requests, CONNECTIONS))
            node.await_empty_mempool()
            slots = slots_of(directory, answered_at)
            _check([*slots.values()], _counted(metrics_port, load.route) - before)
            pairs[name] = pairs_of(slots)
    return pairs


def _counted(metrics_port: int, route: str) -> float:
    shown = scrape(f"http://127.0.0.1:{metrics_port}/metrics")
    return shown.total("cairn_http_requests_total", route=route, code="200")


def slots_of(directory: Path, answered_at: Sequence[float]) -> dict[int, Slot]:
    """By number: those with answers that all processes have noted."""
    slots: dict[int, list[Slot]] = {}
    paths = [path for path in directory.iterdir() if path.name != GO]
    for path in paths:
        for begin, end in pairwise(notes_in(path)):
            answers = bisect(answered_at, end.at_s) - bisect(answered_at, begin.at_s)
            if answers and end.slot == begin.slot + 1:
                slot = Slot(begin.counts, end.at_s - begin.at_s, end.used_s - begin.used_s, answers)
                slots.setdefault(begin.slot, []).append(slot)
    whole = {number: each for number, each in slots.items() if len(each) == len(paths)}
    return {
        number: busiest._replace(used_s=sum(slot.used_s for slot in each))
        for number, each in whole.items()
        for busiest in [max(each, key=lambda slot: slot.used_s)]
    }


def _check(slots: Sequence[Slot], counted: float) -> None:
    due = sum(slot.answers for slot in slots if slot.counts)
    if abs(counted - due) > COUNTED_WITHIN * sum(slot.answers for slot in slots):
        raise RuntimeError(f"{counted:.0f} answers were counted, and {due} were given while the node counts")


def pairs_of(slots: dict[int, Slot]) -> list[Pair]:
    # At its begin and its end a load is not full.
    full = range(min(slots) + 2, max(slots) - 2)
    pairs = []
    for number in range(full.start + full.start % 2, full.stop, 2):
        both = [slots[each] for each in (number, number + 1) if each in slots]
        if len(both) == 2:
            without, counting = sorted(both, key=lambda slot: slot.counts)
            pairs.append(Pair(math.log(counting.cost / without.cost), math.log(counting.rate / without.rate)))
    return pairs


def describe(logarithms: Sequence[float]) -> str:
    """The median, and where it lies with a probability of 95 %, however the values are distributed."""
    ordered = sorted(logarithms)
    rank = max(0, math.floor(len(ordered) / 2 - 0.98 * math.sqrt(len(ordered))) - 1)
    middle, low, high = (
        f"{100 * math.expm1(each):+.2f}" for each in (statistics.median(ordered), ordered[rank], ordered[-1 - rank])
    )
    return f"{middle} % ({low} to {high} %)"


def row_of(name: str, pairs: Sequence[Pair]) -> str:
    cost, throughput = (describe(values) for values in zip(*pairs, strict=True))
    return f"| {name} | {len(pairs):,} | {cost} | {throughput} |"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nodes", type=int, default=20)
    nodes = options.parse_args().nodes
    loads = all_loads()
    pairs: dict[str, list[Pair]] = {name: [] for name in loads}
    for number in range(nodes):
        with tempfile.TemporaryDirectory(prefix="cairn-bench-") as scratch:
            of_node = measure(Path(scratch), loads)
        for name, more in of_node.items():
            pairs[name] += more
        rows = [row_of(name, found) for name, found in pairs.items()]
        print(f"{number + 1} of {nodes} nodes:", *rows, sep="\n", flush=True)
    REPORT.write_text(f"""# What metrics and logs cost

`make metrics-cost`: {nodes} nodes, each with one worker, under full load over {CONNECTIONS} connections. All processes
of a node take metrics and logs out of their code and put them back every {1000 * SLOT_S:.0f} ms. Two neighbouring slots
are a pair. The medians, and where they lie with a probability of 95 %. On {this_machine()}.

| load | pairs | processor time of an answer | throughput |
|---|---|---|---|
{chr(10).join(rows)}
""")


if __name__ == "__main__":
    main()
