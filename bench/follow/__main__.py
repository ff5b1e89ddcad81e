"""Follow thousands of addresses on a real node, and write reports/follow.md."""

import argparse
import asyncio
import platform
import sys
import tempfile
from pathlib import Path

from bench.follow.latency import BATCH, BATCH_EVERY_S, BLOCK_TIME_S, LatencyFigures, Plan, measure_latency
from bench.follow.replays import FULL_BLOCK_TXS, FULL_BLOCKS, Replay, measure_replays
from bench.machine import Stolen

REPORT = Path(__file__).parents[2] / "reports" / "follow.md"
FULL = Plan(large=10_000, small_sockets=1_000, small=10, block_sockets=100, seconds=15)
QUICK = Plan(large=1_000, small_sockets=100, small=10, block_sockets=10, seconds=3)


def report(plan: Plan, figures: LatencyFigures, replays: list[Replay], blocks: int, stolen_percent: float) -> str:
    addresses = plan.large + plan.small_sockets * plan.small
    each_bytes = (figures.large_mb - figures.connected_mb) * 2**20 / plan.large
    return f"""# Followed addresses

Written by `make follow`, on {platform.machine()} with Python {platform.python_version()}. The machine's host gave
{stolen_percent:.0f} % of the processor time to others meanwhile.

## Payments beside new blocks

One worker, one client process on the same machine, {figures.blocks} blocks of {BLOCK_TIME_S} s with
{figures.payments:,} payments, {BATCH} of them every {BATCH_EVERY_S} s, each to one of {addresses:,} followed addresses.
Milliseconds from the first event of a block on any socket, as the client has them: median, 90th and 99th percentile,
and the longest. They hold the client's own reading.

| event | events | 50 % | 90 % | 99 % | longest |
|---|---|---|---|---|---|
{chr(10).join(each.row() for each in figures.came)}

The worker used {figures.worker_cpu_percent:.0f} % of a processor, submissions included.

## Memory of the worker (PSS)

| | MB |
|---|---|
| idle | {figures.idle_mb:.1f} |
| with {plan.small_sockets + plan.block_sockets + 1:,} sockets | {figures.connected_mb:.1f} |
| one of which follows {plan.large:,} addresses | {figures.large_mb:.1f} |
| and {plan.small_sockets:,} follow {plan.small} each | {figures.small_mb:.1f} |
| after all payments | {figures.loaded_mb:.1f} |

The large socket takes {each_bytes:.0f} bytes for each address, what the worker remembers of its messages included.

## Replays

A chain of {blocks:,} blocks with one transaction each, but {FULL_BLOCKS} with {FULL_BLOCK_TXS:,}. Searched from the
first block to the last, without the sending, in processor time. *Longest step* is that between two points at which
others may have their turn.

| followed | payments | ms | longest step, ms |
|---|---|---|---|
{chr(10).join(each.row() for each in replays)}
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make follow", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, without a report")
    parser.add_argument("--blocks", type=int, default=20_000, help="of the chain in which payments are searched")
    parser.add_argument("--scratch", help="directory for that chain; one in memory is filled faster")
    options = parser.parse_args()
    plan, blocks = (QUICK, 300) if options.quick else (FULL, options.blocks)
    stolen = Stolen()
    figures = asyncio.run(measure_latency(plan))
    with tempfile.TemporaryDirectory(prefix="cairn-follow-", dir=options.scratch) as directory:
        replays = measure_replays(Path(directory), blocks)
    text = report(plan, figures, replays, blocks, stolen.percent())
    print(text)
    if not options.quick:
        REPORT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
