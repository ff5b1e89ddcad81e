"""A core whose data directory was damaged while it was away: it opens nothing, names the file and changes no byte."""

import asyncio
import shutil
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt
from tests.support.core_fixtures import make_block, opened_core, signed
from tests.support.damage import DAMAGES, Damage
from tests.support.disk import files_of


async def accept_and_stop(directory: Path) -> None:
    """A block, and then submissions that no block takes: each in a frame of its own."""
    async with opened_core(directory) as core:
        await core.submit(signed(0))
        make_block(core)
        for nonce in range(2, 12):
            await core.submit(signed(nonce))


async def open_and_stop(directory: Path) -> int:
    async with opened_core(directory) as core:
        return (await core.status()).queued


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole") / "data"
    asyncio.run(accept_and_stop(directory))
    return directory


@pytest.fixture
def directory(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "data"))


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_named_and_left_as_it_is(directory: Path, damage: Damage) -> None:
    named = damage(directory)
    before = files_of(directory)
    for _ in range(2):
        with pytest.raises(Corrupt) as refusal:
            asyncio.run(open_and_stop(directory))
        assert str(named) in refusal.value.detail
    after = files_of(directory)
    assert after | {"cairn.lock": b""} == before | {"cairn.lock": b""}


def test_without_damage_all_comes_back(directory: Path) -> None:
    for _ in range(2):
        assert asyncio.run(open_and_stop(directory)) == 10


@pytest.mark.parametrize("name", ["notes.txt", ".nfs0001", "0000000000000001.seg.bak"])
def test_unknown_files_in_the_journal_directory_are_ignored(directory: Path, name: str) -> None:
    (directory / "journal" / name).write_text("not ours")
    assert asyncio.run(open_and_stop(directory)) == 10
    assert (directory / "journal" / name).read_text() == "not ours"
