"""The figures of docs/scaling.md are those of the last run of `make bench-scale`."""

from pathlib import Path

import pytest

from bench.scale.figures import Figures
from bench.scale.page import BLOCK, FIGURES, PAGE, blocks, report, with_figures

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def figures() -> Figures:
    return Figures.load(ROOT / FIGURES)


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / PAGE).read_text()


def test_the_page_has_the_figures_of_the_last_run(figures: Figures, page: str) -> None:
    assert with_figures(page, figures) == page, "run `python -m bench.scale.page`"
    assert {block[2] for block in BLOCK.finditer(page)} == set(blocks(figures))


def test_the_report_has_the_figures_of_the_last_run(figures: Figures) -> None:
    assert report(figures) == (ROOT / FIGURES.with_suffix(".md")).read_text()


def test_a_figure_that_was_changed_by_hand_is_put_right(figures: Figures, page: str) -> None:
    assert with_figures(page.replace("| 4 | 1 ms |", "| 4 | 2 ms |"), figures) == page


def test_all_sizes_and_delays_were_measured(figures: Figures) -> None:
    assert [(row.validators, row.delay_ms) for row in figures.validators] == [
        (validators, delay_ms) for validators in (4, 7, 16) for delay_ms in (1, 50, 150)
    ]
    assert [(row.nodes, row.proxy) for row in figures.reads] == [
        (nodes, proxy) for nodes in (1, 4) for proxy in ("", "haproxy", "nginx")
    ]
