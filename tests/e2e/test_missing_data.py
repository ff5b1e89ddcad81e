"""A home that is started without its chain: a volume that is not mounted, or a file that somebody removed."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cairn.config import EXIT_FATAL
from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS
from tests.support.damaged_homes import tree
from tests.support.node_process import NodeProcess, clean_environment, command, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.public import get_anew

HOLDER = checksum_address(DEV_KEYS[0][0])
RUN = ("--port", "0", "--workers", "1", "--block-time", "0.05", "--empty-blocks", "--proposer", HOLDER)


def height(node: NodeProcess) -> int:
    return int(get_anew(f"{node.url}/chain").json()["head"]["blockHeight"])


def started(home: Path, *more: str) -> NodeProcess:
    return NodeProcess.start(("run", "--home", str(home), *RUN, *more))


def refused(home: Path) -> str:
    """Start it, and see it end; returns what it said."""
    with started(home) as node:
        wait_until(lambda: not node.is_running or "Listening on" in node.stdout, PATIENCE_S, "its end")
        assert not node.is_running, "it started"
        assert node.process.returncode == EXIT_FATAL
        return node.stderr


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A home whose node was stopped, and the height that it had seen."""
    home = tmp_path_factory.mktemp("whole") / "home"
    made = command(("init", str(home), "--chain-id", "77", "--alloc", f"{HOLDER}=5coins", "--proposer", HOLDER))
    subprocess.run(made, check=True, env=clean_environment(), capture_output=True)
    assert not (home / "chain-begun").exists()
    with started(home) as node:
        assert height(node) >= 0
        assert (home / "chain-begun").exists(), "it serves, but would not miss its chain"
        wait_until(lambda: height(node) >= 3, PATIENCE_S, "blocks")
        reached = height(node)
        assert node.stop() == 0
    return home, reached


def without_current(home: Path) -> Path:
    (home / "data" / "chain" / "CURRENT").unlink()
    return home / "data" / "chain" / "CURRENT"


def emptied(home: Path) -> Path:
    shutil.rmtree(home / "data")
    (home / "data").mkdir()
    return home / "data"


def removed(home: Path) -> Path:
    shutil.rmtree(home / "data")
    return home / "data"


@pytest.mark.parametrize("harm", [without_current, emptied, removed])
def test_three_starts_change_nothing_and_what_comes_back_is_all_there(
    whole: tuple[Path, int], tmp_path: Path, harm: Callable[[Path], Path]
) -> None:
    home, reached = whole
    copy = Path(shutil.copytree(home, tmp_path / "home"))
    named = harm(copy)
    before = tree(copy)
    for _ in range(3):
        assert str(named) in refused(copy)
        assert tree(copy) == before
    # A mount, or the file from a backup.
    shutil.copytree(home / "data", copy / "data", dirs_exist_ok=True)
    with started(copy) as node:
        assert height(node) >= reached


def test_a_new_chain_is_begun_where_the_mark_was_removed(whole: tuple[Path, int], tmp_path: Path) -> None:
    home, reached = whole
    copy = Path(shutil.copytree(home, tmp_path / "home"))
    emptied(copy)
    (copy / "chain-begun").unlink()
    with started(copy, "--block-time", "3600") as node:
        assert height(node) < reached
        assert (copy / "chain-begun").exists()


def test_a_home_that_cannot_be_written_is_served_with_a_warning(whole: tuple[Path, int], tmp_path: Path) -> None:
    home, reached = whole
    copy = Path(shutil.copytree(home, tmp_path / "home"))
    (copy / "chain-begun").unlink()
    # Whoever runs this, root too, cannot make a file of that name.
    os.mkdir(copy / "chain-begun.new")
    with started(copy) as node:
        assert height(node) >= reached
        wait_until(lambda: "cannot write down that the chain was begun" in node.stderr, PATIENCE_S, "the warning")
