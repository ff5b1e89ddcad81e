import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator

import pytest

from cairn.client import AsyncClient, AsyncWallet, Client, Wallet
from cairn.client.loop_thread import LoopThread
from tests.support.pace import PATIENCE_S
from tools.sync_client import TARGET, generate


async def nothing() -> None:
    """A farewell without anything to close."""


def test_the_generated_module_is_up_to_date() -> None:
    assert generate() == TARGET.read_text(), "run `make generate`"


@pytest.mark.parametrize(("async_class", "sync_class"), [(AsyncClient, Client), (AsyncWallet, Wallet)])
def test_both_faces_have_the_same_methods_with_the_same_parameters(async_class: type, sync_class: type) -> None:
    names = {name for name in dir(async_class) if not name.startswith("_")}
    if async_class is AsyncWallet:
        # The wallets of a client are closed with it.
        names.remove("close")
    assert names == {name for name in dir(sync_class) if not name.startswith("_")}
    for name in names:
        theirs, ours = getattr(async_class, name), getattr(sync_class, name)
        assert isinstance(theirs, property) == isinstance(ours, property)
        if not isinstance(theirs, property):
            assert inspect.signature(theirs).parameters == inspect.signature(ours).parameters
            assert inspect.signature(ours).return_annotation is not inspect.Signature.empty
            assert not inspect.iscoroutinefunction(ours)


def test_results_and_errors_come_back() -> None:
    async def fail() -> None:
        raise LookupError("not here")

    loop = LoopThread()
    assert loop.run(asyncio.sleep(0, "result")) == "result"
    with pytest.raises(LookupError, match="not here"):
        loop.run(fail())
    loop.stop(nothing)


def test_leaving_an_iterator_early_closes_the_async_one() -> None:
    closed_in: list[str] = []

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            for number in range(10):
                yield number
        finally:
            closed_in.append(threading.current_thread().name)

    loop = LoopThread()
    assert list(loop.iterate(numbers())) == list(range(10))
    iterator = loop.iterate(numbers())
    assert [next(iterator), next(iterator)] == [0, 1]
    iterator.close()
    assert closed_in == ["cairn-client"] * 2
    loop.stop(nothing)


def test_stopping_cancels_what_runs_and_may_be_repeated() -> None:
    loop = LoopThread()
    started = threading.Event()
    failures: list[BaseException] = []

    async def wait_long() -> None:
        started.set()
        await asyncio.Event().wait()

    def use() -> None:
        try:
            loop.run(wait_long())
        except BaseException as failure:
            failures.append(failure)

    user = threading.Thread(target=use)
    user.start()
    started.wait(PATIENCE_S)
    loop.stop(nothing)
    loop.stop(nothing)
    user.join(PATIENCE_S)
    assert len(failures) == 1
    with pytest.raises(RuntimeError, match="closed"):
        loop.run(nothing())


def test_a_closed_client_says_so() -> None:
    with Client("http://127.0.0.1:9") as client:
        assert client.url == "http://127.0.0.1:9"
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.chain()
