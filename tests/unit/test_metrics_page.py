import os
import traceback
from collections.abc import Callable

import pytest

from cairn.metrics_page import Counter, Gauge, Histogram, Level, OfProcess, OfSystem, Page, Roster


class Shown:
    """One family of each kind."""

    def __init__(self) -> None:
        self.page = Page()
        self.answers = Counter(self.page, "answers_total", "Answers.", route=("/tx", "other"), code=("200", "503"))
        self.height = Gauge(self.page, "height", "Height.")
        self.open = Level(self.page, "open", "Open ones.", state=("active", "idle"))
        self.took = Histogram(self.page, "took_seconds", "Time.", bounds=(0.1, 1.0))
        self.restarts = OfProcess(self.page, "counter", "restarts_total", "Restarts.")

    def text(self) -> str:
        return "".join(family.rendered(self.page) for family in self.page.families)

    def lines(self, *starts: str) -> list[str]:
        return [line for line in self.text().splitlines() if line.startswith(starts)]


@pytest.fixture
def shown() -> Shown:
    shown = Shown()
    shown.page.share(["supervisor", "core", "api"])
    return shown


def in_fork(work: Callable[[], object]) -> None:
    """Work in another process, which then ends as if it was killed: nothing of it is cleaned up."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0


def test_counts_of_all_processes_are_added_and_outlive_them(shown: Shown) -> None:
    def count(process: str, times: int) -> None:
        shown.page.become(process)
        for _ in range(times):
            shown.answers.inc("/tx", "200")

    in_fork(lambda: count("core", 3))
    in_fork(lambda: count("api", 4))
    in_fork(lambda: count("api", 5))
    assert shown.lines('answers_total{route="/tx",code="200"}') == ['answers_total{route="/tx",code="200"} 12']


def test_a_counter_shows_every_series_from_the_start(shown: Shown) -> None:
    assert shown.lines("answers_total") == [
        'answers_total{route="/tx",code="200"} 0',
        'answers_total{route="/tx",code="503"} 0',
        'answers_total{route="other",code="200"} 0',
        'answers_total{route="other",code="503"} 0',
    ]


def test_a_label_value_outside_of_the_fixed_set_counts_as_other(shown: Shown) -> None:
    shown.answers.add(2, "/made/up/by/a/client", "503")
    assert shown.lines('answers_total{route="other",code="503"}') == ['answers_total{route="other",code="503"} 2']


def test_a_label_value_outside_of_a_set_without_other_is_refused(shown: Shown) -> None:
    with pytest.raises(KeyError):
        shown.answers.inc("/tx", "418")


def test_a_gauge_is_shown_once_it_is_set_and_no_longer_when_cleared(shown: Shown) -> None:
    assert shown.lines("height") == []
    assert "# HELP height" not in shown.text()
    in_fork(lambda: shown.height.set(7))
    assert shown.lines("height") == ["height 7"]
    shown.height.set(1794986154.0748582)
    assert shown.lines("height") == ["height 1794986154.0748582"]
    shown.height.clear()
    assert shown.lines("height") == []


def test_what_a_process_has_open_ends_with_it_and_its_counts_do_not(shown: Shown) -> None:
    def work() -> None:
        shown.page.become("api")
        shown.open.set(4, "idle")
        shown.answers.inc("/tx", "200")

    shown.open.change(1, "idle")
    in_fork(work)
    assert shown.lines("open") == ['open{state="active"} 0', 'open{state="idle"} 5']
    shown.page.ended("api")
    assert shown.lines("open") == ['open{state="active"} 0', 'open{state="idle"} 1']
    assert shown.lines('answers_total{route="/tx",code="200"}') == ['answers_total{route="/tx",code="200"} 1']


def test_a_histogram_counts_up_to_and_with_each_bound_over_all_processes(shown: Shown) -> None:
    def observe() -> None:
        shown.page.become("core")
        shown.took.observe(0.1)
        shown.took.observe(0.5)

    in_fork(observe)
    shown.took.observe(30)
    assert shown.lines("took") == [
        'took_seconds_bucket{le="0.1"} 1',
        'took_seconds_bucket{le="1"} 2',
        'took_seconds_bucket{le="+Inf"} 3',
        "took_seconds_sum 30.6",
        "took_seconds_count 3",
    ]


def test_names_that_come_up_while_the_node_runs_are_shown_until_others_do() -> None:
    page = Page()
    missed = Roster(page, "missed", "Missed.", label="validator", most=3)
    page.share(["supervisor", "core"])
    assert missed.rendered(page) == ""
    in_fork(lambda: missed.set_all({"anna": 1, "b" * 70: 2, "zoë": 3, "left out": 4}))
    assert missed.rendered(page).splitlines()[2:] == [
        'missed{validator="anna"} 1',
        f'missed{{validator="{"b" * 64}"}} 2',
        'missed{validator="zoë"} 3',
    ]
    in_fork(lambda: missed.set_all({"carl": 0}))
    assert missed.rendered(page).splitlines()[2:] == ['missed{validator="carl"} 0']


def test_a_number_about_a_process_is_written_by_another(shown: Shown) -> None:
    shown.restarts.inc("core")
    assert shown.lines("restarts") == [
        'restarts_total{process="supervisor"} 0',
        'restarts_total{process="core"} 1',
        'restarts_total{process="api"} 0',
    ]


def test_the_system_is_asked_about_processes_that_run() -> None:
    def read(pid: int) -> float:
        if pid == 3:
            raise ProcessLookupError(pid)
        return pid / 4

    page = Page()
    family = OfSystem(page, "gauge", "memory_bytes", "Memory.", read)
    page.share(["supervisor", "core", "api", "away"])
    for process, pid in (("supervisor", 1), ("core", 2), ("api", 3)):
        page.started(process, pid)
    page.started("away", 4)
    page.ended("away")
    assert family.rendered(page).splitlines()[2:] == [
        'memory_bytes{process="supervisor"} 0.25',
        'memory_bytes{process="core"} 0.5',
    ]


def test_a_process_without_a_page_counts_in_memory_of_its_own() -> None:
    shown = Shown()
    shown.answers.inc("/tx", "200")
    shown.height.set(3)
    shown.restarts.inc("core")
    assert 'answers_total{route="/tx",code="200"} 1' in shown.text()
    shown.page.share(["supervisor"])
    assert 'answers_total{route="/tx",code="200"} 0' in shown.text()
    assert "height" not in shown.text()


def test_label_values_are_escaped() -> None:
    page = Page()
    gauge = Gauge(page, "build_info", "Build.", version=('1"\\\n',))
    gauge.set(1, '1"\\\n')
    assert gauge.rendered(page).splitlines()[2] == r'build_info{version="1\"\\\n"} 1'
