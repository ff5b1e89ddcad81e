"""`cairn status` and `cairn doctor` on a real node: well, with a stopped core, killed, and stopped."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cairn.build import COMMIT, VERSION
from tests.support.lone_home import LoneHome
from tests.support.node_process import NodeProcess, clean_environment, command, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.ports import free_ports

OF_THE_MACHINE = {"CLOCK_NOT_KEPT", "DISK_LOW", "DISK_SLOW", "FILE_LIMIT_LOW", "PROCESS_LIMIT_LOW", "MEMORY_LOW"}
"""What may be wrong with the machine that runs the tests."""


@pytest.fixture
def home(tmp_path: Path) -> LoneHome:
    made = LoneHome(tmp_path / "home")
    config = made.directory / "cairn.toml"
    api, metrics = free_ports(2)
    kept = [line for line in config.read_text().splitlines() if not line.startswith("metrics_port")]
    config.write_text("\n".join([*kept, f"port = {api}", f"metrics_port = {metrics}", ""]))
    return made


@pytest.fixture
def node(home: LoneHome) -> Iterator[NodeProcess]:
    with home.start() as running:
        running.wait_ready()
        yield running


def ask(home: LoneHome, name: str, *options: str) -> tuple[int, dict[str, Any]]:
    line = command([name, "--home", str(home.directory), "--json", *options])
    done = subprocess.run(
        line, env=clean_environment(), capture_output=True, text=True, timeout=PATIENCE_S, start_new_session=True
    )
    return done.returncode, json.loads(done.stdout)


def codes(told: dict[str, Any]) -> set[str]:
    return {finding["code"] for finding in told["findings"]} - OF_THE_MACHINE


def test_a_node_that_is_well_has_no_finding_and_shows_all_of_itself(home: LoneHome, node: NodeProcess) -> None:
    home.pay(node)
    code, told = ask(home, "status")
    assert (code, codes(told)) == (0, set())
    assert (told["version"], told["commit"], told["head"]["blockHeight"]) == (VERSION, COMMIT, 1)
    assert {each["name"] for each in told["processes"]} == {"cairn", "cairn-api-0", "cairn-core"}
    assert told["readiness"]["status"] == "ready"
    assert told["dataBytes"] > 0
    assert told["connections"] is not None, "from the metrics"
    _, examined = ask(home, "doctor", "--backup-days", "0")
    assert codes(examined) == {"PUBLIC_KEYS"}, "the tests pay from a dev account"


def test_a_stopped_core_is_named_by_both(home: LoneHome, node: NodeProcess) -> None:
    # Neither may end it while it is looked at.
    os.kill(node.process.pid, signal.SIGSTOP)
    os.kill(node.core_pid(), signal.SIGSTOP)
    # An answer of the last second may be given once more.
    wait_until(lambda: node.probe("/ready") == 503, PATIENCE_S, "the end of its readiness")
    code, told = ask(home, "status")
    assert code == 1
    assert codes(told) == {"PROCESS_STOPPED", "NOT_READY"}
    assert told["head"]["blockHeight"] == 0, "the workers read it from the disk"
    assert "core" in {part for part, said in told["readiness"]["checks"].items() if said not in ("ok", "unknown")}
    code, examined = ask(home, "doctor", "--backup-days", "0")
    assert (code, codes(examined)) == (1, {"PROCESS_STOPPED", "NOT_READY", "PUBLIC_KEYS"})


def test_a_killed_node_is_told_from_one_that_was_stopped(home: LoneHome, node: NodeProcess) -> None:
    home.pay(node)
    node.kill_group()
    code, told = ask(home, "status")
    assert (code, codes(told)) == (5, {"NODE_STOPPED", "NODE_KILLED"})
    assert told["head"]["blockHeight"] == 1, "read from the disk"
    with home.start() as again:
        again.wait_ready()
        assert again.stop() == 0
    assert codes(ask(home, "status")[1]) == {"NODE_STOPPED"}
