"""A network under mixed load for long: transfers through all nodes, readers and sockets of one, kills; then no kills.

`make soak` runs it after the soak of a node alone; `NETWORK=5` is for how many minutes. What each process of each
validator holds must be flat in the half without kills, also of CometBFT's, and the disk of each may grow with what is
put into it, and no more. At rest no connection of a client may be left.
"""

import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.chaos.growth import LOOK_S, Measure, Watch, others, rss, stale
from tests.chaos.network_kills import KINDS, Victims, draw_kinds
from tests.chaos.network_run import NetworkRun, Stage, run_network
from tests.chaos.network_run import sections as run_sections
from tests.chaos.report import table
from tests.chaos.traffic import Traffic
from tests.chaos.usage import held_connections, size_on_disk_mb
from tests.support.network import Network
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S

BETWEEN_KILLS_S = (5.0, 15.0)
LEAST_TRANSFERS = 3_000
"""In the half without kills: less says nothing of growth."""
MEASURES = (
    Measure("RSS, MB", rss, 8.0, per_transfer=8 / 1024),
    Measure("stale files", stale, 8.0),
    Measure("sockets and pipes", others, 100.0),
    Measure("RSS, MB", rss, 40.0, "cometbft"),
    Measure("sockets and pipes", others, 10.0, "cometbft"),
)
"""Few transfers come so far that bounded caches are full: of each, the core keeps what was parsed (some 1.5 KB) and the
hashes of the accounts that it changed (2.3 KB each). CometBFT's collector decides when it gives memory back."""
MOST_DISK_KB_PER_TRANSFER = 2.0
MOST_DISK_KB_PER_BLOCK = 24.0
MOST_DISK_MB = 16.0
"""Besides: files that are laid out before they are filled, and tables that wait for their compaction."""


@dataclass
class NetworkSoakRun:
    """What has happened so far."""

    seed_number: int
    watch: Watch = field(default_factory=lambda: Watch(MEASURES, LEAST_TRANSFERS))
    disk_mb: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Of each home: at the beginning and at the end of the quiet half."""
    quiet_blocks: int = 0
    answers: int = 0
    sockets: int = 0

    def __post_init__(self) -> None:
        self.network = NetworkRun(self.seed_number)

    @property
    def most_disk_growth_mb(self) -> float:
        """For what came in, in the quiet half."""
        filled_kb = MOST_DISK_KB_PER_TRANSFER * self.watch.quiet_transfers + MOST_DISK_KB_PER_BLOCK * self.quiet_blocks
        return MOST_DISK_MB + filled_kb / 1024

    def check(self) -> None:
        self.watch.check()
        for name, (before, after) in self.disk_mb.items():
            assert after - before < self.most_disk_growth_mb, (
                f"{name}: its disk grew from {before:.0f} to {after:.0f} MB"
            )


def run_network_soak(run: NetworkSoakRun, seconds: float, directory: Path) -> None:
    """Run a network under mixed load for so long. The first broken promise is raised."""
    run_network(run.network, directory, lambda stage: live(run, stage, seconds), check_left)
    run.check()


def live(run: NetworkSoakRun, stage: Stage, seconds: float) -> None:
    with Traffic(stage.validators[0].url, run.network.ledger, run.seed_number) as traffic:
        live_with_kills(run, stage, traffic, seconds / 2)
        live_quietly(run, stage, traffic, seconds / 2)
        wait_until(traffic.was_served, PATIENCE_S, "a reader and a socket to be served")
    run.answers, run.sockets = traffic.answers.total(), traffic.sockets


def live_with_kills(run: NetworkSoakRun, stage: Stage, traffic: Traffic, seconds: float) -> None:
    deadline, victims = time.monotonic() + seconds, Victims(stage)
    for kind in draw_kinds(stage.dice):
        stage.take([kind], partial(KINDS[kind], victims))
        next_kill = time.monotonic() + stage.dice.uniform(*BETWEEN_KILLS_S)
        while time.monotonic() < min(next_kill, deadline):
            look(run, stage, traffic)
        if time.monotonic() > deadline:
            return


def live_quietly(run: NetworkSoakRun, stage: Stage, traffic: Traffic, seconds: float) -> None:
    began, height = len(run.network.ledger.accepted), stage.network.nodes[0].height()
    homes = {node.home.name: node.home for node in stage.network.nodes}
    before = {name: size_on_disk_mb(home) for name, home in homes.items()}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        look(run, stage, traffic)
        run.watch.quiet = (began, len(run.network.ledger.accepted))
    stage.check_kept()
    run.disk_mb = {name: (before[name], size_on_disk_mb(home)) for name, home in homes.items()}
    run.quiet_blocks = stage.network.nodes[0].height() - height


def look(run: NetworkSoakRun, stage: Stage, traffic: Traffic) -> None:
    """A moment: the load goes on."""
    time.sleep(LOOK_S)
    stage.await_accepted(1)
    traffic.check()
    for validator in stage.validators:
        run.watch.usage.look(validator.process, len(run.network.ledger.accepted), validator.node.home.name)


def check_left(network: Network) -> None:
    """Everybody but a follower of each node has left."""
    ports = [int(node.url.rpartition(":")[2]) for node in network.nodes]

    def have_left() -> bool:
        return all(held_connections(port) <= 1 for port in ports)

    wait_until(have_left, PATIENCE_S, "connections of clients that left to be let go of")


def sections(run: NetworkSoakRun) -> list[str]:
    disk = table(
        ("home", "MB at the beginning of the quiet half", "at its end", "may grow by"),
        [(name, before, after, run.most_disk_growth_mb) for name, (before, after) in sorted(run.disk_mb.items())],
    )
    told = f"{run.watch.quiet_transfers:,} transfers in {run.quiet_blocks:,} blocks of the quiet half; {run.answers:,} "
    told += f"reads and {run.sockets:,} sockets.\n"
    return [*run_sections(run.network), told, *run.watch.sections(), "\n### Disk\n", disk]
