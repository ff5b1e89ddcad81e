"""Verifies a data directory, even beside the node that writes it, in as many processes as are given.

One process executes the blocks, one after the other, and compares what they left. The others check what each block has
by itself, most of it the signatures of the transactions, and walk over the column families; it joins them at the end.
Each has a RocksDB secondary of its own, which sees the store as it was when the verification began: a node that runs
is not disturbed, and files that it deletes meanwhile take up their space until the end.
"""

import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import msgspec

from cairn.domain.certificates import Step
from cairn.domain.errors import NodeError
from cairn.domain.genesis import Genesis
from cairn.domain.types import BlockHash
from cairn.store import keys
from cairn.store.directory import chain_path, is_locked, journal_path
from cairn.store.rocks import Database
from cairn.store.verification.blocks import BlockChecks
from cairn.store.verification.families import (
    COUNTED,
    Range,
    check_old_history,
    check_steps_of,
    check_tx_index,
    count_entries,
)
from cairn.store.verification.files import check_journal, check_tree_file
from cairn.store.verification.findings import Finding, Findings
from cairn.store.verification.meta import MetaChecks
from cairn.store.verification.replay import Replay
from cairn.store.view import StoreView, check_genesis, opened_view, show_as_started

JOB_BLOCKS = 4
"""Blocks that a process takes at once: few, so that all of them end at about the same time."""
WALKED = tuple(family for family in COUNTED if family not in (keys.ACCOUNTS, keys.TX_INDEX))
"""Families of which entries are only counted."""
REPORT_S = 0.2
FEW_CHUNKS = 256
"""Chunks of transactions that one process checks in about half a second."""

Report = Callable[[int, int], None]
"""Called with how many steps are done, and of how many."""


class Verdict(msgspec.Struct, frozen=True, rename="camel"):
    """What was verified, and what was found."""

    oldest: int
    """The oldest height that is kept."""
    first: int
    """The height that the verification began with."""
    head: int
    head_hash: BlockHash
    executed: int
    """The newest block that was executed again."""
    transactions: int
    accounts: int
    pending: int
    """Transactions in the journal."""
    is_running: bool
    """Whether a node wrote to the directory meanwhile."""
    findings: list[Finding]
    finding_count: int
    seconds: float


class _Plan(msgspec.Struct, frozen=True):
    directory: Path
    genesis: Genesis
    blocks: Range
    steps: list[Step]


class _Checked(msgspec.Struct):
    """What a process has done."""

    transactions: int
    expected: Counter[str]
    counted: Counter[str]
    found: list[Finding]
    found_count: int


def verify_directory(
    directory: Path, genesis: Genesis, first: int = 0, processes: int = 1, report: Report = lambda done, total: None
) -> Verdict:
    """Verify all blocks from `first` on that are kept, and all that is stored beside them.

    Raises `WrongFormat`, `Corrupt` or `StoreUnavailable` when the store cannot even be opened.
    """
    began_at = time.monotonic()
    found = Findings()
    is_locked_now = is_locked(directory)
    with opened_view(directory) as store:
        check_genesis(store, genesis)
        if not is_locked_now:
            show_as_started(store)
        blocks = _range_of(store, first, is_locked_now)
        replay = Replay(store.database, genesis, blocks.first, blocks.last, found)
        steps: list[Step] = []
        with found.noted(keys.STEPS):
            steps = store.steps()
        plan = _Plan(directory, genesis, blocks, steps)
        if store.database.count_entries(keys.TXS).total < FEW_CHUNKS:
            # To start others would take longer than the work.
            processes = 1
        total = 2 * (blocks.last - blocks.first + 1)
        done = _execute_and_check(plan, store.database, replay, processes, lambda count: report(count, total), found)
        _check_counts(done, replay, blocks, found)
        steps = check_steps_of(store.database, genesis, blocks, replay.governance, found)
        with found.noted(keys.HISTORY):
            check_old_history(store.database, genesis, blocks, found)
        MetaChecks(store.database, genesis, blocks, replay, steps, found).check(store.base)
        pending = check_journal(journal_path(directory), store.watermark, store, genesis, blocks.is_running, found)
        if replay.height == blocks.last:
            check_tree_file(store.database, chain_path(directory), store, replay, found)
        for damage in store.watermark.damaged_copies():
            found.add("watermark", damage)
        head = store.find_block_hash(blocks.last) or BlockHash(b"")
        accounts, executed = len(replay.state.known), replay.height
        return Verdict(
            store.base, blocks.first, blocks.last, head, executed, done.transactions, accounts, pending,
            blocks.is_running, found.kept, found.count, round(time.monotonic() - began_at, 3),
        )  # fmt: skip


def _range_of(store: StoreView, first: int, is_running: bool) -> Range:
    stored = store.database.get(keys.META, keys.CLEARED_KEY)
    cleared = 0 if stored is None else min(keys.decode_height(stored), store.base)
    is_restoring = store.database.get(keys.META, keys.RESTORE_KEY) is not None
    return Range(min(max(first, store.base), store.visible), store.visible, cleared, is_running, is_restoring)


def _execute_and_check(
    plan: _Plan, database: Database, replay: Replay, processes: int, report: Callable[[int], None], found: Findings
) -> _Checked:
    context = get_context("spawn")
    jobs: Synchronized[int] = context.Value("Q", 0)
    checked: Synchronized[int] = context.Value("Q", 0)
    others: list[Future[_Checked]] = []
    versions = 0
    with ExitStack() as held:
        if processes > 1:
            pool = ProcessPoolExecutor(processes - 1, context, _enter, (jobs, checked))
            held.callback(pool.shutdown, cancel_futures=True)
            others = [pool.submit(_check_in_process, plan) for _ in range(processes - 1)]
        try:
            with found.noted(keys.ACCOUNTS):
                versions = count_entries(database, keys.ACCOUNTS, plan.blocks, found, replay.versions)
            _execute(replay, found, lambda: report(replay.height - plan.blocks.first + 1 + checked.value))
            executed = replay.height - plan.blocks.first + 1
            done = _check_jobs(plan, database, jobs, checked, lambda: report(executed + checked.value))
            while wait(others, REPORT_S).not_done:
                report(executed + checked.value)
        except BaseException:
            # Let the others end at their next job.
            jobs.value = 2**63
            raise
        done.counted[keys.ACCOUNTS] = versions
        found.take(done.found, done.found_count)
        for other in (each.result() for each in others):
            done.transactions += other.transactions
            done.expected += other.expected
            done.counted += other.counted
            found.take(other.found, other.found_count)
    return done


def _execute(replay: Replay, found: Findings, report: Callable[[], None]) -> None:
    try:
        replay.begin()
    except NodeError as damage:
        found.add("execution", f"{damage.detail}; no block can be executed", replay.start)
        return
    told_at = time.monotonic()
    while replay.height < replay.last and replay.advance():
        if time.monotonic() - told_at > REPORT_S:
            report()
            told_at = time.monotonic()


_shared: tuple["Synchronized[int]", "Synchronized[int]"]


def _enter(jobs: "Synchronized[int]", checked: "Synchronized[int]") -> None:
    """Begin a process: it ends with the one that started it, whom Ctrl-C is for."""
    global _shared
    _shared = jobs, checked
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _check_in_process(plan: _Plan) -> _Checked:
    with opened_view(plan.directory) as store:
        if store.base > plan.blocks.first:
            # Some of the blocks were pruned in this moment: who has begun sees them still.
            return _Checked(0, Counter(), Counter(), [], 0)
        return _check_jobs(plan, store.database, *_shared, lambda: None)


def _check_jobs(
    plan: _Plan,
    database: Database,
    jobs: "Synchronized[int]",
    checked: "Synchronized[int]",
    report: Callable[[], None],
) -> _Checked:
    """Take jobs until none is left: first the families, then the blocks, some at a time."""
    found, blocks = Findings(), plan.blocks
    checks = BlockChecks(database, plan.genesis, plan.steps, blocks.first, found)
    transactions, counted = 0, Counter[str]()
    while True:
        with jobs.get_lock():
            job, jobs.value = jobs.value, jobs.value + 1
        if job < len(WALKED):
            with found.noted(WALKED[job]):
                counted[WALKED[job]] = count_entries(database, WALKED[job], blocks, found)
            continue
        if job == len(WALKED):
            counted[keys.TX_INDEX] = check_tx_index(database, blocks, found)
            continue
        start = blocks.first + (job - len(WALKED) - 1) * JOB_BLOCKS
        if start > blocks.last:
            break
        for height in range(start, min(start + JOB_BLOCKS, blocks.last + 1)):
            transactions += checks.check(height)
            with checked.get_lock():
                checked.value += 1
        report()
    return _Checked(transactions, checks.expected, counted, found.kept, found.count)


def _check_counts(done: _Checked, replay: Replay, blocks: Range, found: Findings) -> None:
    """All that must be there was looked for; now nothing else may be. Behind damage the numbers say nothing."""
    if found.count or replay.height != blocks.last:
        return
    expected = done.expected + replay.expected
    for family in COUNTED:
        if done.counted[family] != expected[family]:
            found.add(
                family, f"{done.counted[family]} entries are stored, and {expected[family]} follow from the blocks"
            )
