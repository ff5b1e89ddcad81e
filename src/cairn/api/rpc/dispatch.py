"""JSON-RPC 2.0: from the bytes of a request or a batch to the bytes of the answer."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from cairn import metrics
from cairn.api.bodies import answered
from cairn.api.failures import error_of
from cairn.api.rpc.caller import CallBatch, Caller, current_batch, current_caller
from cairn.api.rpc.calls import (
    MAX_BATCH,
    PARSED_AT_ONCE,
    Call,
    RequestId,
    expects_answer,
    find_call,
    id_of,
    may_submit,
    may_wait,
    outline_of,
    parse_json,
    parse_request,
    parsed_part,
    split_batch,
)
from cairn.api.rpc.long_results import LongResult, joined, long_array
from cairn.api.rpc.values import (
    INVALID_REQUEST,
    LIMIT_EXCEEDED,
    InvalidParams,
    MethodNotFound,
    RpcError,
    rpc_error_of,
)
from cairn.domain.errors import Fatal
from cairn.metrics import RouteTraffic
from cairn.metrics_page import OTHER, Tally
from cairn.time_shares import TimeShares, in_slices

MAX_ANSWER_BYTES = 25 * 1024 * 1024
"""The most bytes in the answers of a batch, as in geth; further calls are refused."""
MAX_WAITING_BYTES = 1024 * 1024
"""The same in a batch with a call that waits for a block: its answers are kept meanwhile."""
LARGE_BYTES = 256 * 1024
AT_ONCE = 8
"""Calls of a batch that run together. Submissions among them share a sync."""

Params = Sequence[Any]
"""The arguments of a call, by position."""


class Later(partial[Awaitable[object]]):
    """What a method returns that cannot answer at once: the rest of its work. It begins when it is called."""


class Promised(msgspec.Struct, frozen=True):
    """What a method returns that has done its work, and waits for what a future gives."""

    future: asyncio.Future[Any]
    show: Callable[[Any], object]
    """Makes the result, or raises."""


Method = Callable[..., object]
"""Its parameters are those of the call; one that has a default may be left out.

It returns its result, or `Later` or `Promised`; a coroutine function is one that always answers later.
"""
Handler = Callable[[Params], object]
FirstParser = Callable[[object], object]
AnyMethod = TypeVar("AnyMethod", bound=Method)


class CountedMethod(msgspec.Struct, frozen=True):
    """What answers the calls of a method, and where they are counted that were answered as asked."""

    handler: Handler
    answered: Tally
    traffic: RouteTraffic
    """For whoever answers a call at once that is a request of its own: it counts both, instead of `answered`."""


class Methods(dict[str, CountedMethod]):
    """By name."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        for name, handler in handlers.items():
            self[name] = CountedMethod(handler, metrics.RPC_REQUESTS.tally(name, "ok"), metrics.HTTP.of_method(name))

    def __missing__(self, name: str) -> CountedMethod:
        raise MethodNotFound(name)


class Unanswered(msgspec.Struct, frozen=True):
    """A call that could not be answered at once."""

    call: Call
    method: CountedMethod
    result: Later | Promised | LongResult


_UNFINISHED = (Later, Promised, LongResult)
_encode = msgspec.json.Encoder().encode


class Dispatcher:
    """Calls the methods by name. It never raises, whatever a client sends."""

    def __init__(
        self, handlers: Mapping[str, Handler], on_fatal: Callable[[Fatal], None], shares: TimeShares | None = None
    ) -> None:
        self.methods = Methods(handlers)
        self._handlers = handlers
        self._on_fatal = on_fatal
        self._shares = shares or TimeShares()

    def having(self, further: Mapping[str, Handler]) -> "Dispatcher":
        """A dispatcher that has these methods, too."""
        return Dispatcher({**self._handlers, **further}, self._on_fatal, self._shares)

    # One call.

    def begin(self, call: Call, method: CountedMethod) -> bytes | None | Unanswered:
        """The answer to a call, None to a notification; or what is left to do for it.

        Whoever asks for it counts the answer, and what it raises is for `refuse`.
        """
        result = method.handler(call.params)
        return Unanswered(call, method, result) if isinstance(result, _UNFINISHED) else _success(call, result)

    async def finish(self, begun: Unanswered, caller: Caller) -> bytes | None:
        """The answer to a call that has begun."""
        current_caller.set(caller)
        result: object = begun.result
        if isinstance(result, Promised):
            # Not awaited itself: it keeps a refusal, whose traceback would keep it.
            await asyncio.wait((result.future,))
            return self.settle(begun)
        try:
            if isinstance(result, Later):
                result = await result()
            if isinstance(result, LongResult):
                answer = await _long_success(begun.call, result)
            else:
                answer = _success(begun.call, result)
            begun.method.answered.count()
            return answer
        except Exception as failure:
            return self.refuse(begun.call, failure)

    def settle(self, begun: Unanswered) -> bytes | None:
        """The answer to a call whose promise is kept or broken, but not cancelled."""
        call, promised = begun.call, begun.result
        assert isinstance(promised, Promised)
        failure = promised.future.exception()
        if failure is not None:
            return self.refuse(call, failure)
        try:
            answer = _success(call, promised.show(promised.future.result()))
        except Exception as refused:
            return self.refuse(call, refused)
        begun.method.answered.count()
        return answer

    def _begin_counted(self, call: Call, caller: Caller) -> bytes | None | Unanswered:
        if not caller.may_call():
            return self._refused(
                call, RpcError(LIMIT_EXCEEDED, "limit exceeded: too many requests from this address; slow down")
            )
        try:
            method = self.methods[call.method]
            begun = self.begin(call, method)
        except Exception as failure:
            return self.refuse(call, failure)
        if not isinstance(begun, Unanswered):
            method.answered.count()
        return begun

    async def answer_call(self, call: Call, caller: Caller) -> bytes | None:
        begun = self._begin_counted(call, caller)
        return await self.finish(begun, caller) if isinstance(begun, Unanswered) else begun

    def refuse(self, call: Call, failure: BaseException) -> bytes | None:
        """The answer to a call that has failed."""
        if isinstance(failure, RpcError):
            return self._refused(call, failure)
        error = error_of(failure, self._on_fatal, method=call.method)
        metrics.HTTP_REFUSALS.inc(answered(error).code)
        return self._refused(call, rpc_error_of(error))

    def _refused(self, call: Call, error: RpcError) -> bytes | None:
        metrics.RPC_REQUESTS.inc(call.method, "error")
        return None if call.id is UNSET else _failure(call.id, error)

    # A message.

    async def answer(self, message: bytes | str, caller: Caller) -> bytes | None:
        """The answer to one message; None when it holds notifications only."""
        call = find_call(message) if len(message) <= PARSED_AT_ONCE else None
        if call is not None:
            return await self.answer_call(call, caller)
        try:
            content: object = parse_json(message) if len(message) <= PARSED_AT_ONCE else await split_batch(message)
        except RpcError as refused:
            return _failure(None, refused)
        if not isinstance(content, list):
            begun = self._begin_any(content, caller)
            return await self.finish(begun, caller) if isinstance(begun, Unanswered) else begun
        if not content:
            return _failure(None, RpcError(INVALID_REQUEST, "empty batch"))
        if len(content) > MAX_BATCH:
            return await _refuse_batch(content)
        return await self._answer_batch(content, caller)

    def _begin_any(self, content: object, caller: Caller) -> bytes | None | Unanswered:
        """As `begin`, for a value that may be no call."""
        try:
            call = parse_request(content)
        except RpcError as refused:
            return _refused_content(content, refused)
        return self._begin_counted(call, caller)

    # A batch.

    async def _answer_batch(self, calls: Sequence[object], caller: Caller) -> bytes | None:
        outlines = [outline_of(call) async for call in in_slices(calls)]
        waits, submits = any(map(may_wait, outlines)), any(map(may_submit, outlines))
        batch = CallBatch(MAX_WAITING_BYTES if waits else MAX_ANSWER_BYTES, waits)
        outside = current_batch.set(batch)
        answers: list[bytes | None] = []
        later: dict[int, Unanswered | _Unbegun] = {}
        try:
            async for call in in_slices(calls):
                content = parsed_part(call)
                # What is only read is answered in the batch's own turn, if it can be answered at once; not before an
                # earlier one has begun, which may count for several against the rate limit.
                waits_for_turn = submits or bool(later)
                begun = _Unbegun(content) if waits_for_turn else self._begin_part(content, caller, batch)
                if isinstance(begun, Unanswered | _Unbegun):
                    later[len(answers)] = begun
                    begun = None
                answers.append(begun)
                if len(later) == AT_ONCE:
                    await self._answer_later(later, answers, caller, batch)
            await self._answer_later(later, answers, caller, batch)
        finally:
            current_batch.reset(outside)
            batch.end()
        found = [answer for answer in answers if answer is not None]
        return await joined(long_array(found).pieces) if found else None

    async def _answer_later(
        self, later: "dict[int, Unanswered | _Unbegun]", answers: list[bytes | None], caller: Caller, batch: CallBatch
    ) -> None:
        """Fill in the answers to calls that run together."""
        # Each begins before the next, so that submissions keep their order.
        found = await asyncio.gather(*(self._answer_part(part, caller, batch) for part in later.values()))
        for at, answer in zip(later, found, strict=True):
            answers[at] = answer
        later.clear()

    def _begin_part(self, content: object, caller: Caller, batch: CallBatch) -> bytes | None | Unanswered:
        try:
            batch.check_size()
        except RpcError as refused:
            return _refused_content(content, refused)
        begun = self._begin_any(content, caller)
        if isinstance(begun, bytes):
            batch.size_bytes += len(begun)
        return begun

    async def _answer_part(self, part: "Unanswered | _Unbegun", caller: Caller, batch: CallBatch) -> bytes | None:
        """One call of a batch. Each takes its own turns, as a task of its own."""
        answering = self._finish_part(part, caller, batch)
        if isinstance(part, _Unbegun) and may_submit(part.content):
            # What is submitted is submitted, whether its client waits for the answer or not.
            return await self._shares.run(caller.client, answering, "submissions")
        return await self._shares.run(caller.client, answering, "reads", caller.has_left)

    async def _finish_part(self, part: "Unanswered | _Unbegun", caller: Caller, batch: CallBatch) -> bytes | None:
        begun = self._begin_part(part.content, caller, batch) if isinstance(part, _Unbegun) else part
        if not isinstance(begun, Unanswered):
            return begun
        answer = await self.finish(begun, caller)
        batch.size_bytes += len(answer or b"")
        return answer


@dataclass(frozen=True, slots=True)
class _Unbegun:
    """A call of a batch, or what stands in the place of one, that begins in a turn of its own."""

    content: object


def rpc_method(*names: str, first: FirstParser | None = None) -> Callable[[AnyMethod], AnyMethod]:
    """The decorated method of a group answers calls of these names. `first` parses their first argument."""

    def declare(method: AnyMethod) -> AnyMethod:
        vars(method).setdefault("rpc_names", {}).update(dict.fromkeys(names, first))
        return method

    return declare


def handlers_of(*groups: object) -> dict[str, Handler]:
    """The methods that the groups declare with `rpc_method`, by name."""
    return {
        name: handler_of(getattr(group, attribute), first)
        for group in groups
        for attribute, declared in vars(type(group)).items()
        for name, first in getattr(declared, "rpc_names", {}).items()
    }


def handler_of(method: Method, first: FirstParser | None = None) -> Handler:
    """A handler that refuses too many or too few arguments in geth's words, and otherwise calls `method`."""
    parameters = inspect.signature(method).parameters.values()
    # A coroutine that is made and never awaited would be a defect: one is made when its turn has come.
    begin = partial(Later, method) if inspect.iscoroutinefunction(method) else method
    most = len(parameters)
    required = sum(each.default is inspect.Parameter.empty for each in parameters)

    def handler(params: Params) -> object:
        if len(params) > most:
            raise InvalidParams(f"too many arguments, want at most {most}")
        if len(params) < required or None in params[:required]:
            raise InvalidParams(f"missing value for required argument {[*params, None].index(None)}")
        return begin(*params) if first is None else begin(first(params[0]), *params[1:])

    return handler


async def _refuse_batch(content: Sequence[object]) -> bytes:
    """An array with an error for every id, as clients expect: some wait forever for an id that is missing."""
    error = RpcError(INVALID_REQUEST, f"batch too large: {len(content)} calls, {MAX_BATCH} at most")
    found = [id_of(outline_of(call)) async for call in in_slices(content)]
    ids: list[RequestId] = [each for each in found if each is not None]
    return await joined(long_array(_failure(each, error) for each in ids or [None]).pieces)


def _refused_content(content: object, error: RpcError) -> bytes | None:
    """As `_refused`, for a value that may be no call."""
    metrics.RPC_REQUESTS.inc(OTHER, "error")
    return _failure(id_of(content), error) if expects_answer(content) else None


def _success(call: Call, result: object) -> bytes | None:
    if call.id is UNSET:
        return None
    shown = result if result.__class__ is msgspec.Raw else _encode(result)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode(call.id), shown)


async def _long_success(call: Call, result: LongResult) -> bytes | None:
    if call.id is UNSET:
        return None
    before = b'{"jsonrpc":"2.0","id":%b,"result":' % _encode(call.id)
    return await joined(chain((before,), result.pieces, (b"}",)))


def _failure(request_id: RequestId, error: RpcError) -> bytes:
    shown = {"code": error.code, "message": error.message} | ({} if error.data is None else {"data": error.data})
    return _encode({"jsonrpc": "2.0", "id": request_id, "error": shown})
