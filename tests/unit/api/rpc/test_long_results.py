"""Long results are the same JSON as short ones."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import msgspec
import pytest

from cairn import time_shares
from cairn.api.events.messages import text_frame
from cairn.api.rpc import txpool_methods
from cairn.api.rpc.dispatch import Dispatcher, Later
from cairn.api.rpc.long_results import (
    COPIED_AT_ONCE,
    LongResult,
    joined,
    long_array,
    long_data,
    long_object,
    with_long_array,
)
from cairn.api.rpc.subscriptions import UNCOPIED_BYTES, text_frame_parts
from cairn.api.rpc.txpool_methods import by_sender
from cairn.domain.crypto import checksum_address
from cairn.domain.types import Address
from tests.support.callers import local_caller


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_long_array_is_the_json_of_its_items(count: int) -> None:
    items = [msgspec.json.encode({"n": number}) for number in range(count)]
    expected = [{"n": number} for number in range(count)]
    assert msgspec.json.decode(b"".join(long_array(items).pieces)) == expected
    shown = with_long_array({"a": "x", "list": [], "other": []}, "list", items)
    assert msgspec.json.decode(asyncio.run(joined(shown.pieces))) == {"a": "x", "list": expected, "other": []}


@pytest.mark.parametrize("request_id", ["null}", 7, 0.5])
@pytest.mark.parametrize("is_later", [False, True])
def test_the_answer_to_a_call_holds_the_long_result(request_id: object, is_later: bool) -> None:
    def long(params: object) -> LongResult:
        return long_array([b"1", b"2"])

    async def long_later(params: object) -> LongResult:
        return long(params)

    async def main() -> bytes | None:
        message = {"jsonrpc": "2.0", "id": request_id, "method": "long"}
        dispatcher = Dispatcher({"long": partial(Later, long_later) if is_later else long}, lambda failure: None)
        return await dispatcher.answer(msgspec.json.encode([message, message]), local_caller())

    answer = {"jsonrpc": "2.0", "id": request_id, "result": [1, 2]}
    assert msgspec.json.decode(asyncio.run(main()) or b"") == [answer, answer]


@pytest.mark.parametrize("size", [0, 125, 126, UNCOPIED_BYTES - 1, UNCOPIED_BYTES, UNCOPIED_BYTES + 1, 2**20])
def test_a_frame_in_parts_is_the_same_frame(size: int) -> None:
    payload = b"x" * size
    parts = text_frame_parts(payload)
    assert b"".join(parts) == text_frame(payload)
    assert size < UNCOPIED_BYTES or parts[-1] is payload


def test_a_long_object_is_the_json_of_its_fields() -> None:
    for count in (0, 1, 3):
        fields = [(f"n{number}", long_array([b"%d" % number])) for number in range(count)]
        shown = asyncio.run(joined(long_object(fields).pieces))
        assert msgspec.json.decode(shown) == {f"n{number}": [number] for number in range(count)}


def test_long_data_is_one_string_of_digits() -> None:
    for parts in ([], [b""], [b"\0", b"\xab\xcd"]):
        shown = asyncio.run(joined(long_data(parts).pieces))
        assert msgspec.json.decode(shown) == "0x" + b"".join(parts).hex()


class Turns:
    """Puts pieces together with a slice that is over after each of them, and counts others' turns in between."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(time_shares, "SLICE_S", 0.0)
        self.count = 0
        self.done: Counter[int] = Counter()
        """What was done, by turn."""

    def do(self) -> None:
        self.done[self.count] += 1

    def put_together(self, make: Callable[[], Iterable[bytes]]) -> bytes:
        async def count_turns() -> None:
            while True:
                self.count += 1
                await asyncio.sleep(0)

        async def main() -> bytes:
            counting = asyncio.create_task(count_turns())
            await asyncio.sleep(0)
            whole = await joined(make())
            counting.cancel()
            return whole

        return asyncio.run(main())


@pytest.mark.parametrize("make", [long_array, long_data, lambda items: with_long_array({"a": []}, "a", items)])
def test_pieces_are_made_in_slices_of_time(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[Iterable[bytes]], LongResult]
) -> None:
    turns = Turns(monkeypatch)

    def items() -> Iterator[bytes]:
        for _ in range(100):
            turns.do()
            yield b"1"

    turns.put_together(lambda: make(items()).pieces)
    assert turns.done.total() == 100
    assert max(turns.done.values()) <= 2


def test_a_listing_of_many_senders_is_made_in_slices_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch)

    def checksum(address: Address) -> str:
        turns.do()
        return checksum_address(address)

    monkeypatch.setattr(txpool_methods, "checksum_address", checksum)
    senders = [Address(number.to_bytes(20, "big")) for number in range(100)]
    whole = turns.put_together(lambda: by_sender({sender: {"7": b"1"} for sender in senders}).pieces)
    assert msgspec.json.decode(whole) == {checksum_address(sender): {"7": 1} for sender in senders}
    assert max(turns.done.values()) <= 2


def test_a_long_piece_is_copied_in_parts_with_others_turns_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch)
    piece = bytes(range(256)) * (3 * COPIED_AT_ONCE // 256) + b"rest"
    assert turns.put_together(lambda: [b"before", piece, b"after"]) == b"before" + piece + b"after"
    assert turns.count >= 6
