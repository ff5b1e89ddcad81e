"""`cairn doctor` on a sound home has no finding, and finds each fault that is planted in it, by its code."""

import json
import os
import resource
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cairn.build import DATA_FORMAT
from cairn.cli.main import app
from cairn.cli.node.home import Home
from cairn.cli.operate.examination import CHECKS, examine
from cairn.cli.operate.findings import Finding
from cairn.cli.operate.machine import Machine, Space
from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS
from cairn.running_node import RunningNode, announced
from cairn.store.directory import mark_format
from tests.support.certificates import make_certificate
from tests.support.ports import free_ports
from tests.support.sound_machine import PLENTY, SoundMachine

PROPOSER = "0x" + "ab" * 20
DAY_S = 86_400


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home that has run, and was backed up today."""
    directory = tmp_path / "home"
    made = CliRunner().invoke(app, ["init", str(directory), "--alloc", f"{PROPOSER}=5coins", "--proposer", PROPOSER])
    assert made.exit_code == 0, made.output
    found = Home(directory)
    # Of those that no other test takes meanwhile.
    api, metrics = free_ports(2)
    set_up(found, port=api, metrics_port=metrics)
    found.data_dir.mkdir(mode=0o700)
    mark_format(found.data_dir)
    found.begun_file.touch()
    note_backup(found, days=0)
    return found


def set_up(home: Home, **settings: object) -> None:
    lines = [line for line in home.config_file.read_text().splitlines() if line.partition(" =")[0] not in settings]
    lines += [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    home.config_file.write_text("\n".join(lines) + "\n")


def note_backup(home: Home, days: float) -> None:
    noted = {"backup": "/backups/x", "madeAt": int(time.time() - days * DAY_S), "height": 1}
    (home.directory / "last-backup.json").write_text(json.dumps(noted))


def findings(home: Home, machine: Machine | None = None, backup_days: int = 7) -> list[Finding]:
    return examine(home, {}, backup_days, machine or SoundMachine())[0]


def codes(home: Home, machine: Machine | None = None, backup_days: int = 7) -> list[str]:
    found = findings(home, machine, backup_days)
    assert all(finding.problem and finding.advice for finding in found)
    return [finding.code for finding in found]


def test_a_sound_home_has_no_finding(home: Home) -> None:
    assert findings(home) == []


def test_a_new_home_needs_no_backup_yet(home: Home) -> None:
    shutil.rmtree(home.data_dir)
    for path in (home.begun_file, home.directory / "last-backup.json"):
        path.unlink()
    assert findings(home) == []


# Faults of the home.

FAULTS: dict[str, Callable[[Home], object]] = {
    "GENESIS_MISSING": lambda home: home.genesis_file.unlink(),
    "GENESIS_INVALID": lambda home: home.genesis_file.write_text("{"),
    "CONFIG_INVALID": lambda home: set_up(home, portt=5),
    "SETTING_WITHOUT_EFFECT": lambda home: set_up(home, snapshot_interval=5),
    "FEES_LOST": lambda home: set_up(home, proposer="0x" + "0" * 40),
    "PUBLIC_KEYS": lambda home: set_up(home, proposer=checksum_address(DEV_KEYS[0][0])),
    "PROXY_NOT_TRUSTED": lambda home: set_up(home, allowed_hosts=["node.example"]),
    "ENGINE_MISMATCH": lambda home: set_up(home, engine="cometbft"),
    "SIGNING_KEY": lambda home: home.key_files.current.unlink(),
    "KEY_READABLE": lambda home: home.key_files.current.chmod(0o640),
    "WRITABLE_BY_ALL": lambda home: home.config_file.chmod(0o646),
    "CHAIN_MISSING": lambda home: (home.data_dir / "FORMAT").unlink(),
    "DATA_FORMAT": lambda home: (home.data_dir / "FORMAT").write_text(f"cairn data format {DATA_FORMAT + 1}\n"),
    "NODE_KILLED": lambda home: (home.directory / "running.json").write_text("{}"),
    "BACKUP_MISSING": lambda home: (home.directory / "last-backup.json").unlink(),
    "BACKUP_OLD": lambda home: note_backup(home, days=8),
    "CLOCK_BEHIND": lambda home: os.utime(home.begun_file, (time.time() + 3_600, time.time() + 3_600)),
}


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_of_the_home_is_found(home: Home, code: str) -> None:
    FAULTS[code](home)
    found = codes(home)
    # Another engine also lacks all that belongs to it, and ignores settings of this one.
    assert found == [code] if code != "ENGINE_MISMATCH" else code in found


def test_a_damaged_signing_key_is_found(home: Home) -> None:
    home.key_files.current.write_text("{}")
    assert codes(home) == ["SIGNING_KEY"]


def test_the_signing_key_of_another_chain_is_found_before_the_first_start(home: Home, tmp_path: Path) -> None:
    CliRunner().invoke(app, ["init", str(tmp_path / "other"), "--proposer", PROPOSER])
    home.begun_file.unlink()
    shutil.copy(tmp_path / "other" / "signing-key.json", home.key_files.current)
    assert codes(home) == ["SIGNING_KEY"]


def test_a_directory_that_is_not_there_is_all_that_is_said(tmp_path: Path) -> None:
    assert codes(Home(tmp_path / "nowhere")) == ["HOME_MISSING"]


def test_who_backs_up_in_another_way_is_not_told_of_old_backups(home: Home) -> None:
    note_backup(home, days=100)
    assert codes(home, backup_days=0) == []
    assert codes(home, backup_days=101) == []


def test_files_of_another_user_are_found(home: Home) -> None:
    class Mixed(SoundMachine):
        def owner(self, path: Path) -> int:
            return 4_711 if path.name == "FORMAT" else super().owner(path)

    [finding] = findings(home, Mixed())
    assert (finding.code, "1 files" in finding.problem) == ("WRONG_OWNER", True)


def test_a_look_at_a_home_of_another_user_says_so(home: Home) -> None:
    class Visitor(SoundMachine):
        def user(self) -> int:
            return 4_711

    assert codes(home, Visitor()) == ["ANOTHER_USER"]


# Faults of the certificate.


def serve_https(home: Home, days: int, **settings: object) -> None:
    certificate, key = make_certificate(home.directory, days)
    set_up(home, tls_cert=certificate, tls_key=key, **settings)


@pytest.mark.parametrize(
    ("days", "at_days", "found"),
    [
        (365, 0, []),
        (10, 0, ["CERTIFICATE_EXPIRES_SOON"]),
        (10, 11, ["CERTIFICATE_EXPIRED"]),
        (365, -2, ["CERTIFICATE_NOT_VALID_YET"]),
    ],
)
def test_the_time_of_a_certificate_is_looked_at(home: Home, days: int, at_days: int, found: list[str]) -> None:
    serve_https(home, days)

    class Later(SoundMachine):
        def now(self) -> float:
            return time.time() + at_days * DAY_S

    told = codes(home, Later(), backup_days=0)
    assert [code for code in told if code.startswith("CERTIFICATE")] == found


def test_a_certificate_for_other_names_is_found(home: Home) -> None:
    serve_https(home, 365, host="0.0.0.0", allowed_hosts=["localhost", "node.example"])
    [finding] = findings(home)
    assert (finding.code, "not for node.example," in finding.problem) == ("CERTIFICATE_NAME", True)


def test_a_key_of_another_certificate_is_found(home: Home) -> None:
    serve_https(home, 365)
    kept = (home.directory / "key.pem").read_text()
    serve_https(home, 365)
    (home.directory / "key.pem").write_text(kept)
    assert codes(home) == ["CERTIFICATE_UNUSABLE"]


def test_a_private_key_that_everybody_can_read_is_found(home: Home) -> None:
    serve_https(home, 365)
    (home.directory / "key.pem").chmod(0o644)
    assert codes(home) == ["KEY_READABLE"]


# Faults of the machine.


class Faulty(SoundMachine):
    """One answer is another than on a sound machine."""

    def __init__(self, **answers: object) -> None:
        for name, answer in answers.items():
            setattr(self, name, lambda *_, answer=answer: answer)


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        (Faulty(clock_is_kept=False), "CLOCK_NOT_KEPT"),
        (Faulty(space=Space(1 << 30, None, is_read_only=False)), "DISK_LOW"),
        (Faulty(space=Space(1 << 20, None, is_read_only=False)), "DISK_FULL"),
        (Faulty(space=Space(PLENTY, 3, is_read_only=False)), "DISK_FILES_LOW"),
        (Faulty(space=Space(PLENTY, PLENTY, is_read_only=True)), "DISK_READ_ONLY"),
        (Faulty(sync_seconds=5.0), "DISK_SLOW"),
        (Faulty(memory_bytes=64 << 20), "MEMORY_LOW"),
    ],
)
def test_a_fault_of_the_machine_is_found(home: Home, machine: Machine, code: str) -> None:
    assert codes(home, machine) == [code]


@pytest.mark.parametrize(
    ("kind", "code"), [(resource.RLIMIT_NOFILE, "FILE_LIMIT_LOW"), (resource.RLIMIT_NPROC, "PROCESS_LIMIT_LOW")]
)
def test_a_low_limit_is_found(home: Home, kind: int, code: str) -> None:
    class Limited(SoundMachine):
        def hard_limit(self, asked: int, pid: int | None) -> int | None:
            return 64 if asked == kind else None

    assert codes(home, Limited()) == [code]


def test_a_clock_that_is_years_ahead_is_found(home: Home) -> None:
    ahead = Faulty(now=time.time() + 11 * 365 * DAY_S)
    assert codes(home, ahead, backup_days=0) == ["CLOCK_AHEAD"]


def test_a_disk_that_cannot_be_looked_at_is_found(home: Home) -> None:
    class Gone(SoundMachine):
        def space(self, path: Path) -> Space:
            raise OSError(5, "Input/output error")

    assert codes(home, Gone()) == ["DISK_UNREADABLE"]


@pytest.mark.parametrize("name", ["port", "metrics_port"])
def test_a_port_that_is_taken_is_found_with_who_has_it(home: Home, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        set_up(home, **{name: taken.getsockname()[1]})
        [finding] = findings(home)
    assert finding.code == "PORT_UNAVAILABLE"
    assert finding.problem.startswith(f"{name}: ")
    assert f"process {os.getpid()}" in finding.problem


def test_an_address_of_another_machine_is_found(home: Home) -> None:
    set_up(home, host="192.0.2.1")
    assert codes(home) == ["PORT_UNAVAILABLE"]


def test_a_machine_without_room_for_sockets_is_found(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cairn.runtime_directory.candidates", lambda: [home.directory / "nowhere"])
    monkeypatch.setattr("cairn.runtime_directory.RUN_DIRECTORY", "x" * 100)
    assert codes(home) == ["RUNTIME_DIRECTORY"]


def test_a_node_that_runs_and_does_not_answer_is_found(home: Home) -> None:
    [port] = free_ports(1)
    running = RunningNode(os.getpid(), f"http://127.0.0.1:{port}", None, str(home.directory), "0.0.9", 1)
    with announced(home.directory, running):
        assert codes(home) == ["VERSION_DIFFERS", "NODE_SILENT"]


# The command.


def test_the_command_prints_findings_with_advice_and_ends_with_1(home: Home) -> None:
    set_up(home, snapshot_interval=5)
    done = CliRunner().invoke(app, ["doctor", "--home", str(home.directory)])
    assert done.exit_code == 1
    assert "warning  SETTING_WITHOUT_EFFECT  snapshot_interval has no effect" in done.stdout
    assert "\n         remove it from cairn.toml" in done.stdout


def test_json_has_the_checks_and_the_findings(home: Home) -> None:
    home.genesis_file.unlink()
    done = CliRunner().invoke(app, ["doctor", "--home", str(home.directory), "--json"])
    told = json.loads(done.stdout)
    assert (done.exit_code, told["checked"]) == (1, list(CHECKS))
    assert "GENESIS_MISSING" in [finding["code"] for finding in told["findings"]]
