"""An event loop in its own thread, for code that has none: runs coroutines and steps through async iterators."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_END: Any = object()


class LoopThread:
    """Any thread may use it. It ends with `stop`, or with the program."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_running = threading.Event()
        self._thread = threading.Thread(target=self._main, name="cairn-client", daemon=True)
        self._thread.start()
        self._is_running.wait()

    def _main(self) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            self._loop.call_soon(self._is_running.set)
            self._loop.run_forever()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine and wait for its result. Ctrl-C cancels it."""
        loop = self._loop
        if loop is None:
            coroutine.close()
            raise RuntimeError("the client is closed")
        call = _Call(coroutine)
        try:
            loop.call_soon_threadsafe(call.begin)
            return call.answer.result()
        except BaseException:
            # The loop keeps their order: however early the interrupt came, what began is cancelled.
            loop.call_soon_threadsafe(call.cancel)
            raise

    def iterate(self, items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Iterate step by step. Leaving the loop early, or `close`, ends the async iterator, too."""
        # An interrupted step runs until it is cancelled; only then may the iterator be closed.
        turn = asyncio.Lock()
        try:
            while (item := self.run(_next(items, turn))) is not _END:
                yield item
        finally:
            if self._loop is not None:
                self.run(_close(items, turn))

    def stop(self, farewell: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `farewell`, then cancel what still runs. Calling it again does nothing."""
        loop = self._loop
        if loop is not None:
            self.run(farewell())
            self._loop = None
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()


class _Call(Generic[T]):
    """A coroutine that runs for another thread, which waits for `answer`. The methods are called on the loop."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.answer: Future[T] = Future()
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._coroutine)
        self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        if self._task is None:
            self._coroutine.close()
        else:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.answer.cancel()
        elif (error := task.exception()) is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(task.result())


async def _next(items: AsyncGenerator[T, None], turn: asyncio.Lock) -> T:
    end: T = _END
    async with turn:
        return await anext(items, end)


async def _close(items: AsyncGenerator[T, None], turn: asyncio.Lock) -> None:
    async with turn:
        await items.aclose()
