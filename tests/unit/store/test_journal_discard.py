"""A damaged journal that its operator gives up."""

import asyncio
from pathlib import Path

import pytest

from cairn.domain.errors import Corrupt, DirectoryInUse, StoreUnavailable
from cairn.domain.genesis import dev_genesis
from cairn.store.chain import ChainStore
from cairn.store.journal_discard import discard_journal
from tests.support.core_fixtures import make_block, opened_core, signed
from tests.support.damage import DAMAGES, Damage, current_missing, manifest_missing
from tests.support.disk import bounds_of, files_of

JOURNAL_DAMAGES = [damage for damage in DAMAGES if not damage.__name__.startswith(("watermark", "current", "manifest"))]


async def accept(directory: Path) -> None:
    async with opened_core(directory) as core:
        await core.submit(signed(0))
        make_block(core)
        for nonce in (2, 3, 4, 5, 6):
            await core.submit(signed(nonce))


async def look(directory: Path) -> tuple[int, int]:
    async with opened_core(directory) as core:
        status = await core.status()
        return status.head, status.queued


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    asyncio.run(accept(tmp_path / "data"))
    return tmp_path / "data"


@pytest.mark.parametrize("damage", JOURNAL_DAMAGES, ids=lambda damage: damage.__name__)
def test_the_chain_goes_on_without_it(directory: Path, damage: Damage) -> None:
    damage(directory)
    journal = directory / "journal"
    before = files_of(journal)
    aside = discard_journal(directory)
    assert files_of(aside or journal) == before
    for _ in range(2):
        assert asyncio.run(look(directory)) == (1, 0)


def test_a_pruned_chain_begins_where_it_did_before(directory: Path) -> None:
    chain = ChainStore.open(directory, dev_genesis())
    chain.prune(1, lambda: None)
    chain.close()
    before = bounds_of(directory)
    discard_journal(directory)
    assert bounds_of(directory) == before._replace(journal_start=0, journal_end=0)
    assert (before.oldest, before.journal_end > 0) == (1, True)


def test_a_discard_that_was_cut_off_is_ended_by_the_next(directory: Path) -> None:
    (directory / "journal").rename(directory / "journal.discarded-1")
    with pytest.raises(Corrupt):
        asyncio.run(look(directory))
    assert discard_journal(directory) is None
    assert asyncio.run(look(directory)) == (1, 0)
    assert discard_journal(directory) == directory / "journal.discarded-2"


@pytest.mark.parametrize("damage", [damage for damage in DAMAGES if "watermark" in damage.__name__])
def test_without_a_watermark_nothing_is_touched(directory: Path, damage: Damage) -> None:
    damage(directory)
    before = files_of(directory)
    with pytest.raises((Corrupt, StoreUnavailable), match="watermark"):
        discard_journal(directory)
    assert files_of(directory) | {"cairn.lock": b""} == before | {"cairn.lock": b""}


@pytest.mark.parametrize("damage", [current_missing, manifest_missing])
def test_a_chain_that_is_damaged_stays_as_it_is(directory: Path, damage: Damage) -> None:
    damage(directory)
    before = files_of(directory / "chain")
    journal = files_of(directory / "journal")
    aside = discard_journal(directory)
    assert aside is not None
    assert files_of(aside) == journal
    for _ in range(3):
        with pytest.raises(Corrupt):
            asyncio.run(look(directory))
    assert files_of(directory / "chain") == before


async def test_a_directory_in_use_is_left_alone(directory: Path) -> None:
    async with opened_core(directory):
        with pytest.raises(DirectoryInUse):
            discard_journal(directory)


def test_another_directory_is_not_begun(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="nothing is not the data directory of a node: .* Name "):
        discard_journal(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
