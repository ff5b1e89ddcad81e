"""docs/verify.md as an operator follows it, beside a node that runs; and what a damaged home gives."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.store.directory import journal_path
from tests.support.disk import flip_byte
from tests.support.lone_home import LoneHome
from tests.support.node_process import NodeProcess, clean_environment, command
from tests.support.pages import Hashes, Page, Terminal, steady

PAGE = Page("docs/verify.md")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> LoneHome:
    return LoneHome(tmp_path_factory.mktemp("operator") / "shop")


@pytest.fixture(scope="module")
def node(home: LoneHome) -> Iterator[NodeProcess]:
    with home.start() as process:
        process.wait_ready()
        for _ in range(3):
            home.pay(process)
        yield process


def test_the_commands_print_what_is_shown_beside_a_running_node(home: LoneHome, node: NodeProcess) -> None:
    reader = Terminal(home.directory.parent, node.url)
    steps = PAGE.steps()
    assert steps
    for line, shown in steps:
        printed = reader.run(line)
        assert steady(printed) == steady(Hashes().learn(shown, printed)), line


def test_json_has_the_head_that_the_node_shows(home: LoneHome, node: NodeProcess) -> None:
    verdict = home.cairn_json("verify", "--home", str(home.directory))
    assert (verdict["ok"], verdict["nodeRuns"], verdict["findings"]) == (True, True, [])
    assert (verdict["head"]["blockHeight"], verdict["executed"]) == (home.paid, home.paid + 1)
    assert verdict["head"]["hash"] == f"0x{home.proven(node, home.paid).hash.hex()}"


def test_a_backup_of_the_running_node_is_whole(home: LoneHome, node: NodeProcess, tmp_path: Path) -> None:
    made = home.cairn_json("backup", str(tmp_path), "--home", str(home.directory))
    verdict = home.cairn_json("verify", "--home", made["backup"])
    assert (verdict["ok"], verdict["nodeRuns"], verdict["head"]["blockHeight"]) == (True, False, made["blockHeight"])


def test_a_damaged_home_exits_with_3_and_names_the_part(tmp_path: Path) -> None:
    home = LoneHome(tmp_path / "home")
    with home.start() as node:
        node.wait_ready()
        home.pay(node)
        assert node.stop() == 0
    flip_byte(next(journal_path(home.directory / "data").glob("*.seg")), 5)
    done = subprocess.run(
        command(["verify", "--home", str(home.directory / "data"), "--json"]),
        env=clean_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3, done.stderr
    [finding] = json.loads(done.stdout)["findings"]
    assert finding["part"] == "journal"
    assert "1 difference found" in home.cairn("verify", "--home", str(home.directory), code=3)


def test_a_directory_without_a_chain_is_a_wrong_option(tmp_path: Path) -> None:
    done = subprocess.run(
        command(["verify", "--home", str(tmp_path)]), env=clean_environment(), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "holds no chain" in done.stderr
