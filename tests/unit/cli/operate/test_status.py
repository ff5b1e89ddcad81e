"""`cairn status` of nodes in every state, played by a server whose answers a test decides."""

import json
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from cairn.api.description.examples import EXAMPLES
from cairn.api.rest.probes import CHECK_TIMEOUT_S
from cairn.build import VERSION
from cairn.cli.main import app
from cairn.cli.operate.live_node import PATIENCE_S, Metrics, SaidReadiness
from cairn.running_node import RunningNode, announced
from tests.support.json_server import Answer, JsonServer
from tests.support.ports import free_ports

READY = {"status": "ready", "checks": {"store": "ok", "mempool": "ok", "disk": "ok", "core": "ok"}}
STUCK = {
    "status": "unavailable",
    "checks": {"store": "unknown", "mempool": "unknown", "disk": "ok", "core": "the core did not answer within 3 s"},
}
METRICS = """# HELP cairn_http_connections Open connections.
# TYPE cairn_http_connections gauge
cairn_http_connections{state="active"} 2
cairn_http_connections{state="idle"} 5
cairn_websocket_connections 1
cairn_process_restarts_total{process="cairn-core"} 3
cairn_process_restarts_total{process="cairn-api-0"} 0
cairn_certificate_expiry_timestamp_seconds 2000000000
"""


class Played(JsonServer):
    """A node that answers as a test wants."""

    def __init__(self, **chain: Any) -> None:
        head = {"blockHeight": 7, "hash": "0x" + "ab" * 32, "timestamp": int(time.time()) - 5}
        self.answers: dict[str, Answer] = {
            "/health": (200, {"status": "alive"}),
            "/ready": (200, READY),
            "/chain": (200, EXAMPLES["Chain"] | {"head": head, "version": VERSION} | chain),
            "/block/latest": (200, head | {"transactions": []}),
            "/metrics": (200, METRICS.encode()),
        }
        self.results = {"net_peerCount": "0x3", "cairn_dataSize": "0x100000"}
        self.asked: list[str] = []
        super().__init__()

    def get(self, path: str) -> Answer:
        self.asked.append(path)
        return self.answers.get(path, (404, {"code": "NOT_FOUND", "detail": "there is nothing here"}))

    def post(self, path: str, body: bytes) -> Answer:
        return 200, {"jsonrpc": "2.0", "id": 1, "result": self.results[msgspec.json.decode(body)["method"]]}


def run(*args: str) -> Any:
    return CliRunner().invoke(app, ["status", *args])


def told(*args: str, code: int) -> dict[str, Any]:
    done = run(*args, "--json")
    assert done.exit_code == code, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def codes(status: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in status["findings"]]


def test_a_node_that_is_well_is_one_screen_and_exit_code_0() -> None:
    with Played() as node:
        done = run("--node", node.url)
    assert done.exit_code == 0, done.output
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert lines["node"].startswith(f"{node.url}, Cairn {VERSION} (")
    assert lines["head"].startswith("block 7, ")
    assert lines["ready"] == "yes"
    assert lines["mempool"] == "0 pending, 0 queued, room for 100,000"


def test_a_node_that_is_not_ready_names_the_part_and_what_to_do() -> None:
    with Played() as node:
        node.answers["/ready"] = 503, STUCK
        node.answers["/chain"] = 503, {"code": "CORE_UNAVAILABLE"}
        status = told("--node", node.url, code=1)
        shown = run("--node", node.url).stdout
    assert codes(status) == ["NOT_READY"]
    assert status["head"]["blockHeight"] == 7, "it is on disk, whatever the core does"
    assert "\nready  no: core\n" in shown
    assert "NOT_READY  core: the core did not answer within 3 s\n         a core that hangs is started again" in shown


def test_a_node_that_does_not_answer_is_exit_code_5() -> None:
    [port] = free_ports(1)
    status = told("--node", f"http://127.0.0.1:{port}", code=5)
    assert (codes(status), status["isRunning"]) == (["NODE_SILENT"], False)


def test_another_server_is_no_node() -> None:
    with Played() as node:
        node.answers = dict.fromkeys(node.answers, (200, ["something else"]))
        assert codes(told("--node", node.url, code=5)) == ["NOT_READY"]


def test_pending_transactions_without_a_block_are_an_error() -> None:
    old = {"blockHeight": 7, "hash": "0x" + "ab" * 32, "timestamp": int(time.time()) - 600}
    with Played(head=old, mempool={"pending": 3, "queued": 0, "limit": 10}) as node:
        assert codes(told("--node", node.url, code=1)) == ["NO_BLOCKS"]


def test_a_mempool_that_is_nearly_full_is_a_warning() -> None:
    with Played(mempool={"pending": 5, "queued": 4, "limit": 10}) as node:
        assert codes(told("--node", node.url, code=0)) == ["MEMPOOL_FULL"]


def test_a_block_from_the_future_shows_that_the_clock_is_behind() -> None:
    ahead = {"blockHeight": 7, "hash": "0x" + "ab" * 32, "timestamp": int(time.time()) + 600}
    with Played(head=ahead) as node:
        assert codes(told("--node", node.url, code=1)) == ["CLOCK_BEHIND"]


def test_a_node_that_makes_its_blocks_alone_is_asked_nothing_that_it_would_count_as_refused() -> None:
    with Played(engine="embedded") as node:
        told("--node", node.url, code=0)
        assert set(node.asked) <= set(node.answers)


def test_a_network_is_shown_with_peers_and_validators() -> None:
    one = EXAMPLES["Validators"]["validators"][0]
    validators = EXAMPLES["Validators"] | {
        "validators": [one | {"name": "north", "missedBlocks": 90}, one | {"name": "south", "missedBlocks": 0}],
        "votedBlocks": 100,
    }
    with Played(engine="cometbft") as node:
        node.answers["/validators"] = 200, validators
        status = told("--node", node.url, code=0)
        shown = run("--node", node.url).stdout
    assert codes(status) == ["VALIDATORS_AWAY", "EVIDENCE"]
    assert "north missed more than half" in status["findings"][0]["problem"]
    assert "\npeers       3\n" in shown
    assert "\nvalidators  north, power 10, missed 90 of the latest 100 blocks\n" in shown


# By the home.


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "home"
    address = "0x" + "12" * 20
    assert CliRunner().invoke(app, ["init", str(directory), "--proposer", address]).exit_code == 0
    return directory


def test_a_node_that_does_not_run_is_exit_code_5_and_says_how_to_start_it(home: Path) -> None:
    done = run("--home", str(home))
    assert done.exit_code == 5
    assert done.stdout.startswith("node   does not run\n")
    assert f"start it: cairn run --home {home}" in done.stdout


def test_what_keeps_a_stopped_node_from_starting_is_said(home: Path) -> None:
    (home / "signing-key.json").unlink()
    found = codes(told("--home", str(home), code=5))
    assert found[0] == "NODE_STOPPED"
    assert "SIGNING_KEY" in found


def test_the_node_of_a_home_is_shown_with_its_processes_and_metrics(home: Path) -> None:
    with Played() as node:
        running = RunningNode(os.getpid(), node.url, f"{node.url}/metrics", str(home), VERSION, int(time.time()) - 90)
        with announced(home, running):
            status = told("--home", str(home), code=0)
            shown = run("--home", str(home)).stdout
    assert "RESTARTS" in codes(status)
    assert status["connections"] == {"active": 2, "idle": 5, "websockets": 1}
    assert status["certificateExpiresAt"] == 2_000_000_000
    assert os.getpid() in [process["pid"] for process in status["processes"]]
    assert "\nconnections  2 active, 5 idle, 1 WebSockets\n" in shown
    assert "\ncertificate  valid until 2033-05-18\n" in shown


def test_a_hand_over_that_the_node_refuses_is_shown(home: Path) -> None:
    with Played() as node:
        node.answers["/metrics"] = 200, METRICS.encode() + b"cairn_signing_key_not_on_disk 1\n"
        running = RunningNode(os.getpid(), node.url, f"{node.url}/metrics", str(home), VERSION, int(time.time()) - 90)
        with announced(home, running):
            assert "HAND_OVER_REFUSED" in codes(told("--home", str(home), code=1))
            node.answers["/metrics"] = 200, METRICS.encode() + b"cairn_signing_key_not_on_disk 0\n"
            assert "HAND_OVER_REFUSED" not in codes(told("--home", str(home), code=0))


def test_without_options_the_current_directory_is_the_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAIRN_NODE", raising=False)
    monkeypatch.chdir(home)
    assert told(code=5)["home"] == "."


def test_a_home_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    assert run("--home", str(tmp_path / "none")).exit_code == 2


# What is read.


def test_metrics_are_read_by_name_and_label() -> None:
    page = Metrics(METRICS)
    assert page.values("cairn_http_connections", "state") == {"active": 2, "idle": 5}
    assert page.value("cairn_http_connections") == 7
    assert page.value("cairn_unknown") is None
    assert Metrics('a{b="x\\"y",c="z"} 1').values("a", "b") == {'x\\"y': 1}


def test_the_part_at_fault_comes_before_those_that_suffer() -> None:
    said = SaidReadiness("unavailable", {"store": "no space", "mempool": "no space", "disk": "no space", "core": "ok"})
    assert said.failing() == {"disk": "no space"}
    assert SaidReadiness("unavailable", {"store": "broken", "mempool": "ok"}).failing() == {"store": "broken"}


def test_a_node_is_given_the_time_that_its_own_check_may_take_on_a_busy_machine() -> None:
    """Each part of the check's limit may end late by as much again, and then counts half."""
    assert PATIENCE_S >= 4 * CHECK_TIMEOUT_S
