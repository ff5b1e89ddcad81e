"""Declared calls: arguments arrive as they were written, and answers come back as they were declared."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar, assert_type

import msgspec
import pytest

from cairn.core import link_frames as wire
from cairn.core.calls import Calls, Method, call, methods_of
from cairn.core.gateway import (
    ConfirmedTx,
    CoreCalls,
    DroppedTx,
    FilterChanges,
    KeyedRequest,
    MempoolCalls,
    PendingPage,
    PendingTx,
    Status,
    TxStatus,
)
from cairn.domain.types import MAX_UINT256, Address, Draft, TxHash
from tests.support.core_fixtures import ACCOUNTS, GWEI, signed

SENDER, TO = ACCOUNTS[:2]
_A = TypeVar("_A")


class Answers(CoreCalls):
    """Writes down what it is asked."""

    def __init__(self, answer: object = None) -> None:
        self.asked: list[tuple[object, ...]] = []
        self._answer = answer

    async def perform(self, method: Method[_A], request: msgspec.Struct) -> _A:
        self.asked.append((method.name, *msgspec.structs.astuple(request)))
        return method.answer.decode(msgspec.json.encode(self._answer))


class Carrier(CoreCalls):
    """As the link: every call goes through a frame and is asked for at the other end."""

    def __init__(self, answering: Calls) -> None:
        self._answering = answering

    async def perform(self, method: Method[_A], request: msgspec.Struct) -> _A:
        payload = wire.frame_of(1, wire.CALL, request)[wire.HEAD.size :]
        arrived, arguments = wire.decode_call(payload)
        assert arrived == method
        answer = await arrived.ask(self._answering, arguments)
        return method.answer.decode(msgspec.json.encode(answer))


DRAFT = Draft(SENDER, TO, MAX_UINT256, 21_000, GWEI, None)

KEYED = KeyedRequest(b"\x00\xff" * 16, b"r" * 32)

ASKED: list[tuple[Callable[[CoreCalls], Awaitable[object]], tuple[object, ...]]] = [
    (lambda core: core.submit_draft(DRAFT), ("submit_draft", DRAFT, None)),
    (lambda core: core.submit_draft(DRAFT, KEYED), ("submit_draft", DRAFT, KEYED)),
    (lambda core: core.next_nonce(SENDER), ("next_nonce", SENDER)),
    (lambda core: core.list_pending(5, None, sender=SENDER), ("list_pending", 5, None, SENDER)),
    (lambda core: core.create_filter("logs", "one"), ("create_filter", "logs", "one")),
    (lambda core: core.status(), ("status",)),
    (lambda core: core.mine(), ("mine", 1, 0, None)),
    (lambda core: core.mine(3, timestamp=9), ("mine", 3, 0, 9)),
    (lambda core: core.set_balance(SENDER, MAX_UINT256), ("set_balance", SENDER, MAX_UINT256)),
]


@pytest.mark.parametrize(("ask", "expected"), ASKED)
def test_arguments_arrive_as_they_were_written(
    ask: Callable[[CoreCalls], Awaitable[object]], expected: tuple[object, ...]
) -> None:
    answers = Answers()

    async def main() -> None:
        # It answers null, which is no answer to most.
        with suppress(msgspec.ValidationError):
            await ask(Carrier(answers))

    asyncio.run(main())
    assert answers.asked == [expected]


@pytest.mark.parametrize(
    "standing", [None, ConfirmedTx(5), DroppedTx("replaced"), PendingTx(signed(0, value=10**20), 1)]
)
def test_an_answer_comes_back_as_the_type_that_was_declared(standing: TxStatus | None) -> None:
    assert asyncio.run(Carrier(Answers(standing)).find_tx(signed(0).hash)) == standing


async def test_a_call_is_answered_by_the_method_of_its_name() -> None:
    class Counting(MempoolCalls):
        async def next_nonce(self, sender: Address) -> int:
            return sender[0]

    core = Carrier(Counting())
    assert await core.next_nonce(Address(b"\x07" * 20)) == 7
    with pytest.raises(NotImplementedError, match="Counting does not answer find_tx"):
        await core.find_tx(signed(0).hash)


def test_a_request_of_another_shape_is_refused() -> None:
    for payload in (b'["next_nonce", 5]', b'["next_nonce"]', b'["perform", 1]', b'["mine", "1", 0, null]', b"{}"):
        with pytest.raises(msgspec.ValidationError):
            wire.decode_call(payload)


def test_names_are_not_declared_twice() -> None:
    names = Counter(method.name for method in methods_of(CoreCalls))
    assert names
    assert set(names.values()) == {1}


def test_a_new_call_is_its_declaration_and_its_answer() -> None:
    class Declaring(Calls):
        @call("open", is_question=True)
        async def add(self, first: int, second: int = 2) -> list[int]:
            """Needs nothing else."""
            raise AssertionError("only the types of a declaration are used")

    class Answering(Declaring):
        async def add(self, first: int, second: int = 2) -> list[int]:
            return [first + second]

    class Handing(Declaring):
        async def perform(self, method: Method[_A], request: msgspec.Struct) -> _A:
            return await method.ask(Answering(), request)

    [method] = methods_of(Declaring)
    assert (method.name, method.needs, method.is_question) == ("add", "open", True)
    assert Declaring.add.__doc__ == "Needs nothing else."
    assert asyncio.run(Handing().add(1)) == [3]
    assert asyncio.run(Handing().add(1, second=5)) == [6]
    with pytest.raises(TypeError, match="Missing required argument 'first'"):
        asyncio.run(Handing().add())  # type: ignore[call-arg]


async def types_are_those_of_the_declaration(core: CoreCalls) -> None:
    """Never run: the type checker reads it, and fails where it sees another type, or none."""
    assert_type(await core.next_nonce(SENDER), int)
    assert_type(await core.find_tx(TxHash(b"")), PendingTx | DroppedTx | ConfirmedTx | None)
    assert_type(await core.list_pending(1, None, None), PendingPage)
    assert_type(await core.find_changes("", 0), FilterChanges | None)
    assert_type(await core.status(), Status)
    assert_type(await core.mine(blocks=2), int)
    await core.next_nonce("0x00")  # type: ignore[arg-type]
    await core.next_nonce()  # type: ignore[call-arg]
    await core.mine(block=1)  # type: ignore[call-arg]
