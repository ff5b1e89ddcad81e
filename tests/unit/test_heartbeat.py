"""The page that the processes of a node share."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from cairn import heartbeat
from cairn.heartbeat import (
    BEAT_S,
    SharedPage,
    Work,
    begin,
    doing,
    fewest_connections_elsewhere,
    keep_beating,
    show_connections,
)


@pytest.fixture
def page() -> Iterator[SharedPage]:
    """This process has the second slot."""
    page = SharedPage(3)
    begin(page, page.slots[1], 0)
    yield page
    heartbeat._own = None


class Loop:
    """Keeps what is to be called later, and when."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.later.append((delay_s, call))


def test_a_process_that_beats_does_so_again_after_each_interval(page: SharedPage) -> None:
    loop = Loop()
    assert (page.slots[1].beats, page.slots[1].work) == (0, Work.STARTING)
    keep_beating(loop.call_later)
    assert (page.slots[1].beats, page.slots[1].work) == (1, Work.RUNNING)
    ((delay_s, beat_again),) = loop.later
    assert delay_s == BEAT_S
    beat_again()
    assert [slot.beats for slot in page.slots] == [0, 2, 0]
    assert len(loop.later) == 2


def test_a_reload_is_told_once_at_the_next_beat_and_one_from_before_the_start_is_not(page: SharedPage) -> None:
    page.ask_to_reload()
    begin(page, page.slots[1], page.reloads)
    loop, told = Loop(), list[str]()
    keep_beating(loop.call_later, lambda: told.append("reload"))
    loop.later[-1][1]()
    assert told == []
    page.ask_to_reload()
    page.ask_to_reload()
    loop.later[-1][1]()
    loop.later[-1][1]()
    assert told == ["reload"]


def test_a_reload_between_the_fork_and_the_first_beat_is_told(page: SharedPage) -> None:
    at_the_fork = page.reloads
    page.ask_to_reload()
    begin(page, page.slots[1], at_the_fork)
    told: list[str] = []
    keep_beating(Loop().call_later, lambda: told.append("reload"))
    assert told == ["reload"]


def test_a_forked_process_shows_its_beats_to_its_parent(page: SharedPage) -> None:
    child = os.fork()
    if child == 0:
        begin(page, page.slots[2], 0)
        keep_beating(Loop().call_later)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert [slot.beats for slot in page.slots] == [0, 0, 1]


def test_what_a_process_does_is_shown_while_it_does_it_and_then_what_it_did_before(page: SharedPage) -> None:
    seen = []
    with doing(Work.OPENING):
        with suppress(FileNotFoundError), doing(Work.DISK):
            seen.append(page.slots[1].work)
            raise FileNotFoundError
        seen.append(page.slots[1].work)
    assert [*seen, page.slots[1].work] == [Work.DISK, Work.OPENING, Work.STARTING]


@pytest.mark.parametrize(
    ("own", "shown"), [(Work.RUNNING, Work.DISK), (Work.OPENING, Work.OPENING), (Work.STARTING, Work.STARTING)]
)
def test_a_thread_that_uses_the_disk_is_shown_while_the_event_loop_only_runs(
    page: SharedPage, own: Work, shown: Work
) -> None:
    slot, seen = page.slots[1], list[Work]()
    slot.work = own

    def work() -> None:
        with doing(Work.DISK):
            with doing(Work.DISK):
                seen.append(slot.shown)
            seen.append(slot.shown)
            seen.append(slot.work)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [shown, shown, own]
    assert slot.shown == own


def test_a_new_process_shows_nothing_of_the_threads_of_the_one_before(page: SharedPage) -> None:
    page.slots[1].note_beside(1)
    begin(page, page.slots[1], 0)
    page.slots[1].work = Work.RUNNING
    assert page.slots[1].shown is Work.RUNNING


def test_a_worker_is_told_the_fewest_connections_of_those_that_accept_some(page: SharedPage) -> None:
    begin(page, page.slots[1], 0)
    assert fewest_connections_elsewhere() is None
    page.slots[2].connections = 7
    show_connections(3)
    assert fewest_connections_elsewhere() == 7
    page.slots[0].connections = 0
    assert fewest_connections_elsewhere() == 0
    assert page.slots[1].connections == 3
    show_connections(None)
    assert page.slots[1].connections is None


def test_a_new_process_has_no_connections_of_the_one_before(page: SharedPage) -> None:
    page.slots[1].connections = 9
    begin(page, page.slots[1], 0)
    assert page.slots[1].connections is None


def test_a_process_that_nobody_watches_knows_of_no_other_worker() -> None:
    show_connections(1)
    assert fewest_connections_elsewhere() is None


def test_a_process_that_nobody_watches_beats_nowhere() -> None:
    loop = Loop()
    keep_beating(loop.call_later)
    with doing(Work.DISK):
        assert loop.later == []
