"""Long results are the same JSON as short ones."""

import asyncio

import msgspec
import pytest

from cairn import time_shares
from cairn.api.rpc.dispatch import Dispatcher
from cairn.api.rpc.long_results import COPIED_AT_ONCE, LongResult, joined, long_array, with_long_array
from cairn.api.rpc.notifications import UNCOPIED_BYTES, text_frame, text_frame_parts
from tests.support.callers import local_caller


@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_array_and_an_object_with_one(count: int) -> None:
    items = [msgspec.json.encode({"n": number}) for number in range(count)]
    expected = [{"n": number} for number in range(count)]
    assert msgspec.json.decode(b"".join(long_array(items).pieces)) == expected
    shown = with_long_array({"a": "x", "list": [], "other": []}, "list", items)
    assert msgspec.json.decode(asyncio.run(joined(shown.pieces))) == {"a": "x", "list": expected, "other": []}


@pytest.mark.parametrize("request_id", ["null}", 7, 0.5])
def test_the_answer_to_a_call_holds_it(request_id: object) -> None:
    async def long(params: object) -> LongResult:
        return long_array([b"1", b"2"])

    async def main() -> bytes | None:
        message = {"jsonrpc": "2.0", "id": request_id, "method": "long"}
        dispatcher = Dispatcher({"long": long}, lambda failure: None)
        return await dispatcher.answer(msgspec.json.encode([message, message]), local_caller())

    answer = {"jsonrpc": "2.0", "id": request_id, "result": [1, 2]}
    assert msgspec.json.decode(asyncio.run(main()) or b"") == [answer, answer]


@pytest.mark.parametrize("size", [0, 125, 126, UNCOPIED_BYTES - 1, UNCOPIED_BYTES, UNCOPIED_BYTES + 1, 2**20])
def test_a_frame_in_parts_is_the_same_frame(size: int) -> None:
    payload = b"x" * size
    parts = text_frame_parts(payload)
    assert b"".join(parts) == text_frame(payload)
    assert size < UNCOPIED_BYTES or parts[-1] is payload


def test_a_long_piece_is_copied_in_parts_with_others_turns_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_shares, "SLICE_S", 0.0)
    piece = bytes(range(256)) * (3 * COPIED_AT_ONCE // 256) + b"rest"
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> bytes:
        counting = asyncio.create_task(count_turns())
        whole = await joined([b"before", piece, b"after"])
        counting.cancel()
        return whole

    assert asyncio.run(main()) == b"before" + piece + b"after"
    assert turns >= 6
