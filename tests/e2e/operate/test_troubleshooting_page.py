"""docs/troubleshooting.md: every symptom is brought about, and every command of the page run on it."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

import cairn.cli.operate
from tests.support.certificates import expire, make_certificate
from tests.support.commands import run_here
from tests.support.network import make_homes
from tests.support.node_process import NodeProcess, clean_environment, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import PROGRAMS, Page
from tests.support.ports import free_base_port, free_ports
from tests.support.programs import need_program

HOLDER = "0x" + "ab" * 20
"""No dev account, which `cairn doctor` would name."""
PAGE = Page("docs/troubleshooting.md")
HOME, API, API_OF_NETWORK, METRICS = "/var/lib/cairn", ":8645", ":8650", ":8646"
USAGE, DATA = 2, 3


class Patient:
    """A node's home in a directory of its own, which stands for that of the page."""

    def __init__(self, directory: Path, ports: list[int]) -> None:
        self.directory = directory
        self.api, self.metrics = ports
        self.documented_api = API
        self.node: NodeProcess | None = None

    def own(self, text: str) -> str:
        """A command or an output of the page, as it is here."""
        text = text.replace(HOME, str(self.directory)).replace("port 8645", f"port {self.api}")
        return text.replace(self.documented_api, f":{self.api}").replace(METRICS, f":{self.metrics}")

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            self.own(line),
            shell=True,
            env=clean_environment({"PATH": path}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            start_new_session=True,
        )

    def set_up(self, **settings: object) -> None:
        config = self.directory / "cairn.toml"
        lines = [line for line in config.read_text().splitlines() if line.partition(" =")[0] not in settings]
        lines += [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        config.write_text("\n".join(lines) + "\n")

    def start(self) -> NodeProcess:
        """Run it, unless it runs."""
        if self.node is None:
            self.node = NodeProcess.start(("run", "--home", str(self.directory), "--workers=1"))
            self.node.wait_ready()
        return self.node

    def kill(self) -> None:
        if self.node is not None:
            self.node.close()
            self.node = None

    @contextmanager
    def running(self) -> Iterator[NodeProcess]:
        try:
            yield self.start()
        finally:
            self.kill()


def with_own_ports(directory: Path) -> Patient:
    patient = Patient(directory, free_ports(2))
    patient.set_up(port=patient.api, metrics_port=patient.metrics)
    return patient


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that was never run."""
    directory = tmp_path_factory.mktemp("made") / "cairn"
    run_here(["init", str(directory), "--alloc", f"{HOLDER}=5coins", "--proposer", HOLDER])
    return directory


@pytest.fixture
def patient(made: Path, tmp_path: Path) -> Patient:
    shutil.copytree(made, tmp_path / "cairn")
    return with_own_ports(tmp_path / "cairn")


@pytest.fixture(scope="module")
def running(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    """One that runs, or did so, for the symptoms that leave its home as it is."""
    directory = tmp_path_factory.mktemp("running") / "cairn"
    shutil.copytree(made, directory)
    patient = with_own_ports(directory)
    patient.start()
    yield patient
    patient.kill()


@contextmanager
def as_it_is(patient: Patient) -> Iterator[None]:
    yield


@contextmanager
def runs(patient: Patient) -> Iterator[None]:
    patient.start()
    yield


@contextmanager
def wrong_setting(patient: Patient) -> Iterator[None]:
    patient.set_up(blok_time_s=2)
    yield


@contextmanager
def port_taken(patient: Patient) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", patient.api)):
        yield


@contextmanager
def disk_not_mounted(patient: Patient) -> Iterator[None]:
    (patient.directory / "chain-begun").touch()
    yield


@contextmanager
def was_killed(patient: Patient) -> Iterator[None]:
    patient.kill()
    yield


@contextmanager
def core_stopped(patient: Patient) -> Iterator[None]:
    node = patient.start()
    # The supervisor first, which would start another core.
    for pid in (node.process.pid, node.core_pid()):
        os.kill(pid, signal.SIGSTOP)
    # An answer of the last second may be given once more.
    wait_until(lambda: node.probe("/ready") == 503, PATIENCE_S, "the end of its readiness")
    try:
        yield
    finally:
        patient.kill()


@contextmanager
def certificate_expired(patient: Patient) -> Iterator[None]:
    certificate, key = make_certificate(patient.directory)
    expire(Path(certificate), Path(key))
    patient.set_up(tls_cert=certificate, tls_key=key)
    yield


@contextmanager
def clock_set_back(patient: Patient) -> Iterator[None]:
    later = time.time() + 3_600
    os.utime(patient.directory / "genesis.json", (later, later))
    yield


@contextmanager
def network_runs(patient: Patient) -> Iterator[None]:
    base_port = free_base_port(1)
    net = patient.directory.with_name("net")
    make_homes(net, 1, [f"--base-port={base_port}"])
    shutil.rmtree(patient.directory)
    (net / "node0").rename(patient.directory)
    patient.api, patient.documented_api = base_port, API_OF_NETWORK
    with patient.running():
        yield


BringAbout = Callable[[Patient], AbstractContextManager[None]]
WHILE_RUNNING: dict[str, tuple[BringAbout, set[int]]] = {
    "A transaction stays pending": (runs, {0}),
    "The disk is full or slow": (runs, {0, 1}),
    "Ask for help": (runs, {0, 1}),
    "Not ready: /ready is 503": (core_stopped, {0, 1}),
    "The node ran, and is gone": (was_killed, {5}),
    "The data is damaged": (was_killed, {0}),
}
"""By heading: how it is brought about, and the exit codes of its commands. Doctor may find something of the machine.

They share a node, which the last ones kill.
"""
ALONE: dict[str, tuple[BringAbout, set[int]]] = {
    "The node does not start: exit code 2": (wrong_setting, {USAGE}),
    "The port is already in use": (port_taken, {1}),
    "The node does not start: exit code 3": (disk_not_mounted, {1}),
    "Clients cannot connect": (as_it_is, {0}),
    "The certificate has expired": (certificate_expired, {1}),
    "The clock is wrong": (clock_set_back, {1}),
    "The network makes no blocks": (network_runs, {0}),
}


def test_every_section_with_commands_is_tried() -> None:
    with_commands = [heading for heading in PAGE.headings() if PAGE.section(heading).steps()]
    assert sorted(with_commands) == sorted([*WHILE_RUNNING, *ALONE])


def test_the_first_commands_work_on_a_node_that_runs(running: Patient) -> None:
    running.start()
    steps = Page(PAGE.name, PAGE.text.partition("\n## ")[0]).steps()
    assert [step.line.split()[1] for step in steps] == ["status", "doctor", "config"]
    assert [running.run(step.line).returncode for step in steps][::2] == [0, 0]
    assert running.run(steps[1].line).returncode in (0, 1)


@pytest.mark.parametrize("heading", WHILE_RUNNING)
def test_the_commands_for_a_symptom_of_a_node_that_ran_show_its_cause(heading: str, running: Patient) -> None:
    check_commands(heading, running, *WHILE_RUNNING[heading])


@pytest.mark.parametrize("heading", ALONE)
def test_the_commands_for_a_symptom_show_its_cause(
    heading: str, patient: Patient, request: pytest.FixtureRequest
) -> None:
    if ALONE[heading][0] is network_runs:
        request.getfixturevalue("cometbft_tools")
    check_commands(heading, patient, *ALONE[heading])


def check_commands(heading: str, patient: Patient, bring_about: BringAbout, codes: set[int]) -> None:
    with bring_about(patient):
        for line, shown in PAGE.section(heading).steps():
            if line.startswith("curl"):
                need_program("curl")
            done = patient.run(line)
            assert done.returncode in codes, f"{line}\n{done.stdout}{done.stderr}"
            for expected in patient.own(shown).splitlines():
                pattern = ".*".join(map(re.escape, expected.split("…")))
                assert re.search(f"^{pattern}$", done.stdout, re.MULTILINE), f"{expected}\n{done.stdout}"


def test_every_finding_is_on_the_page() -> None:
    sources = "".join(path.read_text() for path in Path(cairn.cli.operate.__path__[0]).glob("*.py"))
    calls = re.findall(r'\b(?:error|warning|finding)\(\s*"([A-Z_]+)"((?: if \w+ else "[A-Z_]+")?)', sources)
    used = {code for code, _ in calls} | set(re.findall(r'else "([A-Z_]+)"', "".join(other for _, other in calls)))
    table = PAGE.section("Every finding").text
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    listed = re.findall(r"`([A-Z_]+)`", "".join(first_cells))
    assert len(used) > 50
    assert sorted(listed) == sorted(used)
