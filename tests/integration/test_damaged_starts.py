"""Every file of a data directory is damaged, alone and in pairs: a start has everything, or changes nothing."""

import itertools
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cairn.domain.errors import NodeError
from cairn.store import follower, keys
from cairn.store.follower import FollowerStore
from tests.support.damaged_homes import (
    HARMS,
    HOMES,
    DamagedHome,
    Harm,
    check_starts,
    empty,
    flip,
    make_homes,
    remove,
    tree,
    truncate,
    zero,
)

SEED = int(os.environ.get("DAMAGE_SEED", "23"))
IS_WHOLE = "DAMAGE_ALL" in os.environ
"""Try everything; otherwise each file is removed, emptied and damaged in one way, and of the tables, all alike, one."""
PAIRS = 120 if IS_WHOLE else 8
"""Of each home, drawn anew with another `DAMAGE_SEED`."""


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DamagedHome]:
    return dict(make_homes(tmp_path_factory.mktemp("homes")))


@pytest.fixture(params=HOMES)
def home(request: pytest.FixtureRequest, homes: dict[str, DamagedHome]) -> DamagedHome:
    return homes[request.param]


class Trials:
    """Damages copies of one home, one after the other, and keeps those that failed."""

    def __init__(self, home: DamagedHome, root: Path) -> None:
        self._home = home
        self._root = root
        self._number = 0
        self.outcomes: dict[str, str] = {}

    def try_out(self, name: str, damage: Callable[[Path], None]) -> None:
        self._number += 1
        directory = self._root / str(self._number)
        try:
            self.outcomes[name] = check_starts(self._home, directory, damage)
        except Exception as failure:
            self.outcomes[name] = f"FAILED: {type(failure).__name__}: {failure}"
        shutil.rmtree(directory)

    def check(self) -> None:
        failed = [f"{name}: {outcome}" for name, outcome in self.outcomes.items() if outcome.startswith("FAILED")]
        assert not failed, f"seed {SEED}, {len(failed)} of {len(self.outcomes)}:\n" + "\n".join(failed)
        assert "refused" in self.outcomes.values(), "nothing was damaged"


def harmful(names: tuple[str, ...], harms: tuple[Harm, ...], seed: str) -> Callable[[Path], None]:
    def damage(directory: Path) -> None:
        rng = random.Random(seed)
        for name, harm in zip(names, harms, strict=True):
            if (directory / name).exists():
                harm(directory / name, rng)

    return damage


def chosen(home: DamagedHome) -> list[tuple[str, Harm]]:
    every = list(itertools.product(home.files(), HARMS))
    if IS_WHOLE:
        return every
    rng = random.Random(SEED)
    table = rng.choice([name for name in home.files() if name.endswith(".sst")] or [""])
    names = [name for name in home.files() if not name.endswith(".sst") or name == table]
    # Nobody reads this snapshot.
    names = [name for name in names if not name.startswith("dev/1/")]
    return [(name, harm) for name in names for harm in (remove, empty, rng.choice((truncate, flip, zero)))]


def test_any_file_or_directory_damaged_emptied_or_removed_loses_nothing(home: DamagedHome, tmp_path: Path) -> None:
    trials = Trials(home, tmp_path)
    for name, harm in chosen(home):
        trials.try_out(f"{harm.__name__} {name}", harmful((name,), (harm,), f"{SEED} {name}"))
    trials.check()


def test_any_two_files_damaged_emptied_or_removed_lose_nothing(home: DamagedHome, tmp_path: Path) -> None:
    trials = Trials(home, tmp_path)
    rng = random.Random(SEED)
    pairs = list(itertools.combinations(home.files(), 2))
    # The two ways in which a file is there and then not: these are what a start may take for a new directory.
    gone = list(itertools.product(pairs, itertools.product((remove, empty), repeat=2)))
    mixed = list(itertools.product(pairs, itertools.product(HARMS, repeat=2)))
    for names, harms in rng.sample(gone, PAIRS) + rng.sample(mixed, PAIRS):
        described = " and ".join(f"{harm.__name__} {name}" for name, harm in zip(names, harms, strict=True))
        trials.try_out(described, harmful(names, harms, f"{SEED} {described}"))
    trials.check()


@pytest.mark.parametrize(
    "harms",
    list(itertools.product((remove, empty), repeat=2)),
    ids=lambda harms: "-".join(harm.__name__ for harm in harms),
)
@pytest.mark.parametrize(
    "names", list(itertools.combinations(("FORMAT", "watermark", "chain/CURRENT", "chain"), 2)), ids="-".join
)
def test_a_chain_with_two_of_its_marks_gone_is_refused(
    homes: dict[str, DamagedHome], tmp_path: Path, names: tuple[str, str], harms: tuple[Harm, Harm]
) -> None:
    assert check_starts(homes["killed"], tmp_path / "data", harmful(names, harms, "")) == "refused"


@pytest.mark.parametrize("name", ["stopped", "killed", "restored"])
def test_a_list_of_files_that_was_cut_off_anywhere_is_refused(
    homes: dict[str, DamagedHome], tmp_path: Path, name: str
) -> None:
    """Its last entries are of some families only: the others look as if nothing was ever written to them."""
    [manifest] = (homes[name].directory / "chain").glob("MANIFEST-*")
    size, trials = manifest.stat().st_size, Trials(homes[name], tmp_path)
    for end in range(0, size, 1 if IS_WHOLE else size // 12):

        def cut(directory: Path, end: int = end) -> None:
            os.truncate(directory / "chain" / manifest.name, end)

        trials.try_out(f"cut to {end} of {size} bytes", cut)
    trials.check()


@pytest.mark.parametrize("kept", ["watermark", "chain", "journal", "chain/CURRENT"])
def test_a_directory_with_any_part_left_is_not_begun_anew(
    homes: dict[str, DamagedHome], tmp_path: Path, kept: str
) -> None:
    def damage(directory: Path) -> None:
        for path in list(directory.rglob("*")):
            if path.is_file() and not path.is_relative_to(directory / kept):
                path.unlink()

    assert check_starts(homes["killed"], tmp_path / "data", damage) == "refused"


def test_a_worker_shows_everything_or_nothing_and_changes_no_file(
    homes: dict[str, DamagedHome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "ATTEMPTS", 2)
    home, outcomes = homes["killed"], set()
    head = keys.decode_head(dict(home.whole.chain[keys.META])[keys.HEAD_KEY]).height
    for number, (name, harm) in enumerate(chosen(home)):
        directory = Path(shutil.copytree(home.directory, tmp_path / str(number)))
        harmful((name,), (harm,), f"{SEED} {name}")(directory)
        damaged = tree(directory)
        try:
            opened = FollowerStore.open(directory, tmp_path / f"scratch-{number}")
        except NodeError:
            outcomes.add("refused")
        else:
            outcomes.add("opened")
            assert opened.visible == head, f"{harm.__name__} {name}"
            opened.close()
        assert tree(directory) == damaged, f"{harm.__name__} {name}"
    assert outcomes == {"opened", "refused"}


@pytest.mark.parametrize("name", ["stopped", "killed", "restored"])
def test_a_damaged_state_tree_is_refused_and_a_missing_one_is_made_anew(
    homes: dict[str, DamagedHome], tmp_path: Path, name: str
) -> None:
    expected = {empty: "refused", flip: "refused", truncate: "refused", remove: "opened"}
    for number, (harm, outcome) in enumerate(expected.items()):
        damage = harmful(("chain/state-tree",), (harm,), "")
        assert check_starts(homes[name], tmp_path / str(number), damage) == outcome, harm.__name__
