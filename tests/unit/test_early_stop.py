"""A stop while a node is still being started."""

import signal
import weakref
from collections.abc import Iterator

import pytest

from cairn import early_stop
from cairn.early_stop import note_stops
from cairn.supervisor import SignalPipe

NUMBERS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in NUMBERS}
    note_stops()
    yield
    note_stops()
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_stop_wherever_it_comes_reaches_the_supervisor(number: signal.Signals) -> None:
    class Stopping:
        def __set_name__(self, owner: type, name: str) -> None:
            signal.raise_signal(number)

    class Thing:
        part = Stopping()

    thing = Thing()
    watched = weakref.ref(thing, lambda _: signal.raise_signal(number))
    del thing
    assert watched() is None
    with SignalPipe() as signals:
        assert signals.wait(0.0) == bytes([number, number])


def test_without_a_stop_the_supervisor_hears_of_none() -> None:
    assert early_stop.told() == b""
    with SignalPipe() as signals:
        assert signals.wait(0.0) == b""


def test_after_the_supervisor_a_stop_changes_nothing() -> None:
    with SignalPipe():
        pass
    for number in NUMBERS:
        signal.raise_signal(number)


def test_a_hang_up_that_was_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    note_stops()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
