"""Kill the whole node at random moments under load, again and again: nothing that it accepted is lost or doubled.

    make kills KILLS=1000                  two nodes at once, each killed 500 times in a row
    make kills KILLS=1000 NODES=1          one node alone
    make kills KILLS=20 SEED=1234          the same moments again, as far as the machine allows
    make kills KILLS=20 NETWORK=50         and 50 rounds on a network; a tenth of KILLS unless set, 0 for none

Most of a life is its start, which keeps one core busy: two nodes at once take half the time on two cores. Each has a
chain, senders and a ledger of its own. Every fourth time it is also killed while it starts, and every fifth it is told
to go back to a snapshot before that, half of the time with a kill in the middle. Where there is a C compiler, half of
the kills are power losses: what was written and not synced is then lost, in part or whole. After that validators of a
network are killed, parted and paused (network_kills.py). The report goes to reports/kills.md.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.chaos.cache import Cache
from tests.chaos.ledger import Ledger, PatientNode
from tests.chaos.load import RECONNECT_S, Sender, dev_ledger, finish_all, make_senders
from tests.chaos.network_kills import run_network_kills
from tests.chaos.network_run import NetworkRun
from tests.chaos.network_run import sections as network_sections
from tests.chaos.report import end_on_sigterm, facts, failure_of, table, write_report
from tests.chaos.reverts import call
from tests.chaos.shim import Shim, find_compiler
from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode
from tests.support.scratch import scratch_parent

MOST_ANSWERS = 150
"""In one life: more than one block's worth."""
LONGEST_SILENCE_S = 0.2
"""Up to two blocks, so that a life may also end when nothing happens."""
START_S = 1.0
"""A start that is killed has had up to so long."""
BLOCK_TIMES_S = ("0.1", "0.1", "0")
"""In turns. At 0 a block is on disk before its transactions are answered, and the journal does not have them."""
SHOWN_EVERY = 50


@dataclass
class KillRun:
    """What has happened so far."""

    seed_number: int
    ledger: Ledger = field(default_factory=dev_ledger)
    ended: threading.Event = field(default_factory=threading.Event)
    """Set from outside: the life that runs is the last that is killed."""
    abandoned_by: int = 0
    """The signal, set before it: nobody waits for what would come of it."""
    kills: int = 0
    killed_starts: int = 0
    power_losses: int = 0
    reverts: int = 0
    """Of which some were killed in the middle, and came to nothing."""
    cache: Cache | None = None
    """What is lost with the power; without it, a kill is a kill."""
    environment: Mapping[str, str] = field(default_factory=dict)
    slowest_start_s: float = 0.0
    took_s: float = 0.0


def run_kills(
    run: KillRun, kills: int, data_dir: Path, at_end: Callable[[PublicNode], None] = lambda node: None
) -> None:
    """Kill a node so often, or until `run.ended` is set. Raises `AssertionError` at the first thing that is lost.

    `at_end` looks at what is left when all is confirmed.
    """
    began = time.monotonic()
    dice = random.Random(run.seed_number)
    senders = make_senders(run.seed_number, run.ledger)
    _prepare_power_losses(run, data_dir)
    try:
        for number in range(kills):
            if run.ended.is_set():
                break
            if number % 4 == 3:
                kill_start(data_dir, dice, run)
            if number % 5 == 4:
                go_back(data_dir, senders, run, dice)
            # One worker, or two, through which transfers of one sender overtake each other.
            with started(data_dir, 1 + number % 2, run) as process:
                live_until_killed(process, senders, run, dice)
            lose_power(run, dice)
            run.kills += 1
            if run.kills % SHOWN_EVERY == 0:
                print(f"{run.kills} kills, {len(run.ledger.accepted)} accepted", flush=True)
        if run.abandoned_by:
            return
        with started(data_dir, 2, run) as process:
            finish(process, senders, run.ledger, at_end)
    finally:
        run.took_s = time.monotonic() - began


def started(data_dir: Path, workers: int, run: KillRun) -> NodeProcess:
    began = time.monotonic()
    block_time_s = BLOCK_TIMES_S[run.kills % len(BLOCK_TIMES_S)]
    process = NodeProcess.start(_arguments(data_dir, workers, block_time_s), run.environment)
    try:
        process.wait_ready()
    except BaseException:
        process.close()
        raise
    run.slowest_start_s = max(run.slowest_start_s, time.monotonic() - began)
    return process


def kill_start(data_dir: Path, dice: random.Random, run: KillRun) -> None:
    """Recovery itself must survive a crash."""
    with NodeProcess.start(_arguments(data_dir, 1), run.environment) as starting:
        time.sleep(dice.uniform(0, START_S))
        starting.kill_group()
    lose_power(run, dice)
    run.killed_starts += 1


def _arguments(data_dir: Path, workers: int, block_time_s: str = BLOCK_TIMES_S[0]) -> tuple[str, ...]:
    pace = "--block-time", block_time_s, "--workers", str(workers)
    return "dev", "--port", "0", "--data-dir", str(data_dir), *pace


def _prepare_power_losses(run: KillRun, data_dir: Path) -> None:
    compiler = find_compiler()
    if compiler is not None:
        place = data_dir.with_name(f"{data_dir.name}.shim")
        place.mkdir()
        shim = Shim(place, data_dir, compiler)
        run.environment, run.cache = shim.environment, shim.cache


def lose_power(run: KillRun, dice: random.Random) -> None:
    """Nothing of the node runs any more. Half of the time it was the machine that ended."""
    if run.cache is None:
        return
    if dice.random() < 0.5:
        run.cache.lose(dice)
        run.power_losses += 1
    else:
        run.cache.keep()


def go_back(data_dir: Path, senders: list[Sender], run: KillRun, dice: random.Random) -> None:
    """A snapshot, some transfers, and back: all of them are void then, or, after a kill, none."""
    with started(data_dir, 2, run) as process, closing(PatientNode(process.url)) as node:
        finish_all(senders, process.url)
        node.await_idle()
        run.ledger.read_blocks(node)
        before, nonces = run.ledger.copy(), [sender.nonce for sender in senders]
        snapshot = call(node, "evm_snapshot")
        asyncio.run(send_some(senders, process.url))
        finish_all(senders, process.url)
        since = run.ledger.accepted - before.accepted
        killer = threading.Timer(dice.uniform(0, 0.1), process.kill_group) if dice.random() < 0.5 else None
        if killer is None:
            assert call(node, "evm_revert", snapshot) is True
        else:
            killer.start()
            with suppress(httpx.TransportError):
                call(node, "evm_revert", snapshot)
            killer.join()
            lose_power(run, dice)
        process.kill_group()
    run.reverts += 1
    with started(data_dir, 1, run) as process, closing(PatientNode(process.url)) as node:
        found = [
            node.get(f"/tx/{tx_hash}").status_code != 404 for tx_hash in since if not run.ledger.is_replaced(tx_hash)
        ]
        assert len(set(found)) == 1, f"a revert is half done: {found.count(True)} of {len(found)} are still there"
        assert killer is not None or not found[0], "a revert was answered and is not done"
        if not found[0]:
            run.ledger.go_back_to(before)
            for sender, nonce in zip(senders, nonces, strict=True):
                sender.nonce = nonce
        run.ledger.check_kept(node)
        process.kill_group()


async def send_some(senders: list[Sender], url: str) -> None:
    await asyncio.gather(*(sender.send_burst(url) for sender in senders))


def live_until_killed(process: NodeProcess, senders: list[Sender], run: KillRun, dice: random.Random) -> None:
    try:
        with closing(PatientNode(process.url)) as node:
            run.ledger.check_kept(node)
        asyncio.run(load_until_killed(process, senders, run, dice))
    except Exception as failure:
        failure.add_note(f"the node's log:\n{process.stderr}")
        raise


async def keep_sending(sender: Sender, node: NodeProcess) -> None:
    """Also after an answer that took so long that it was given up."""
    while node.is_running:
        await sender.run(node.url)
        await asyncio.sleep(RECONNECT_S)


async def load_until_killed(node: NodeProcess, senders: list[Sender], run: KillRun, dice: random.Random) -> None:
    """A life is as long as its answers take: a slow machine makes it longer, not emptier."""
    ledger = run.ledger
    enough, deadline = len(ledger.accepted) + dice.randrange(MOST_ANSWERS), time.monotonic() + PATIENCE_S
    async with asyncio.TaskGroup() as group:
        for sender in senders:
            group.create_task(keep_sending(sender, node))
        while len(ledger.accepted) < enough and node.is_running and not run.abandoned_by:
            assert time.monotonic() < deadline, f"the node accepts hardly any transfers: {ledger.refused} were 503"
            await asyncio.sleep(0.005)
        await asyncio.sleep(dice.uniform(0, LONGEST_SILENCE_S))
        node.kill_group()


def finish(process: NodeProcess, senders: list[Sender], ledger: Ledger, at_end: Callable[[PublicNode], None]) -> None:
    """Whatever was signed is confirmed, exactly once, and the balances follow from it."""
    with closing(PatientNode(process.url)) as node:
        ledger.check_kept(node)
        finish_all(senders, process.url)
        node.await_idle()
        ledger.check_final(node)
        assert ledger.places(ledger.signed) == ledger.places(ledger.heights), (
            "something that was signed is not confirmed"
        )
        at_end(node)
    assert process.stop() == 0, process.stderr


class Killing(threading.Thread):
    """One of several nodes that are killed at once. When one breaks a promise all end."""

    def __init__(self, run: KillRun, kills: int, directory: Path) -> None:
        super().__init__(name=f"kills of {directory.name}")
        self.run_of_kills = run
        self._kills, self._directory = kills, directory
        self.failure: str | None = None

    def run(self) -> None:
        self.failure = failure_of(lambda: run_kills(self.run_of_kills, self._kills, self._directory))
        if self.failure is not None:
            self.run_of_kills.ended.set()


def kill_at_once(runs: list[KillRun], kills: int, directory: Path) -> str | None:
    """`kills` in all, shared out. Returns what went wrong."""
    threads = []
    for number, run in enumerate(runs):
        share = kills // len(runs) + (number < kills % len(runs))
        threads.append(Killing(run, share, directory / f"chain{number}"))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failures = [thread.failure for thread in threads if thread.failure is not None]
    return "\n".join(failures) or None


def make_runs(seed_number: int, nodes: int) -> list[KillRun]:
    """The first has the seed itself: a run of one node is repeated by it alone."""
    ended = threading.Event()
    return [KillRun(seed_number + number, ended=ended) for number in range(nodes)]


def kill_network(run: NetworkRun, rounds: int) -> str | None:
    """In this very thread, which a signal ends, and the nodes with it. Returns what went wrong."""
    end_on_sigterm()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="cairn-kills-", dir=scratch_parent()) as directory:
        return failure_of(lambda: run_network_kills(run, rounds, Path(directory) / "network"))


def abandon_on_signals(runs: list[KillRun]) -> None:
    """Each thread ends the node that it runs. Nothing is raised: it would break off the wait for them."""

    def abandon(number: int, frame: object) -> None:
        # Python takes its handlers back at its end: the next signal would then be what it ended by.
        signal.signal(number, signal.SIG_IGN)
        for run in runs:
            run.abandoned_by = number
            run.ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, abandon)


def sections(runs: list[KillRun], seed_number: int, failure: str | None) -> list[str]:
    counts = facts(
        {
            "seed": str(seed_number),
            "seconds": max(run.took_s for run in runs),
            "kills under load": sum(run.kills for run in runs),
            "kills of a starting node": sum(run.killed_starts for run in runs),
            "of all kills, losses of power": sum(run.power_losses for run in runs),
            "files that lost unsynced writes": sum(run.cache.lost_files for run in runs if run.cache is not None),
            "reverts to a snapshot, half of them killed": sum(run.reverts for run in runs),
            "transfers replaced or overtaken": sum(run.ledger.overtaken + run.ledger.replaced for run in runs),
            "transfers answered 200": sum(len(run.ledger.accepted) for run in runs),
            "lost or doubled": "none" if failure is None else "see above",
        }
    )
    by_node = table(
        (
            "node", "kills in a row", "of its starts", "answered 200", "503, sent again", "never answered, sent again",
            "blocks", "slowest start until /ready is 200, s",
        ),
        [
            (
                number, run.kills, run.killed_starts, len(run.ledger.accepted), run.ledger.refused, run.ledger.lost,
                len(run.ledger.block_hashes), run.slowest_start_s,
            )
            for number, run in enumerate(runs, 1)
        ],
    )  # fmt: skip
    return [counts, "\n## By node\n", by_node]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--network", type=int, help="rounds on a network; a tenth of the kills unless set")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    runs = make_runs(options.seed, options.nodes)
    abandon_on_signals(runs)
    print(f"kills: SEED={options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="cairn-kills-") as directory:
        told = kill_at_once(runs, options.kills, Path(directory))
    if runs[0].abandoned_by:
        sys.exit(128 + runs[0].abandoned_by)
    found = sections(runs, options.seed, told)
    rounds = options.kills // 10 if options.network is None else options.network
    if rounds and told is None:
        network = NetworkRun(options.seed)
        told = kill_network(network, rounds)
        found += network_sections(network)
    command = f"make kills KILLS={options.kills} NODES={options.nodes} NETWORK={rounds} SEED={options.seed}"
    report = write_report("kills", "Kills in a row, under load", command, found, told)
    print(report.read_text())
    sys.exit(told is not None)


if __name__ == "__main__":
    main()
