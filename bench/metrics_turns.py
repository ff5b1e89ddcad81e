"""What metrics and logs cost a real node: the same loads on one with them and on one without, in turns.

`python -m bench.metrics_turns`. Without is the source that `bench.metrics_cost` makes, with a `log_level` of "error".
Each turn has new nodes, the one with metrics first in every other turn, and compares the CPU time of all processes a
request: it is what bounds the throughput, and varies less than that.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench.load import Request, run_load
from bench.metrics_cost import SOURCE, call, copy_without
from bench.node import BenchNode, make_home
from bench.workload import bench_genesis, presign
from tests.support.direct_worker import get

ACCOUNTS = 1_000
CONNECTIONS = 64
SUBMISSIONS = 10_000
READS = 40_000


class Variant(NamedTuple):
    package: Path
    log_level: str

    def measure(self, home: Path, loads: dict[str, list[Request]]) -> dict[str, float]:
        """By load: microseconds of CPU a request."""
        make_home(home, bench_genesis(ACCOUNTS))
        env = {"PYTHONPATH": str(self.package), "CAIRN_LOG_LEVEL": self.log_level}
        costs: dict[str, float] = {}
        with BenchNode(home, env=env) as node:
            for name, requests in loads.items():
                node.await_quiet()
                before_s = node.cpu_seconds()
                run_load(node.port, requests, CONNECTIONS)
                node.await_empty_mempool()
                costs[name] = 1e6 * (node.cpu_seconds() - before_s) / len(requests)
        return costs


def all_loads() -> dict[str, list[Request]]:
    account = "0x" + next(iter(bench_genesis(ACCOUNTS).alloc)).hex()
    payments = [(each.request, each.tx_hash.hex().encode()) for each in presign(SUBMISSIONS, ACCOUNTS)]
    return {
        "POST /tx": payments,
        "GET /account/{address}": [(get(f"/account/{account}"), b"balance")] * READS,
        "eth_getBalance": [(call("eth_getBalance", account, "latest"), b"result")] * READS,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--turns", type=int, default=12)
    turns = options.parse_args().turns
    loads = all_loads()
    more: dict[str, list[float]] = {name: [] for name in loads}
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as scratch:
        stripped = Path(scratch) / "without"
        stripped.mkdir()
        copy_without(stripped)
        variants = {"without": Variant(stripped, "error"), "with": Variant(SOURCE.parent, "info")}
        for turn in range(turns):
            costs = {}
            for name in sorted(variants, reverse=bool(turn % 2)):
                costs[name] = variants[name].measure(Path(scratch) / f"{name}-{turn}", loads)
            for load, ratios in more.items():
                ratios.append(100 * (costs["with"][load] / costs["without"][load] - 1))
            shown = ", ".join(f"{load} {ratios[-1]:+.1f} %" for load, ratios in more.items())
            print(f"turn {turn + 1}: {shown}", flush=True)
    for load, ratios in more.items():
        low, middle, high = statistics.quantiles(ratios)
        print(f"{load}: {middle:+.1f} % in the median, half of the turns from {low:+.1f} to {high:+.1f} %")


if __name__ == "__main__":
    main()
