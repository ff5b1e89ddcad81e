"""JSON-RPC 2.0 itself: calls, batches, notifications, and every way to get it wrong."""

import asyncio
import json
import time
from functools import partial
from typing import Any

import msgspec
import pytest

from cairn.api.rpc import dispatch
from cairn.api.rpc.caller import Caller
from cairn.api.rpc.calls import MAX_BATCH, MAX_CALL_BYTES, MOST_COMMAS, PARSED_AT_ONCE
from cairn.api.rpc.dispatch import AT_ONCE, Dispatcher, Handler, Later, Params, Promised, handler_of
from cairn.api.rpc.values import InvalidParams, RpcError
from cairn.domain.errors import Corrupt, Fatal, NonceTooLow, Starting
from cairn.time_shares import SLICE_S
from tests.support.callers import UNLIMITED

FORMS = ["at once", "later", "promised"]
"""In which a method may give its result."""


class Bench(Caller):
    def __init__(self, form: str) -> None:
        super().__init__("", UNLIMITED)
        self.calls: list[tuple[Any, ...]] = []
        self.fatal: list[Fatal] = []
        methods: dict[str, Handler] = {"echo": self.echo, "fail": self.fail, "refuse": self.refuse, "long": self.long}
        if form == "later":
            methods = {name: partial(Later, self.after_others, handler) for name, handler in methods.items()}
        elif form == "promised":
            methods = {name: partial(self.promised, handler) for name, handler in methods.items()}
        self.dispatcher = Dispatcher(methods, self.fatal.append)
        self.left = 1_000
        self.failure: Exception = RuntimeError("a secret of ours")

    async def after_others(self, handler: Handler, params: Params) -> object:
        await asyncio.sleep(0)
        return handler(params)

    def promised(self, handler: Handler, params: Params) -> Promised:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Params] = loop.create_future()
        loop.call_soon(future.set_result, params)
        return Promised(future, handler)

    def echo(self, params: Params) -> object:
        self.calls.append(tuple(params))
        return list(params)

    def fail(self, params: Params) -> object:
        raise self.failure

    def refuse(self, params: Params) -> object:
        raise RpcError(-32000, "no", {"why": "because"})

    def long(self, params: Params) -> object:
        return "x" * 1_000

    def may_call(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def ask(self, message: object) -> Any:
        """The answer to a message, which is JSON unless it is bytes already."""
        content = message if isinstance(message, bytes) else json.dumps(message).encode()
        answer = asyncio.run(self.dispatcher.answer(content, self))
        return None if answer is None else json.loads(answer)


@pytest.fixture(params=FORMS)
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


def call(method: str, *params: object, **more: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)} | more


def error_of(answer: Any) -> tuple[Any, int, str]:
    assert answer.keys() == {"jsonrpc", "id", "error"}
    return answer["id"], answer["error"]["code"], answer["error"]["message"]


@pytest.mark.parametrize("request_id", [1, "a", 1.5, -3, 2**70, None, ""])
def test_a_call_gets_its_id_back(bench: Bench, request_id: object) -> None:
    assert bench.ask(call("echo", 1, "b", id=request_id)) == {"jsonrpc": "2.0", "id": request_id, "result": [1, "b"]}


def test_params_may_be_left_out(bench: Bench) -> None:
    bare = {"jsonrpc": "2.0", "id": 1, "method": "echo"}
    for message in (bare, bare | {"params": None}, bare | {"params": []}):
        assert bench.ask(message)["result"] == []


def test_an_unknown_method_is_refused(bench: Bench) -> None:
    message = "the method eth_none does not exist/is not available"
    assert error_of(bench.ask(call("eth_none"))) == (1, -32601, message)


@pytest.mark.parametrize(
    "rubbish", [b"", b"{", b"[", b'{"a":}', b"\xff", b"nul", b'"\xc3"', b"[" * 5_000, b'{"jsonrpc":NaN}']
)
def test_a_message_that_is_not_json_is_a_parse_error(bench: Bench, rubbish: bytes) -> None:
    request_id, code, message = error_of(bench.ask(rubbish))
    assert (request_id, code) == (None, -32700)
    assert message.startswith("parse error")


@pytest.mark.parametrize(
    ("message", "request_id"),
    [
        (1, None),
        ("eth_chainId", None),
        (None, None),
        ({}, None),
        ({"id": 1, "method": "echo"}, 1),
        ({"jsonrpc": "1.0", "id": 1, "method": "echo"}, 1),
        ({"jsonrpc": "2.0", "id": 1}, 1),
        ({"jsonrpc": "2.0", "id": 1, "method": ""}, 1),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, 1),
        ({"jsonrpc": "2.0", "id": [1], "method": "echo"}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "echo"}, None),
    ],
)
def test_a_message_that_is_no_call_is_an_invalid_request(bench: Bench, message: object, request_id: object) -> None:
    assert error_of(bench.ask(message))[:2] == (request_id, -32600)
    assert not bench.calls


def test_params_by_name_are_refused(bench: Bench) -> None:
    assert error_of(bench.ask(call("echo") | {"params": {"a": 1}})) == (1, -32602, "non-array args")


def test_a_notification_is_done_and_not_answered(bench: Bench) -> None:
    assert bench.ask({"jsonrpc": "2.0", "method": "echo", "params": [7]}) is None
    assert bench.calls == [(7,)]
    assert bench.ask({"jsonrpc": "2.0", "method": "none"}) is None
    assert bench.ask({"jsonrpc": "2.0", "method": "echo", "params": {"a": 1}}) is None


def test_a_batch_is_answered_in_its_order(bench: Bench) -> None:
    calls = [call("echo", number, id=number) for number in range(20)]
    notification = {"jsonrpc": "2.0", "method": "echo", "params": ["told"]}
    answers = bench.ask([*calls[:10], notification, 5, *calls[10:]])
    assert [answer["id"] for answer in answers] == [*range(10), None, *range(10, 20)]
    assert error_of(answers[10])[1] == -32600
    assert bench.calls == [*((number,) for number in range(10)), ("told",), *((number,) for number in range(10, 20))]


def test_a_batch_of_notifications_is_not_answered(bench: Bench) -> None:
    assert bench.ask([{"jsonrpc": "2.0", "method": "echo"}] * 3) is None


def test_an_empty_batch_is_refused(bench: Bench) -> None:
    assert error_of(bench.ask([])) == (None, -32600, "empty batch")


def test_a_batch_above_the_limit_is_refused_with_an_error_for_each_id(bench: Bench) -> None:
    told = {"jsonrpc": "2.0", "method": "echo"}
    answers = bench.ask([*(call("echo", id=number) for number in range(MAX_BATCH)), told])
    message = f"batch too large: {MAX_BATCH + 1} calls, {MAX_BATCH} at most"
    assert [error_of(answer) for answer in answers] == [(number, -32600, message) for number in range(MAX_BATCH)]
    assert [error_of(answer) for answer in bench.ask([told] * (MAX_BATCH + 1))] == [(None, -32600, message)]
    assert not bench.calls
    assert len(bench.ask([call("echo")] * MAX_BATCH)) == MAX_BATCH


def test_a_batch_of_megabytes_is_answered(bench: Bench) -> None:
    calls = [call("echo", "é" * 800, id=each) for each in range(MAX_BATCH)]
    message = json.dumps(calls, ensure_ascii=False)
    for each in (message.encode(), message):
        answer = asyncio.run(bench.dispatcher.answer(each, bench))
        bench.left = MAX_BATCH
        assert answer is not None
        assert [each["id"] for each in json.loads(answer)] == list(range(MAX_BATCH))


FILL = " " * PARSED_AT_ONCE


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        ("[" + "1," * (MOST_COMMAS + 1) + "1]" + FILL, -32600, "batch too large: it has too many parts"),
        (json.dumps(call("echo", FILL)), -32600, "a batch of calls of at most 16384"),
        (
            json.dumps([call("echo")] * 3_000 + [call("echo", " " * MAX_CALL_BYTES)]),
            -32600,
            "a batch of calls of at most 16384",
        ),
        (f"[{FILL}]", -32600, "empty batch"),
        (f"[{FILL}", -32700, "parse error"),
        (f"[1,{{{FILL}]", -32700, "parse error"),
    ],
    ids=["parts", "one call", "a call of two", "empty", "unfinished", "malformed"],
)
def test_a_long_message_that_is_no_batch_is_refused(bench: Bench, message: str, code: int, text: str) -> None:
    found, given, said = error_of(bench.ask(message.encode()))
    assert (found, given) == (None, code)
    assert text in said


def test_a_long_batch_above_the_limit_is_refused_with_an_error_for_each_id(bench: Bench) -> None:
    calls = [call("eth_blockNumber", id=each) for each in range(3 * MAX_BATCH)]
    answers = bench.ask([*calls, 1, call("echo", id=[])])
    message = f"batch too large: {3 * MAX_BATCH + 2} calls, {MAX_BATCH} at most"
    assert [error_of(each) for each in answers] == [(each, -32600, message) for each in range(3 * MAX_BATCH)]


def test_a_malformed_call_of_a_long_batch_is_answered_alone(bench: Bench) -> None:
    message = b'[{"jsonrpc":"2.0","id":1,"method":"echo"},{"x":"\xff"},%b1]' % FILL.encode()
    good, malformed, number = bench.ask(message)
    assert good["result"] == []
    assert error_of(malformed)[:2] == (None, -32700)
    assert error_of(number)[:2] == (None, -32600)


def test_others_have_their_turns_while_a_long_batch_is_parsed(bench: Bench) -> None:
    """Two megabytes of values would take a tenth of a second at once."""
    nested = b"[" * 500 + b"]" * 500
    message = b"[" + b",".join([b'{"x":[%b]}' % b",".join([nested] * 10)] * 200) + b"]"

    async def turns() -> int:
        answering, count = asyncio.ensure_future(bench.dispatcher.answer(message, bench)), 0
        while not answering.done():
            await asyncio.sleep(0)
            count += 1
        assert answering.result()
        return count

    assert len(message) > 1_000_000
    assert asyncio.run(turns()) > 20


async def test_others_have_their_turns_while_the_calls_of_a_batch_are_answered_at_once() -> None:
    def work(params: Params) -> object:
        ends_at = time.perf_counter() + SLICE_S / 10
        while time.perf_counter() < ends_at:
            pass
        return "done"

    dispatcher, bench = Dispatcher({"work": work}, lambda failure: None), Bench("at once")
    answering = asyncio.ensure_future(dispatcher.answer(json.dumps([call("work")] * 300).encode(), bench))
    turns = 0
    while not answering.done():
        await asyncio.sleep(0)
        turns += 1
    assert len(json.loads(answering.result() or b"")) == 300
    # Each turn is a slice at most, and the call that ends it.
    assert turns > 20


def test_calls_of_a_batch_beyond_its_size_limit_are_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "MAX_ANSWER_BYTES", 5_000)
    told = {"jsonrpc": "2.0", "method": "long"}
    answers = bench.ask([*(call("long", id=number) for number in range(20)), told])
    assert [answer["id"] for answer in answers] == list(range(20))
    made = [answer for answer in answers if "result" in answer]
    assert answers[: len(made)] == made
    # It ends with the answer that goes beyond the limit, and those that had begun by then.
    size_bytes = [len(msgspec.json.encode(answer)) for answer in made]
    assert sum(size_bytes[:-AT_ONCE]) <= 5_000 < sum(size_bytes)
    assert error_of(answers[-1]) == (19, -32003, "response too large")


def test_a_call_over_the_rate_limit_is_refused(bench: Bench) -> None:
    bench.left = 2
    answers = bench.ask([call("echo", id=number) for number in range(4)])
    assert [answer.get("error", {}).get("code") for answer in answers] == [None, None, -32005, -32005]


def test_a_refusal_has_its_code_and_message(bench: Bench) -> None:
    assert bench.ask(call("refuse"))["error"] == {"code": -32000, "message": "no", "data": {"why": "because"}}
    bench.failure = NonceTooLow("it is used")
    assert bench.ask(call("fail"))["error"] == {
        "code": -32000,
        "message": "nonce too low: it is used",
        "data": {"code": "NONCE_TOO_LOW"},
    }
    bench.failure = Starting("a moment")
    assert error_of(bench.ask(call("fail")))[1:] == (-32002, "resource unavailable: a moment")


def test_a_failure_of_the_node_is_an_internal_error_without_details(bench: Bench) -> None:
    for failure in (RuntimeError("a secret of ours"), Corrupt("a secret of ours")):
        bench.failure = failure
        assert error_of(bench.ask(call("fail"))) == (1, -32603, "internal error: see the node's log")
    assert [type(failure) for failure in bench.fatal] == [Corrupt]


async def test_a_promise_that_is_broken_is_a_refusal() -> None:
    future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    dispatcher = Dispatcher({"promise": lambda params: Promised(future, str)}, lambda failure: None)
    future.set_exception(NonceTooLow("it is used"))
    answer = await dispatcher.answer(json.dumps(call("promise")).encode(), Bench("at once"))
    assert json.loads(answer or b"")["error"]["data"] == {"code": "NONCE_TOO_LOW"}


async def pair(first: object, second: object = "left out") -> tuple[object, object]:
    return first, second


async def ask_pair(*params: object) -> object:
    begun = handler_of(pair)(params)
    assert isinstance(begun, Later)
    return await begun()


def test_a_parameter_with_a_default_may_be_left_out() -> None:
    assert asyncio.run(ask_pair(1)) == (1, "left out")
    assert asyncio.run(ask_pair(1, 2)) == (1, 2)
    assert asyncio.run(ask_pair(1, None)) == (1, None)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ((), "missing value for required argument 0"),
        ((None, 2), "missing value for required argument 0"),
        ((1, 2, 3), "too many arguments, want at most 2"),
    ],
)
def test_too_many_or_too_few_arguments_are_refused(params: tuple[object, ...], message: str) -> None:
    with pytest.raises(InvalidParams, match=message):
        asyncio.run(ask_pair(*params))


@pytest.mark.parametrize("params", [(1,), (1, None), [1, None, 3]])
def test_the_first_required_argument_that_is_missing_is_named(params: Params) -> None:
    handler = handler_of(lambda first, second, third=None: None)
    with pytest.raises(InvalidParams, match="missing value for required argument 1"):
        handler(params)
