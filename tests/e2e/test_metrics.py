"""Metrics of a real node, while its processes are killed and stopped."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from cairn.client import Account
from cairn.metrics import PAGE
from cairn.store.last_backup import LastBackup, note_backup
from tests.support.metrics import Scrape, scrape
from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import Page
from tests.support.ports import free_ports
from tests.support.programs import need_program
from tests.support.rpc import rpc

ROUTE = "GET /chain"


class Watched:
    """A node, and where it shows its metrics."""

    def __init__(self, *options: str) -> None:
        (port,) = free_ports(1)
        self.metrics_url = f"http://127.0.0.1:{port}/metrics"
        self.node = NodeProcess.start_dev("--workers", "2", "--metrics-port", str(port), *options)

    def scrape(self) -> Scrape:
        return scrape(self.metrics_url)

    def answered(self) -> float:
        return self.scrape().total("cairn_http_requests_total", route=ROUTE, code="200")

    def kill_worker(self) -> None:
        """Kill the oldest, and wait until another is in its place."""
        before = self.node.worker_pids()
        os.kill(before[0], signal.SIGKILL)
        wait_until(lambda: len(set(self.node.worker_pids()) - {before[0]}) == 2, PATIENCE_S, "a new worker")


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched("--block-time", "0.01")
    with watched.node:
        yield watched


def test_the_command_of_the_docs_shows_the_metrics(watched: Watched) -> None:
    need_program("curl")
    [line] = Page("docs/metrics.md").code("sh")
    own = line.replace("http://127.0.0.1:8646/metrics", watched.metrics_url)
    assert own != line
    shown = subprocess.run(own, shell=True, capture_output=True, text=True, check=True).stdout
    assert "\ncairn_build_info{" in shown


def test_the_page_of_a_node_is_as_prometheus_wants_it_and_has_every_series(watched: Watched) -> None:
    promtool = need_program("promtool")
    transfer = {"from": Account.dev(0).address, "to": Account.dev(1).address, "value": 1, "gas": 21_000}
    assert httpx.post(f"{watched.node.url}/tx", json=transfer, timeout=PATIENCE_S).status_code == 200
    # A slow core shows that it has committed a block after it shows the block, a slow disk its size after that.
    for name in ("cairn_chain_height", "cairn_block_commit_duration_seconds_count", "cairn_store_size_bytes"):
        wait_until(lambda name=name: bool(watched.scrape().find(name)), PATIENCE_S, name)  # type: ignore[misc]
    page = watched.scrape()
    checked = subprocess.run([promtool, "check", "metrics"], input=page.text, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    declared = {each.name for family in PAGE.families for each in family.described()}
    shown = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in page.names}
    only_elsewhere = {
        "cairn_backup_timestamp_seconds",
        "cairn_signing_key_not_on_disk",
        "cairn_certificate_expiry_timestamp_seconds",
        "cairn_peers",
        "cairn_chain_catching_up",
        "cairn_chain_lag_blocks",
        "cairn_validators",
        "cairn_validators_absent",
        "cairn_validator_missed_blocks",
        "cairn_evidence_total",
    }
    assert declared - shown == only_elsewhere
    assert shown <= declared
    assert page.total("cairn_http_requests_total", route="POST /tx", code="200") == 1
    assert page.total("cairn_mempool_admitted_total") == 1
    assert page.total("cairn_chain_transactions_total") == 1
    assert page.total("cairn_block_commit_duration_seconds_count") == page.total("cairn_chain_height")
    assert page.total("cairn_journal_sync_duration_seconds_count") >= 1
    assert page.total("process_resident_memory_bytes", process="cairn-core") > 1_000_000
    assert page.total("cairn_store_size_bytes") > 0


def test_nothing_else_is_answered_beside_the_page(watched: Watched) -> None:
    base = watched.metrics_url.removesuffix("/metrics")
    with httpx.Client(timeout=PATIENCE_S) as client:
        assert client.get(f"{base}/").status_code == 404
        assert client.get(f"{base}/metrics/x").status_code == 404
        assert client.post(f"{base}/metrics", content=b"x").status_code == 405
        assert client.head(f"{base}/metrics").content == b""
        assert client.get(f"{watched.node.url}/metrics").status_code == 404


def test_no_answer_is_lost_from_the_counts_when_workers_are_killed(watched: Watched) -> None:
    answered = 0
    for _ in range(3):
        for _ in range(130):
            answered += httpx.get(f"{watched.node.url}/chain", timeout=PATIENCE_S).status_code == 200
        watched.kill_worker()
    assert watched.answered() == answered == 390
    page = watched.scrape()
    assert (
        page.total("cairn_process_restarts_total", process="cairn-api-0")
        + page.total("cairn_process_restarts_total", process="cairn-api-1")
        == 3
    )
    assert page.total("cairn_http_request_duration_seconds_count", route=ROUTE) == 390


def test_no_call_is_lost_from_the_counts_when_workers_are_killed(watched: Watched) -> None:
    answered = 0
    for _ in range(3):
        for _ in range(130):
            answered += isinstance(rpc(watched.node.url, "eth_blockNumber"), str)
        watched.kill_worker()
    page = watched.scrape()
    assert page.total("cairn_rpc_requests_total", method="eth_blockNumber", outcome="ok") == answered == 390
    assert page.total("cairn_http_requests_total", route="POST /rpc", code="200") == 390
    assert page.total("cairn_http_request_duration_seconds_count", route="POST /rpc") == 390


def test_under_load_kills_lose_no_answer_and_count_nothing_that_was_not_asked(watched: Watched) -> None:
    answers, asked, is_over = [0, 0, 0, 0], [0, 0, 0, 0], threading.Event()

    def ask(number: int) -> None:
        while not is_over.is_set():
            try:
                with httpx.Client(timeout=PATIENCE_S) as client:
                    while not is_over.is_set():
                        asked[number] += 1
                        answers[number] += client.get(f"{watched.node.url}/chain").status_code == 200
            except httpx.TransportError:
                continue

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        enough = sum(answers) + 100
        wait_until(lambda enough=enough: sum(answers) > enough, PATIENCE_S, "answers")  # type: ignore[misc]
        watched.kill_worker()
    is_over.set()
    for thread in threads:
        thread.join()
    assert sum(answers) <= watched.answered() <= sum(asked)


def test_the_page_is_answered_while_the_core_is_stopped(watched: Watched) -> None:
    core = watched.node.core_pid()
    os.kill(core, signal.SIGSTOP)
    try:
        stopped_at = time.time()
        page = watched.scrape()
        assert page.total("cairn_core_heartbeat_timestamp_seconds") <= stopped_at
        first = page.total("cairn_core_heartbeat_timestamp_seconds")
        assert watched.scrape().total("cairn_core_heartbeat_timestamp_seconds") == first
        assert page.total("process_open_fds", process="cairn-core") > 0
    finally:
        # Unless it was replaced by now.
        with suppress(ProcessLookupError):
            os.kill(core, signal.SIGCONT)
    wait_until(
        lambda: watched.scrape().total("cairn_core_heartbeat_timestamp_seconds") > first, PATIENCE_S, "the core's beat"
    )


def test_a_home_of_its_own_has_metrics_on_loopback_unless_told_and_the_time_of_its_backup(tmp_path: Path) -> None:
    with NodeProcess.start(("init", str(tmp_path / "home"))) as made:
        assert made.wait_exit() == 0
    settings = tmp_path / "home" / "cairn.toml"
    assert "\nmetrics_port = 8646\n" in settings.read_text()
    (port,) = free_ports(1)
    settings.write_text(settings.read_text().replace("metrics_port = 8646", f"metrics_port = {port}"))
    note_backup(tmp_path / "home", LastBackup("/backup/2027-01-15T080000Z", 1_800_000_000))
    with NodeProcess.start(("run", "--home", str(tmp_path / "home"), "--port", "0")) as node:
        node.wait_ready()
        # The supervisor looks twice a second.
        page = f"http://127.0.0.1:{port}/metrics"
        wait_until(lambda: scrape(page).find("cairn_ready", part="core") == 1, PATIENCE_S, "a core that is ready")
        # Looked up on the disk, which may take longer than an answer waits for it.
        backup = "cairn_backup_timestamp_seconds"
        wait_until(lambda: scrape(page).find(backup) == 1_800_000_000, PATIENCE_S, "the time of the backup")


def test_a_taken_port_for_metrics_is_named() -> None:
    with NodeProcess.start_dev() as first:
        port = first.url.rpartition(":")[2]
        with NodeProcess.start(("dev", "--port", "0", "--metrics-port", port)) as second:
            assert second.wait_exit() == 5
            assert f"port {port}" in second.stderr
            assert "--metrics-port" in second.stderr
