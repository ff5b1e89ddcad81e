"""Code without an event loop steps through an iterator that runs on one."""

import asyncio
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Iterator

import pytest

from cairn.client.loop_thread import LoopThread
from tests.support.node_process import await_sleep
from tests.support.pace import PATIENCE_S


async def nothing() -> None:
    pass


class Endless:
    """An iterator that gives one item and then waits for ever."""

    def __init__(self) -> None:
        self.is_waiting, self.has_ended = threading.Event(), threading.Event()

    async def items(self) -> AsyncGenerator[int, None]:
        try:
            yield 1
            self.is_waiting.set()
            await asyncio.Event().wait()
        finally:
            # What ends a connection takes a moment too.
            await asyncio.sleep(0)
            self.has_ended.set()


@pytest.fixture
def noticed() -> Iterator[threading.Event]:
    """Set when Python has noticed a Ctrl-C; one more, which comes just then, is ignored."""
    event = threading.Event()

    def notice(*_: object) -> None:
        if not event.is_set():
            event.set()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, notice)
    yield event
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_the_iterator_and_is_all_that_is_raised(noticed: threading.Event) -> None:
    loop, endless, main = LoopThread(), Endless(), threading.main_thread()

    def interrupt() -> None:
        endless.is_waiting.wait(PATIENCE_S)
        assert main.native_id is not None
        assert main.ident is not None
        await_sleep(main.native_id)
        # The sleep may be one in which it hands the interpreter's lock on, just before it waits for the answer: Python
        # looks for signals no more by then, and only another one wakes it.
        while not noticed.is_set():
            signal.pthread_kill(main.ident, signal.SIGINT)
            noticed.wait(1)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    items = loop.iterate(endless.items())
    assert next(items) == 1
    with pytest.raises(KeyboardInterrupt):
        next(items)
    # A signal that came later would end the tests.
    interrupting.join()
    assert endless.has_ended.is_set()
    loop.stop(nothing)


@pytest.mark.parametrize("is_sent", [True, False])
def test_an_interrupt_just_as_a_step_is_sent_ends_the_iterator_too(
    monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    loop, endless = LoopThread(), Endless()
    items = loop.iterate(endless.items())
    assert next(items) == 1
    assert loop._loop is not None
    send = loop._loop.call_soon_threadsafe

    def interrupted(callback: Callable[..., object], *args: object) -> None:
        monkeypatch.undo()
        if is_sent:
            send(callback, *args)
            assert endless.is_waiting.wait(PATIENCE_S)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop._loop, "call_soon_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(items)
    assert endless.has_ended.is_set()
    loop.stop(nothing)
