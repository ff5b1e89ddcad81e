"""A short soak; `make soak` is the long one, in which memory has time to settle. And what that one takes for growth."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.growth import FLUSH_TRANSFERS, QUIET_TRANSFERS, Watch
from tests.chaos.network_soak import NetworkSoakRun
from tests.chaos.soak import SoakRun, run_soak
from tests.chaos.usage import Usage

SECONDS = float(os.environ.get("SOAK_SECONDS", "20"))
BEFORE = 50_000
"""Transfers in the half with kills."""


def test_everything_is_kept_and_let_go_under_mixed_load(tmp_path: Path) -> None:
    seed_number = int(os.environ.get("SOAK_SEED", random.SystemRandom().randrange(2**32)))
    print(f"SOAK_SEED={seed_number}")
    run = SoakRun(seed_number)
    run_soak(run, SECONDS, tmp_path)
    assert run.reverts


def steady(transfers: int, dice: random.Random) -> Usage:
    """Memtables that fill up and are freed, and now and then a slow reader."""
    rss_mb = 55 + 20 * (transfers % FLUSH_TRANSFERS) / FLUSH_TRANSFERS + dice.choice((0, 0, 0, 15)) * dice.random()
    return Usage(0.0, transfers, rss_mb, files=30, stale=9, others=dice.randrange(50, 110))


def soaked(held: Callable[[int, random.Random], Usage], dice: random.Random, per_look: int) -> Watch:
    """Looks at a node that held this; `per_look` is how many transfers it got through from one look to the next."""
    watch = Watch()
    watch.quiet = (BEFORE, BEFORE + QUIET_TRANSFERS)
    looks, transfers = watch.usage.samples.setdefault("cairn-core", []), 0
    while transfers < watch.quiet[1]:
        looks.append(held(transfers, dice))
        transfers += dice.randrange(1, 2 * per_look)
    return watch


@pytest.mark.parametrize("per_look", [20, 300, 2_000])
@pytest.mark.parametrize("seed_number", range(5))
def test_a_steady_node_has_no_growth_however_fast_it_is(per_look: int, seed_number: int) -> None:
    watch = soaked(steady, random.Random(seed_number), per_look)
    assert watch.shows_growth
    watch.check()


def leaking_bytes(transfers: int, dice: random.Random) -> Usage:
    usage = steady(transfers, dice)
    return Usage(0.0, transfers, usage.rss_mb + transfers * 300 / (1 << 20), usage.files, usage.stale, usage.others)


def leaking_files(transfers: int, dice: random.Random) -> Usage:
    usage = steady(transfers, dice)
    return Usage(0.0, transfers, usage.rss_mb, usage.files, usage.stale + transfers // 2_000, usage.others)


def leaking_sockets(transfers: int, dice: random.Random) -> Usage:
    usage = steady(transfers, dice)
    return Usage(0.0, transfers, usage.rss_mb, usage.files, usage.stale, usage.others + transfers // 200)


@pytest.mark.parametrize("per_look", [20, 300, 2_000])
@pytest.mark.parametrize(
    ("leaking", "told"),
    [(leaking_bytes, "RSS, MB"), (leaking_files, "stale files"), (leaking_sockets, "sockets and pipes")],
)
def test_a_leak_is_growth(leaking: Callable[[int, random.Random], Usage], told: str, per_look: int) -> None:
    with pytest.raises(AssertionError, match=f"cairn-core, {told}: grew from"):
        soaked(leaking, random.Random(1), per_look).check()


@pytest.mark.parametrize(("after_mb", "is_growth"), [(80.0, False), (600.0, True)])
def test_a_disk_may_grow_by_what_is_put_into_it_and_no_more(after_mb: float, is_growth: bool) -> None:
    run = NetworkSoakRun(0)
    run.watch.quiet, run.quiet_blocks = (1_000, 11_000), 500
    run.disk_mb = {"node0": (50.0, 80.0), "node1": (50.0, after_mb)}
    if is_growth:
        with pytest.raises(AssertionError, match="node1: its disk grew from 50 to 600 MB"):
            run.check()
    else:
        run.check()
