"""`cairn compact`: a store without what was removed from it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cairn.cli.main import app
from cairn.cli.report import ExitCode
from cairn.domain.genesis import encode_genesis
from cairn.store.chain import ChainStore
from cairn.store.directory import DirectoryLock
from cairn.store.hot_copy import COPY_DIRECTORY
from cairn.store.prune import Compaction
from tests.support.blocks import grow, store_genesis

cli = CliRunner()
BLOCKS, KEPT = 60, 5


def run(*args: object, code: ExitCode = ExitCode.DONE) -> str:
    result = cli.invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node that has removed most of its blocks, and has not given their space back."""
    monkeypatch.setattr(Compaction, "give_back", lambda self, pause: None)
    home = tmp_path / "home"
    home.mkdir()
    (home / "genesis.json").write_bytes(encode_genesis(store_genesis()))
    chain = ChainStore.open(home / "data", store_genesis())
    grow(chain, BLOCKS, 100)
    chain.prune(BLOCKS - KEPT, lambda: None)
    chain.close()
    return home


def table_bytes(home: Path) -> int:
    return sum(table.stat().st_size for table in (home / "data" / "chain").glob("*.sst"))


def test_the_space_of_removed_blocks_is_given_back_and_the_chain_is_the_same(home: Path) -> None:
    before = table_bytes(home)
    (home / "data" / COPY_DIRECTORY).mkdir()
    (home / "data" / COPY_DIRECTORY / "left").write_bytes(bytes(100_000))
    done = json.loads(run("compact", "--home", home, "--json"))
    assert table_bytes(home) < before / 2
    assert done["beforeBytes"] - done["afterBytes"] > 100_000
    assert not (home / "data" / COPY_DIRECTORY).exists()
    chain = ChainStore.open(home / "data", store_genesis())
    assert (chain.head_header.height, chain.base) == (BLOCKS, BLOCKS - KEPT)
    grow(chain, 1, 10)
    chain.close()
    told = run("compact", "--home", home)
    assert [line.split()[0] for line in told.splitlines()][:3] == ["Data", "Before", "After"]


def test_a_node_that_runs_is_left_alone(home: Path) -> None:
    lock = DirectoryLock.acquire(home / "data")
    try:
        told = run("compact", "--home", home, code=ExitCode.REFUSED)
    finally:
        lock.release()
    assert "is in use by the node with process id" in told
    assert "stop it first" in told


def test_a_damaged_store_or_none_is_refused_and_left_as_it_is(home: Path, tmp_path: Path) -> None:
    told = run("compact", "--home", tmp_path, code=ExitCode.USAGE)
    assert "holds no chain" in told
    current = home / "data" / "chain" / "CURRENT"
    current.write_text("nonsense")
    told = run("compact", "--home", home, code=ExitCode.DATA)
    assert "nothing was changed" in told
    assert current.read_text() == "nonsense"
