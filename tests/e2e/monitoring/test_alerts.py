"""Ten faults, done to real nodes: somebody is told of each, by the name of its alert, within 15 s.

Prometheus and Alertmanager run with the files that are shipped, at the shipped intervals. One Prometheus watches all
nodes, and most faults happen at the same time, each to a node of its own.
"""

import errno
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chaos.shim import COMPILERS, DiskFault, Operation, Shim
from tests.support.certificates import make_certificate
from tests.support.monitoring import (
    Arrived,
    Monitoring,
    Targets,
    panels,
    query_of,
    said_when_empty,
    show_metrics,
)
from tests.support.network import Network
from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S, Pace
from tests.support.ports import free_ports
from tests.support.programs import need_program
from tests.support.steady_load import SteadyLoad

WITHIN_S = 15
VALIDATORS = 4
PER_SECOND = 5
SLOW_SYNC_MS = 5_000
LITTLE_BYTES = 512 * 1024**2
KILLS = 3
OF_THE_MACHINE = {"CairnDiskLow", "CairnSlowSync"}
"""What the small or slow disk of the machine that tests may rightly raise."""
NOT_ON_A_NETWORK = "not on a network"
SECOND_CHAIN = 5
"""Dev accounts of the load on nodes alone; those before are for the network."""


@dataclass(frozen=True)
class Lone:
    """A node that makes its blocks alone."""

    process: NodeProcess
    metrics_port: int
    shim: Shim | None = None

    @property
    def instance(self) -> str:
        return f"127.0.0.1:{self.metrics_port}"


class Site:
    """Every node, and who watches them."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self.pace = stack.enter_context(Pace())
        self.certificate = make_certificate(directory)
        tls = ("--tls-cert", self.certificate[0], "--tls-key", self.certificate[1])
        self.stopped = self._start("stopped")
        self.secured = self._start("secured", *tls)
        self.slow = self._start("slow", has_shim=True)
        self.failing = self._start("failing", has_shim=True)
        self.network = stack.enter_context(Network(directory / "network", VALIDATORS, args=["--full-nodes=1"]))
        self.targets = show_metrics(self.network)
        self.network.start()
        for lone in self.lone:
            lone.process.wait_ready()
        alone = [Targets(f"alone{index}", [lone.metrics_port]) for index, lone in enumerate(self.lone)]
        self.monitoring = stack.enter_context(Monitoring([self.targets, *alone]))
        self.monitoring.await_up()

    @property
    def lone(self) -> list[Lone]:
        return [self.stopped, self.secured, self.slow, self.failing]

    def _start(self, name: str, *args: str, has_shim: bool = False) -> Lone:
        home = self._directory / name
        home.mkdir()
        shim = None
        if has_shim:
            scratch = self._directory / f"{name}-shim"
            scratch.mkdir()
            shim = Shim(scratch, home, need_program(*COMPILERS))
        [port] = free_ports(1)
        process = NodeProcess.start(
            ("dev", "--port=0", f"--metrics-port={port}", "--workers=1", f"--data-dir={home}", *args),
            None if shim is None else shim.environment,
        )
        self._stack.enter_context(process)
        return Lone(process, port, shim)


@pytest.fixture(scope="module")
def site(cometbft_tools: Path, scratch: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(scratch, stack)


class Faults:
    """What was done when, and how soon each was told of."""

    def __init__(self, monitoring: Monitoring) -> None:
        self._monitoring = monitoring
        self._awaited: list[tuple[float, str, dict[str, str]]] = []

    def begin(self, name: str, **labels: str) -> None:
        """Call it just before the fault that this alert must tell of."""
        self._awaited.append((time.monotonic(), name, labels))

    def await_alerts(self) -> dict[str, tuple[float, Arrived]]:
        """By name, after how many seconds each was told of, and how."""
        told = {}
        for began, name, labels in self._awaited:
            arrived = self._monitoring.await_alert(name, **labels)
            told[name] = (arrived.at - began, arrived)
        return told


def kill_workers(node: NodeProcess) -> None:
    """One after the other is killed, once it serves."""
    for _ in range(KILLS):
        wait_until(lambda: len(node.worker_pids()) == 1, PATIENCE_S, "a worker")
        [worker] = node.worker_pids()
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda worker=worker: worker not in node.worker_pids(), PATIENCE_S, "its end")  # type: ignore[misc]


@contextmanager
def stopped_core(node: NodeProcess) -> Iterator[None]:
    """The core stands still, and so does each that takes its place: a slow Prometheus must see it, too."""
    is_over = threading.Event()

    def stop_again() -> None:
        while True:
            with suppress(LookupError, ProcessLookupError):
                os.kill(node.core_pid(), signal.SIGSTOP)
            if is_over.wait(0.5):
                return

    stopping = threading.Thread(target=stop_again)
    stopping.start()
    try:
        yield
    finally:
        is_over.set()
        stopping.join()


def test_healthy_nodes_raise_no_alert(site: Site) -> None:
    """None at all on a machine of its own. What one that stood still for a while has raised, rightly, ends."""

    def firing() -> set[str]:
        return {labels["alertname"] for labels in site.monitoring.firing()}

    wait_until(lambda: firing() <= OF_THE_MACHINE, PATIENCE_S, "alerts to end")
    if site.pace.stretch(WITHIN_S) == WITHIN_S:
        assert {arrived.labels["alertname"] for arrived in site.monitoring.receiver.arrived} <= OF_THE_MACHINE


def test_every_panel_of_the_dashboard_has_data_or_says_why_it_is_empty(site: Site) -> None:
    queries = {
        f"{panel['title']} {target['refId']}": query_of(target, "network")
        for panel in panels()
        for target in panel["targets"]
        if said_when_empty(panel) in (None, NOT_ON_A_NETWORK)
    }
    empty: list[str] = []

    def is_filled() -> bool:
        empty[:] = [where for where, query in queries.items() if not site.monitoring.query(query)]
        return not empty

    with SteadyLoad([site.network.nodes[1].url], PER_SECOND, first_sender=1):
        wait_until(is_filled, PATIENCE_S, f"data in {empty}")
    for panel in panels():
        for target in panel["targets"]:
            # Also those of an empty one must be queries.
            site.monitoring.query(query_of(target, "network"))


def test_ten_faults_are_told_of_by_name_within_15_s(site: Site) -> None:
    faults = Faults(site.monitoring)
    lagging, missing = site.network.nodes[VALIDATORS], site.network.nodes[VALIDATORS - 1]
    assert site.slow.shim is not None
    assert site.failing.shim is not None
    with (
        Pace() as pace,
        ExitStack() as stack,
        SteadyLoad([site.network.nodes[0].url], PER_SECOND),
        SteadyLoad([site.slow.process.url, site.failing.process.url], PER_SECOND, first_sender=SECOND_CHAIN),
    ):
        faults.begin("CairnCoreStuck", instance=site.stopped.instance)
        stack.enter_context(stopped_core(site.stopped.process))
        faults.begin("CairnDown", instance=site.targets.instance(missing.index))
        faults.begin("CairnMissedBlocks", chain="network", validator="node3")
        missing.kill()
        faults.begin("CairnLagging", instance=site.targets.instance(lagging.index))
        site.network.split([lagging.index])
        faults.begin("CairnDiskLow", instance=site.slow.instance)
        site.slow.shim.show_free(LITTLE_BYTES)
        faults.begin("CairnSlowSync", instance=site.slow.instance)
        site.slow.shim.begin(DiskFault(Operation.SYNC, delay_ms=SLOW_SYNC_MS))
        faults.begin("CairnErrors", instance=site.failing.instance)
        site.failing.shim.begin(DiskFault(Operation.CHANGE, errno.ENOSPC))
        faults.begin("CairnCertificateExpires", instance=site.secured.instance)
        make_certificate(Path(site.certificate[0]).parent, days=10)
        site.secured.process.process.send_signal(signal.SIGHUP)
        kill_workers(site.secured.process)
        faults.begin("CairnRestarts", instance=site.secured.instance)
        told = faults.await_alerts()

        halted = Faults(site.monitoring)
        halted.begin("CairnNotMining", instance=site.targets.instance(0))
        site.network.nodes[VALIDATORS - 2].kill()
        told |= halted.await_alerts()
        # What stays broken is told of by its part, later.
        site.monitoring.await_alert("CairnNotReady", instance=site.failing.instance, part="disk")
        site.failing.shim.end()
        site.slow.shim.end()
    for name, (took_s, arrived) in told.items():
        print(f"{name}: {took_s:.1f} s: {arrived.summary}")
    late = {name: took_s for name, (took_s, _) in told.items() if took_s > pace.stretch(WITHIN_S)}
    assert len(told) == 10
    assert late == {}
