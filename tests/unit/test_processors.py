"""How many processors count, by where the process may run and what its container is given."""

import os
from pathlib import Path

import pytest

from cairn.processors import usable_processors


@pytest.fixture(autouse=True)
def eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


def version_2(cgroups: Path, content: str) -> None:
    (cgroups / "cpu.max").write_text(content)


def version_1(cgroups: Path, quota: str, period: str) -> None:
    (cgroups / "cpu").mkdir()
    (cgroups / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (cgroups / "cpu" / "cpu.cfs_period_us").write_text(period)


def test_without_a_limit_all_that_it_may_run_on_count(tmp_path: Path) -> None:
    assert usable_processors(tmp_path) == 8


def test_a_process_that_is_bound_to_three_processors_has_three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 4, 5})
    assert usable_processors(tmp_path) == 3


@pytest.mark.parametrize(
    ("content", "processors"),
    [
        ("max 100000\n", 8),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("50000 100000\n", 1),
        ("1600000 100000\n", 8),
        ("", 8),
        ("what\n", 8),
        ("100000 0\n", 8),
    ],
)
def test_the_limit_of_a_container_is_rounded_up_and_what_is_no_limit_is_none(
    tmp_path: Path, content: str, processors: int
) -> None:
    version_2(tmp_path, content)
    assert usable_processors(tmp_path) == processors


@pytest.mark.parametrize(("quota", "processors"), [("-1\n", 8), ("250000\n", 3)])
def test_a_limit_of_version_1_counts_too(tmp_path: Path, quota: str, processors: int) -> None:
    version_1(tmp_path, quota, "100000\n")
    assert usable_processors(tmp_path) == processors


def test_a_system_that_tells_no_affinity_has_all_its_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_processors(tmp_path) == 6
