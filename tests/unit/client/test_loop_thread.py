"""Code without an event loop steps through an iterator that runs on one."""

import asyncio
import signal
import threading
from collections.abc import AsyncGenerator

import pytest

from cairn.client.loop_thread import LoopThread
from tests.support.pace import PATIENCE_S


async def nothing() -> None:
    pass


def test_an_interrupt_ends_the_iterator_and_is_all_that_is_raised() -> None:
    loop = LoopThread()
    is_waiting, has_ended = threading.Event(), threading.Event()

    async def endless() -> AsyncGenerator[int, None]:
        try:
            yield 1
            is_waiting.set()
            await asyncio.Event().wait()
        finally:
            # What ends a connection takes a moment too.
            await asyncio.sleep(0)
            has_ended.set()

    main = threading.get_ident()

    def interrupt() -> None:
        is_waiting.wait(PATIENCE_S)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    items = loop.iterate(endless())
    assert next(items) == 1
    with pytest.raises(KeyboardInterrupt):
        next(items)
    assert has_ended.is_set()
    loop.stop(nothing)
