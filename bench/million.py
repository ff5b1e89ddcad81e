"""What a chain of a million transfers takes: on disk, in memory, at a start, and of each command that reads all of it.

    python -m bench.million --stored 1000000 --join 1000000

Every transfer is signed and executed. 5,000 accounts take turns to pay, each time somebody whom the chain has never
seen: so a block names no account twice, which is what takes most space and time. `cairn verify` is measured on a second
chain, too, on which they pay each other. The report is written after each step, and
says how busy the machine was: beside other work only the processor time counts.
"""

import argparse
import json
import multiprocessing
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from bench.__main__ import tell
from bench.load import run_load
from bench.machine import Memory
from bench.node import BenchNode, copy_home, make_home
from bench.phases import CONNECTIONS, DATA_DIR
from bench.prefill import store_block
from bench.recovery import Recovery, RecoverySampler
from bench.state_sync import Join, measure_join
from bench.workload import GENESIS_TIMESTAMP, bench_genesis, presign, sign_transfer
from cairn.domain.types import Tx
from cairn.store.chain import ChainStore
from cairn.store.directory import Syncs, journal_path, size_on_disk
from tests.support.node_process import clean_environment, command

REPORT = Path("reports/million.md")
SENDERS = 5_000
PER_BLOCK = 200
UNSAVED_PAYMENTS = 20_000
"""Made before the kill, since the last stop."""
VERIFY_BAR_S = 120


class Cost(NamedTuple):
    what: str
    seconds: float
    cpu_s: float
    most_mb: float | None = None
    """The most memory that one process of a command had; None if that is less than the process which started it has."""
    result: str = ""

    def row(self) -> str:
        memory = "" if self.most_mb is None else f"{self.most_mb:,.0f} MB"
        busy = f"{os.getloadavg()[0]:.1f}"
        return f"| {self.what} | {self.cpu_s:,.1f} s | {self.seconds:,.1f} s | {busy} | {memory} | {self.result} |"


class Space(NamedTuple):
    data_bytes: int
    journal_bytes: int
    """Of these: it does not grow with the chain."""

    def per_tx(self, stored: int) -> float:
        return (self.data_bytes - self.journal_bytes) / stored


class Figures:
    """What was measured so far."""

    def __init__(self, stored: int, report: Path) -> None:
        self.stored = stored
        self._report = report
        self.space: Space | None = None
        self.empty: Memory | None = None
        self.full: Memory | None = None
        self.recovery: Recovery | None = None
        """Measured beside the commands."""
        self._rows: list[str] = []
        self.joins: list[Join] = []

    def add(self, cost: Cost) -> None:
        self._rows.append(cost.row())
        print(self._rows[-1], flush=True)
        self.write()

    def write(self) -> None:
        self._report.write_text(self._text())

    def _text(self) -> str:
        return "\n".join([*self._head(), *self._at_rest(), *self._commands(), *self._network()])

    def _head(self) -> Iterator[str]:
        yield f"# A chain of {self.stored:,} transfers\n"
        yield f"`make bench-million`: {SENDERS:,} accounts take turns to pay, each time a new account, {PER_BLOCK}"
        yield f"transfers in a block, each signed and executed. Python {platform.python_version()} on"
        yield f"{platform.system()}, {platform.machine()}, {os.cpu_count()} cores.\n"

    def _at_rest(self) -> Iterator[str]:
        if self.space is None or self.empty is None or self.full is None:
            return
        per_tx = self.space.per_tx(self.stored)
        yield "| at rest | |\n|---|---|"
        yield f"| disk, without the journal | {self.space.data_bytes - self.space.journal_bytes:,} bytes |"
        yield f"| disk for each transfer | {per_tx:.0f} bytes |"
        yield f"| memory of all processes (PSS), with no transfer | {self.empty.pss_mb:.0f} MB |"
        yield f"| memory of all processes (PSS), with {self.stored:,} | {self.full.pss_mb:.0f} MB |\n"

    def _commands(self) -> Iterator[str]:
        yield "`load` is the machine's load average at the end. Where it is above the number of cores, others worked"
        yield "there, too: the time is then longer than on an idle machine, and so is the processor time, by less.\n"
        yield "| what | processor time | time | load | most memory of a process | |\n|---|---|---|---|---|---|"
        yield from self._rows
        yield ""
        if self.recovery is not None:
            yield f"One bare recovery of a signature took {self.recovery.mean_us:.0f} µs of processor time meanwhile,"
            yield f"{self.recovery.best_us:.0f} at best.\n"

    def _network(self) -> Iterator[str]:
        if not self.joins:
            return
        yield "A node joins a network of one validator by state sync, both on this machine. All accounts are in"
        yield "genesis, which each process of a node reads, so starts and memory are those of a large genesis, too.\n"
        yield (
            "| accounts | snapshot | validator's start | snapshot taken in | joined in "
            "| processor time of the new node | its memory (PSS) | load |"
        )
        yield "|---|---|---|---|---|---|---|---|"
        yield from (join.row() for join in self.joins)
        yield ""


def fill(home: Path, stored: int, to_strangers: bool = True) -> None:
    """Make the home in a process of its own, so that the commands that are measured do not begin with its memory."""
    unfinished = home.with_name(home.name + ".unfinished")
    make_home(unfinished, bench_genesis(SENDERS))
    data = unfinished / DATA_DIR
    filling = multiprocessing.get_context("spawn").Process(target=_fill_data, args=(data, stored, to_strangers))
    filling.start()
    filling.join()
    if filling.exitcode:
        raise RuntimeError(f"the chain was not made: exit code {filling.exitcode}")
    # Let the node finish what background work the filling left, so that nothing measured pays for it.
    with BenchNode(unfinished) as node:
        node.await_quiet()
    unfinished.rename(home)


def _fill_data(directory: Path, stored: int, to_strangers: bool) -> None:
    Syncs.leave_out()
    blocks = [range(first, min(first + PER_BLOCK, stored)) for first in range(0, stored, PER_BLOCK)]
    with (
        multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool,
        closing(ChainStore.open(directory, bench_genesis(SENDERS))) as chain,
    ):
        sign = partial(_sign, to_strangers=to_strangers)
        for number, txs in enumerate(pool.imap(sign, blocks, chunksize=5)):
            store_block(chain, txs, GENESIS_TIMESTAMP + 1 + number)
        chain.save_tree()


def _sign(indexes: range, to_strangers: bool) -> list[Tx]:
    return [sign_transfer(index, SENDERS, to_strangers) for index in indexes]


def measure(figures: Figures, scratch: Path) -> None:
    stored = figures.stored
    home, between = (_filled(scratch, stored, to_strangers) for to_strangers in (True, False))
    figures.empty = _memory_of_empty(scratch / "empty")
    data = home / DATA_DIR
    figures.space = Space(size_on_disk(data), size_on_disk_of(journal_path(data)))
    with BenchNode(home) as node:
        figures.add(Cost("start after a stop, until `/ready`", node.ready_s, node.cpu_seconds()))
        node.await_quiet()
        figures.full = node.memory()
    _measure_kill(figures, home, scratch / "killed")
    goal = f"goal: at most {VERIFY_BAR_S} s on two idle cores"
    figures.add(_run("`cairn verify`", "verify", "--home", home)[0]._replace(result=goal))
    what = f"`cairn verify`, of transfers between {SENDERS:,} accounts"
    figures.add(_run(what, "verify", "--home", between)[0]._replace(result=goal))
    backups = scratch / "backups"
    made = _run("`cairn backup`, the first", "backup", "--home", home, backups)
    figures.add(made[0]._replace(result=f"{made[1]['copiedBytes'] / 1e6:,.0f} MB copied"))
    again = _run("`cairn backup`, the next", "backup", "--home", home, backups)
    figures.add(again[0]._replace(result=f"{again[1]['copiedBytes'] / 1e6:,.0f} MB copied"))
    figures.add(_run("`cairn restore`", "restore", backups, scratch / "restored")[0])
    shutil.rmtree(backups)
    shutil.rmtree(scratch / "restored")
    lines = scratch / "chain.ndjson"
    exported = _run("`cairn export`", "export", lines, "--home", home)[0]
    figures.add(exported._replace(result=f"{lines.stat().st_size / 1e6:,.0f} MB"))
    figures.add(_run("`cairn import`", "import", lines, scratch / "imported")[0])
    lines.unlink()
    shutil.rmtree(scratch / "imported")


def _filled(scratch: Path, stored: int, to_strangers: bool) -> Path:
    home = scratch / f"{'million' if to_strangers else 'between'}-{stored}"
    if not home.exists():
        tell(f"making {stored:,} transfers")
        began = time.monotonic()
        fill(home, stored, to_strangers)
        print(f"made in {time.monotonic() - began:.0f} s")
    return home


def size_on_disk_of(directory: Path) -> int:
    return sum(512 * path.stat().st_blocks for path in directory.iterdir())


def _memory_of_empty(home: Path) -> Memory:
    make_home(home, bench_genesis(10))
    try:
        with BenchNode(home) as node:
            node.await_quiet()
            return node.memory()
    finally:
        shutil.rmtree(home)


def _measure_kill(figures: Figures, home: Path, copy: Path) -> None:
    """Kill all processes of a node at once, and start it again."""
    payments = presign(UNSAVED_PAYMENTS, SENDERS, first=figures.stored, to_strangers=True)
    copy_home(home, copy)
    try:
        node = BenchNode(copy)
        try:
            run_load(node.port, [(each.request, each.tx_hash.hex().encode()) for each in payments], CONNECTIONS)
            node.await_empty_mempool()
        finally:
            node.close()
        with BenchNode(copy) as node:
            what = f"start after a kill, {len(payments):,} transfers after the stop"
            figures.add(Cost(what, node.ready_s, node.cpu_seconds()))
    finally:
        shutil.rmtree(copy)


def _run(what: str, *args: object) -> tuple[Cost, dict[str, Any]]:
    """Run a command of `cairn` with --json; what it and all that it started took, and what it says."""
    tell(" ".join(map(str, args)))
    began = time.monotonic()
    process = subprocess.Popen(
        command([*map(str, args), "--json"]), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean_environment()
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{what} ended with {process.returncode}: {said.decode()[:2_000]}")
    # Until it is another program, a process counts the memory of the one that started it.
    is_own = used.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    most_mb = used.ru_maxrss / 1024 if is_own else None
    cost = Cost(what, time.monotonic() - began, used.ru_utime + used.ru_stime, most_mb)
    return cost, json.loads(said)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stored", type=int, default=1_000_000)
    parser.add_argument("--join", default="1000000", help="accounts of a network to join, by commas; none if empty")
    parser.add_argument("--scratch", type=Path, help="where the chain is kept for the next run; it is not if left out")
    parser.add_argument("--report", type=Path, default=REPORT)
    options = parser.parse_args()
    if sys.platform != "linux":
        parser.error("the processes' cost is read from /proc: run it on Linux")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    figures = Figures(options.stored, options.report)
    with tempfile.TemporaryDirectory(prefix="cairn-million-") as temporary:
        scratch: Path = options.scratch or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        if options.stored:
            with RecoverySampler() as sampler:
                measure(figures, scratch)
                figures.recovery = sampler.finish()
            figures.write()
        for accounts in filter(None, options.join.split(",")):
            tell(f"joining a network with {int(accounts):,} accounts")
            figures.joins.append(measure_join(scratch / f"network-{accounts}", int(accounts)))
            figures.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
