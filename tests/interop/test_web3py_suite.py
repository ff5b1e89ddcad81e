"""The tests that web3.py ships for nodes. What may fail is in web3py/may_fail.txt, with the reason, and does fail."""

import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.conftest import HERE, run
from tests.support.node_process import NodeProcess
from tests.support.wallet import dev_account

REASONS = {
    "contract": "there are no contracts",
    "ENS": "'list' object has no attribute 'isascii'",
    "chain id": "131277322940537",
    "withdrawals": "SOME_BLOCK_KEYS",
}
"""The head of may_fail.txt says what each means; this is in what each failure says, or in the line that failed."""
TESTS_FAILED = 1
"""How pytest ends when there was no other trouble."""
SKIPPED = "skipped"
LEAST_TESTS = 400
"""A suite that loses its tests must not pass."""


@pytest.fixture(scope="module")
def may_fail() -> dict[str, str]:
    """By the name of a test its reason: a name without parameters stands for all of its parameters."""
    lines = [line for line in (HERE / "web3py" / "may_fail.txt").read_text().splitlines() if line[:1] not in ("", "#")]
    return {line.split(": ")[1]: line.split(": ")[0] for line in lines}


@pytest.fixture(scope="module")
def outcomes(python_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """By the name of each test: what failed with what it said, and nothing of what passed."""
    place = shutil.copytree(HERE / "web3py", tmp_path_factory.mktemp("web3py") / "suite")
    with (
        NodeProcess.start_dev("--block-time", "86400") as on_demand,
        NodeProcess.start_dev("--block-time", "0.5", "--empty-blocks") as steady,
    ):
        env = {
            "CAIRN_HTTP": f"{on_demand.url}/rpc",
            "CAIRN_WS": f"{steady.ws_url}/rpc",
            "CAIRN_KEY": "0x" + bytes(dev_account(0).key).hex(),
        }
        run(
            [python_programs / "python", "-m", "pytest", "-q", "--junitxml=report.xml", "suite.py"],
            place,
            env,
            accepted=(0, TESTS_FAILED),
        )
    return dict(read_outcomes(place / "report.xml"))


def read_outcomes(report: Path) -> Iterator[tuple[str, str]]:
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').partition('.')[2]}::{case.get('name')}"
        failures = [found for kind in ("failure", "error") for found in case.iter(kind)]
        said = "".join(found.get("message", "") + (found.text or "") for found in failures)
        yield name, said if case.find("skipped") is None else SKIPPED


def covers(listed: str, test: str) -> bool:
    return listed in (test, test.partition("[")[0])


def test_all_passes_that_is_not_listed(outcomes: dict[str, str], may_fail: dict[str, str]) -> None:
    failed = {name: said for name, said in outcomes.items() if said not in ("", SKIPPED)}
    unlisted = {name: said for name, said in failed.items() if not any(covers(listed, name) for listed in may_fail)}
    assert unlisted == {}
    assert len(outcomes) >= LEAST_TESTS


def test_all_that_is_listed_fails_for_its_reason(outcomes: dict[str, str], may_fail: dict[str, str]) -> None:
    for listed, reason in may_fail.items():
        said = [said for name, said in outcomes.items() if covers(listed, name)]
        assert said, f"there is no {listed}"
        assert all(said), f"{listed} does not fail: take it from may_fail.txt"
        assert all(REASONS[reason] in each for each in said), (listed, said)
