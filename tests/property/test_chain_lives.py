"""Whatever an export writes, an import takes: random lives of a chain, and every height up to which it is pruned."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.domain.errors import InvalidConfig
from cairn.store.chain_import import ExportReader, import_chain
from cairn.store.verification.verification import verify_directory
from tests.support.lives import Life, LoneLife, NetworkLife

Event = Callable[[Life], None]

COMMON: list[Event] = [
    Life.pay,
    Life.pay,
    Life.rest,
    lambda life: life.change_signers(),
    Life.accept,
    Life.back_up_and_restore,
    Life.export_and_import,
    lambda life: life.reopen(),
]
LONE: list[Event] = [*COMMON, LoneLife.set_balances]  # type: ignore[list-item]
NETWORK: list[Event] = [*COMMON, NetworkLife.collect, NetworkLife.sync_another]  # type: ignore[list-item]
prunings = st.integers(1, 6).map(lambda blocks: lambda life: life.prune(blocks))


def lives_of(events: list[Event]) -> st.SearchStrategy[list[Event]]:
    return st.lists(st.one_of(st.sampled_from(events), prunings), min_size=3, max_size=14)


def check_import(life: Life, cut: int | None = None) -> None:
    """Import its export, after an import of the first `cut` lines was interrupted, and compare all that is known."""
    lines, given, before = life.exported(), life.answers(), life.directory
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "imported"
        if cut is not None:
            with pytest.raises(InvalidConfig, match="cut off"):
                import_chain(ExportReader(lines[: 1 + cut % (len(lines) - 1)]), place)
        import_chain(ExportReader(lines), place)
        for directory in (before, place):
            assert verify_directory(directory, life.genesis).findings == []
        assert life.exported(place) == lines
        life.reopen(place)
        assert life.answers() == given
        life.reopen(before)


def live(life: Life, events: list[Event], cut: int) -> None:
    try:
        for happen in events:
            happen(life)
        check_import(life, cut)
    finally:
        life.chain.close()


@settings(max_examples=8)
@given(events=lives_of(LONE), cut=st.integers(0, 100))
def test_an_import_of_a_lone_chain_is_the_same_chain(events: list[Event], cut: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        live(LoneLife(Path(root)), events, cut)


@settings(max_examples=8)
@given(events=lives_of(NETWORK), cut=st.integers(0, 100))
def test_an_import_of_a_networks_chain_is_the_same_chain(events: list[Event], cut: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        live(NetworkLife(Path(root)), events, cut)


@pytest.mark.parametrize("kind", [LoneLife, NetworkLife])
def test_a_chain_that_is_pruned_up_to_any_height_is_imported(kind: type[Life], tmp_path: Path) -> None:
    life = kind(tmp_path)
    for happen in (Life.pay, kind.change_signers, kind.change_signers, Life.rest, Life.pay, kind.change_signers):
        happen(life)
    life.rest()
    life.pay()
    if isinstance(life, NetworkLife):
        life.collect()
    life.accept()
    while life.chain.base < life.oldest_prunable:
        life.prune(1)
        check_import(life)
    assert life.chain.base == life.oldest_prunable > 5
    life.chain.close()
