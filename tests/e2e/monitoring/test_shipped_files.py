"""What packaging/monitoring ships is what Prometheus and Alertmanager take, and each rule does what it says."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.monitoring import DIRECTORY, replaced
from tests.support.programs import need_program

WRONG = {
    "CairnDown": ('up{job="cairn"} == 0', 'up{job="cairn"} == 1'),
    "CairnCoreStuck": ("_heartbeat_timestamp_seconds > 5", "_heartbeat_timestamp_seconds > 50"),
    "CairnNotReady": ("for: 30s", "for: 10s"),
    "CairnNotMining": ('state="pending"', 'state="queued"'),
    "CairnDiskLow": ("< 2147483648", "< 1000000000"),
    "CairnDiskFullInADay": ("86400) < 0", "3600) < 0"),
    "CairnSlowSync": ('le="0.5"', 'le="2.5"'),
    "CairnRestarts": ("restarts_total[15m])) > 2", "restarts_total[15m])) > 1"),
    "CairnErrors": (',route!~"GET /(health|ready|startup)"', ""),
    "CairnCertificateExpires": ("14 * 86400", "13 * 86400"),
    "CairnBackupOld": ("> 7 * 86400", "> 8 * 86400"),
    "CairnLagging": ("by (job, chain) (cairn_chain_height)", "by (job) (cairn_chain_height)"),
    "CairnMissedBlocks": ("missed_blocks) > 10", "missed_blocks) > 9"),
    "CairnEvidence": ("(increase(cairn_evidence_total[1d]))", "(cairn_evidence_total)"),
}
"""By alert, something in its rule, and what would be wrong there."""


def run(program: str, *args: str, directory: Path = DIRECTORY) -> subprocess.CompletedProcess[str]:
    return subprocess.run([need_program(program), *args], cwd=directory, capture_output=True, text=True)


@pytest.mark.parametrize(
    "command",
    [
        ["promtool", "check", "config", "prometheus.yml"],
        ["promtool", "check", "rules", "--lint=all", "--lint-fatal", "alerts.yml"],
        ["promtool", "test", "rules", "alerts_test.yml"],
        ["amtool", "check-config", "alertmanager.yml"],
    ],
    ids=lambda command: " ".join(command[:2]) + " " + command[-1],
)
def test_the_programs_take_the_files(command: list[str]) -> None:
    checked = run(*command)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_tests_of_the_rules_notice_each_rule_that_is_wrong(tmp_path: Path) -> None:
    rules = (DIRECTORY / "alerts.yml").read_text()
    (tmp_path / "alerts.yml").write_text(replaced(rules, WRONG.values()))
    (tmp_path / "alerts_test.yml").write_bytes((DIRECTORY / "alerts_test.yml").read_bytes())
    tested = run("promtool", "test", "rules", "alerts_test.yml", directory=tmp_path)
    assert set(re.findall(r"alertname: ?(\w+)", tested.stdout + tested.stderr)) == set(WRONG)


def test_a_page_goes_to_another_receiver_than_a_ticket() -> None:
    for severity in ("page", "ticket"):
        routed = run("amtool", "config", "routes", "test", "--config.file=alertmanager.yml", f"severity={severity}")
        assert routed.stdout.strip() == severity
