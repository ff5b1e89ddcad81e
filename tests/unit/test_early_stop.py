"""A stop while a node is still being started."""

import signal
import weakref
from collections.abc import Iterator

import pytest

from cairn import early_stop
from cairn.early_stop import leave_when_told
from cairn.supervisor import SignalPipe

NUMBERS = [signal.SIGTERM, signal.SIGINT]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in NUMBERS}
    leave_when_told()
    yield
    leave_when_told()
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_stop_before_there_is_anything_to_stop_just_leaves(number: signal.Signals) -> None:
    with pytest.raises(SystemExit) as leaving:
        signal.raise_signal(number)
    assert leaving.value.code == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", NUMBERS)
def test_a_stop_that_python_could_not_pass_on_reaches_the_supervisor(number: signal.Signals) -> None:
    class Thing:
        pass

    thing = Thing()
    watched = weakref.ref(thing, lambda _: signal.raise_signal(number))
    del thing
    assert watched() is None
    with SignalPipe() as signals:
        assert signals.wait(0.0) == bytes([number])


def test_without_a_stop_the_supervisor_hears_of_none() -> None:
    assert early_stop.told() == b""
    with SignalPipe() as signals:
        assert signals.wait(0.0) == b""
