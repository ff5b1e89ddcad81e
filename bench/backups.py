"""Backups of a node that takes as many payments as it can: all that it has answered before is in them.

Each is restored elsewhere and verified, and a node asked there for every payment that the first one had answered before
the backup began. Written to reports/backups.md.
"""

import argparse
import json
import subprocess
import tempfile
import time
from bisect import bisect
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from bench.flood import flood
from bench.machine import this_machine
from bench.node import BenchNode, make_home
from bench.workload import Submission, bench_genesis, presign
from tests.support.direct_worker import get
from tests.support.node_process import clean_environment, command

REPORT = Path(__file__).parents[1] / "reports" / "backups.md"
ACCOUNTS = 1_000
CONNECTIONS = 64
REST_S = 3.0
"""Before each backup, for the rate without one."""
OPTIONS = ("--mempool-size=100000",)


class Made(NamedTuple):
    path: str
    began_at: float
    ended_at: float
    size_bytes: int


def cairn(*args: object) -> dict[str, Any]:
    """What a command prints as JSON. Raises `CalledProcessError` when it fails."""
    done = subprocess.run(
        command([*map(str, args), "--json"]), capture_output=True, text=True, check=True, env=clean_environment()
    )
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def back_up(home: Path, target: Path, count: int) -> list[Made]:
    made = []
    for _ in range(count):
        time.sleep(REST_S)
        began_at = time.perf_counter()
        told = cairn("backup", "--home", home, target, "--with-keys")
        made.append(Made(told["backup"], began_at, time.perf_counter(), told["sizeBytes"]))
    return made


def check(made: Made, place: Path, before: Sequence[Submission]) -> int:
    """Restore it, verify it, and find all those payments in it. Returns how many others are in it."""
    cairn("restore", made.path, place)
    verified = cairn("verify", "--home", place)
    assert verified["ok"], verified
    # It makes no block: what is not in one yet is pending, as it was in the backup.
    with BenchNode(place, options=(*OPTIONS, "--block-time=3600")) as node:
        hashes = [b"0x" + each.tx_hash.hex().encode() for each in before]
        flood(node.port, [(get(f"/tx/{each.decode()}"), each) for each in hashes], CONNECTIONS)
    return int(verified["transactions"]) + int(verified["pending"]) - len(before)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--payments", type=int, default=200_000)
    options.add_argument("--backups", type=int, default=3)
    chosen = options.parse_args()
    payments = presign(chosen.payments, ACCOUNTS)
    rows = []
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as scratch:
        home = Path(scratch, "home")
        make_home(home, bench_genesis(ACCOUNTS))
        with BenchNode(home, options=OPTIONS) as node, ThreadPoolExecutor(1) as operator:
            making = operator.submit(back_up, home, Path(scratch, "backups"), chosen.backups)
            requests = [(each.request, each.tx_hash.hex().encode()) for each in payments]
            answered_at = flood(node.port, requests, CONNECTIONS)
            backups = making.result()
        in_order = sorted(answered_at)

        def rate(begin: float, end: float) -> float:
            return (bisect(in_order, end) - bisect(in_order, begin)) / (end - begin)

        for number, made in enumerate(backups):
            if made.ended_at > in_order[-1]:
                raise RuntimeError("the load ended before the last backup: give it more payments")
            before = [each for each, at in zip(payments, answered_at, strict=True) if at < made.began_at]
            later = check(made, Path(scratch, f"restored-{number}"), before)
            took_s = made.ended_at - made.began_at
            alone, beside = rate(made.began_at - REST_S, made.began_at), rate(made.began_at, made.ended_at)
            rows.append(
                f"| {number + 1} | {made.size_bytes / 1e6:,.0f} MB | {took_s:.1f} s | {alone:,.0f} | {beside:,.0f} "
                f"| {100 * (beside / alone - 1):+.0f} % | {len(before):,} | {later:,} |"
            )
            print(rows[-1], flush=True)
    text = f"""# Backups under full load

`make backups`: {chosen.payments:,} payments over {CONNECTIONS} connections, as fast as the node answers, and
`cairn backup` meanwhile, to the same disk. Each backup was restored elsewhere and verified, and a node was asked there
for every payment that had been answered with 200 before the backup began. The node, the load and the backup share one
machine: {this_machine()}.

| backup | size | took | answers/s in {REST_S:.0f} s before | during | | answered before | others in it |
|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

None of those answered before was missing; one would end the program.
"""
    REPORT.write_text(text)


if __name__ == "__main__":
    main()
