"""JSON-RPC 2.0: from the bytes of a request or a batch to the bytes of the answer."""

import asyncio
import inspect
from binascii import hexlify
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from typing import Any, TypedDict, TypeVar

import msgspec
import structlog
from msgspec import UNSET, UnsetType

from cairn.api.rpc.caller import CallBatch, Caller, current_batch, current_caller
from cairn.api.rpc.values import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LIMIT_EXCEEDED,
    PARSE_ERROR,
    InvalidParams,
    MethodNotFound,
    RpcError,
    rpc_error_of,
)
from cairn.domain.errors import Fatal, NodeError
from cairn.time_shares import QueueName, TimeShares, give_way, in_slices, never

MAX_BATCH = 1_000
MAX_ANSWER_BYTES = 25 * 1024 * 1024
"""The most bytes in the answers of a batch, as in geth; further calls are refused."""
MAX_WAITING_BYTES = 1024 * 1024
"""The same in a batch with a call that waits for a block: its answers are kept meanwhile."""
LARGE_BYTES = 256 * 1024
PARSED_AT_ONCE = 128 * 1024
"""Bytes. A longer message is a batch, whose calls are parsed one by one: all at once would take too long."""
MAX_CALL_BYTES = 16 * 1024
"""Of each call of such a batch: those that run together have no more than is parsed at once."""
MOST_COMMAS = 40 * MAX_BATCH
"""In such a batch: some ten times as many as a full one has."""
AT_ONCE = 8
"""Calls of a batch that run together. Submissions among them share a sync."""
WAITING_CALL = "eth_sendRawTransactionSync"
"""The method that may wait for a block."""
SUBMITTING = "eth_send"
"""What the methods' names begin with that submit: such calls never wait for reads."""

COPIED_AT_ONCE = 256 * 1024
"""Bytes. Each page of new memory is also cleared, which takes longer than the copy."""

Params = Sequence[Any]
"""The arguments of a call, by position."""
Method = Callable[..., Awaitable[object]]
"""Its parameters are those of the call; one that has a default may be left out."""
Handler = Callable[[Params], Awaitable[object]]
RequestId = str | int | float | None
FirstParser = Callable[[object], object]
AnyMethod = TypeVar("AnyMethod", bound=Method)

_encode = msgspec.json.Encoder().encode


class Outline(TypedDict, total=False):
    """The fields of a call that are needed before its turn."""

    id: RequestId
    method: str


_decode_outline = msgspec.json.Decoder(Outline).decode
_CALL_TOO_LONG = (
    f"invalid request: a message of more than {PARSED_AT_ONCE} bytes is a batch of calls of at most {MAX_CALL_BYTES}"
)
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
log = structlog.get_logger("cairn.rpc")


class Dispatcher:
    """Calls the methods by name. It never raises, whatever a client sends."""

    def __init__(
        self, methods: Mapping[str, Handler], on_fatal: Callable[[Fatal], None], shares: TimeShares | None = None
    ) -> None:
        self._methods = methods
        self._on_fatal = on_fatal
        self._shares = shares or TimeShares()

    def having(self, further: Mapping[str, Handler]) -> "Dispatcher":
        """A dispatcher that has these methods, too."""
        return Dispatcher({**self._methods, **further}, self._on_fatal, self._shares)

    async def answer(self, message: bytes | str, caller: Caller) -> bytes | None:
        """The answer to one message; None when it holds notifications only."""
        current_caller.set(caller)
        try:
            content: object = _parse(message) if len(message) <= PARSED_AT_ONCE else await _split_batch(message)
        except RpcError as refused:
            return _failure(None, refused)
        if not isinstance(content, list):
            return await self._answer_one(content, caller)
        if not content:
            return _failure(None, RpcError(INVALID_REQUEST, "empty batch"))
        if len(content) > MAX_BATCH:
            return await _refuse_batch(content)
        return await self._answer_batch(content, caller)

    async def _answer_batch(self, calls: Sequence[object], caller: Caller) -> bytes | None:
        waits = any([may_wait(outline_of(call)) async for call in in_slices(calls)])
        batch = CallBatch(MAX_WAITING_BYTES if waits else MAX_ANSWER_BYTES, waits)
        outside = current_batch.set(batch)
        answers: list[bytes] = []
        try:
            for start in range(0, len(calls), AT_ONCE):
                # Each begins before the next, so that submissions keep their order.
                parsed = [_parsed_part(call) async for call in in_slices(calls[start : start + AT_ONCE])]
                found = await asyncio.gather(*(self._answer_part(call, caller, batch) for call in parsed))
                answers += [answer for answer in found if answer is not None]
        finally:
            current_batch.reset(outside)
            batch.end()
        return await joined(long_array(answers).pieces) if answers else None

    async def _answer_part(self, call: object, caller: Caller, batch: CallBatch) -> bytes | None:
        """One call of a batch. Each takes its own turns, as a task of its own."""
        try:
            batch.check_size()
        except RpcError as refused:
            return _refused(call, refused)
        queue, answering = queue_of(call), self._answer_one(call, caller)
        # What is submitted is submitted, whether its client waits for the answer or not.
        has_left = never if queue == "submissions" else caller.has_left
        answer = await self._shares.run(caller.client, answering, queue, has_left)
        batch.size_bytes += len(answer or b"")
        return answer

    async def _answer_one(self, content: object, caller: Caller) -> bytes | None:
        method = ""
        try:
            method, params, request_id = parse_request(content)
            if not caller.may_call():
                raise RpcError(LIMIT_EXCEEDED, "limit exceeded: this address asks too often; slow down")
            handler = self._methods.get(method)
            if handler is None:
                raise MethodNotFound(method)
            result = await handler(params)
            if request_id is UNSET:
                return None
            if isinstance(result, LongResult):
                # The result is the last field: what comes before it ends with its null.
                before = _encode({"jsonrpc": "2.0", "id": request_id, "result": None}).removesuffix(b"null}")
                return await joined(chain((before,), result.pieces, (b"}",)))
            return _encode({"jsonrpc": "2.0", "id": request_id, "result": result})
        except RpcError as refused:
            return _refused(content, refused)
        except NodeError as error:
            if isinstance(error, Fatal):
                self._on_fatal(error)
            return _refused(content, rpc_error_of(error))
        except Exception as failure:
            log.error("a call failed", method=method, exc_info=failure)
            return _refused(content, RpcError(INTERNAL_ERROR, "internal error: see the node's log"))


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
    most = len(parameters)
    required = sum(each.default is inspect.Parameter.empty for each in parameters)

    def handler(params: Params) -> Awaitable[object]:
        if len(params) > most:
            raise InvalidParams(f"too many arguments, want at most {most}")
        for index in range(required):
            if index >= len(params) or params[index] is None:
                raise InvalidParams(f"missing value for required argument {index}")
        return method(*params) if first is None else method(first(params[0]), *params[1:])

    return handler


def parse_request(content: object) -> tuple[str, Params, RequestId | UnsetType]:
    """The method, its arguments and the id of the call, which a notification does not have.

    Raises `RpcError` if it is not a JSON-RPC 2.0 call, also that which was found instead of one.
    """
    if isinstance(content, RpcError):
        raise content
    if not isinstance(content, dict) or content.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'invalid request: expected an object with "jsonrpc": "2.0"')
    request_id = content.get("id", UNSET)
    if isinstance(request_id, bool | dict | list):
        raise RpcError(INVALID_REQUEST, "invalid request: the id is a string or a number")
    method, params = content.get("method"), content.get("params")
    if not isinstance(method, str) or not method:
        raise RpcError(INVALID_REQUEST, "invalid request: the method is missing")
    if params is not None and not isinstance(params, list):
        raise InvalidParams("non-array args")
    return method, params or [], request_id


def queue_of(content: object) -> QueueName:
    method = content.get("method") if isinstance(content, dict) else None
    return "submissions" if isinstance(method, str) and method.startswith(SUBMITTING) else "reads"


def may_wait(content: object) -> bool:
    """Whether the call may wait for a block."""
    return isinstance(content, dict) and content.get("method") == WAITING_CALL


def expects_answer(content: Any) -> bool:
    """Whether the call gets an answer. Only a notification gets none; a malformed call does get one."""
    return (
        not (isinstance(content, dict) and content.get("jsonrpc") == "2.0" and "method" in content) or "id" in content
    )


def id_of(content: object) -> RequestId:
    """The id for the answer; null if the call has no valid one."""
    found = content.get("id") if isinstance(content, dict) else None
    return found if isinstance(found, str | int | float) and not isinstance(found, bool) else None


def _parse(message: bytes | str | msgspec.Raw) -> Any:
    """The value of the JSON text. Raises `RpcError`."""
    try:
        return msgspec.json.decode(message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as malformed:
        raise RpcError(PARSE_ERROR, f"parse error: {str(malformed)[:200]}") from None


def _parsed_part(call: object) -> object:
    """A call of a batch, or why it is none."""
    try:
        return _parse(call) if isinstance(call, msgspec.Raw) else call
    except RpcError as malformed:
        return malformed


async def _split_batch(message: bytes | str) -> Sequence[msgspec.Raw]:
    """The calls of a long batch, not yet parsed. Raises `RpcError`."""
    # Putting megabytes together was enough for one step.
    await give_way()
    content = message.encode() if isinstance(message, str) else message
    # Not counted to the end: a million of them would take too long.
    if len(content.split(b",", MOST_COMMAS + 1)) > MOST_COMMAS + 1:
        raise RpcError(INVALID_REQUEST, f"batch too large: it has too many parts; {MAX_BATCH} calls at most")
    await give_way()
    try:
        calls = _decode_items(content)
    except msgspec.ValidationError:
        raise RpcError(INVALID_REQUEST, _CALL_TOO_LONG) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as malformed:
        raise RpcError(PARSE_ERROR, f"parse error: {str(malformed)[:200]}") from None
    await give_way()
    if any([memoryview(call).nbytes > MAX_CALL_BYTES async for call in in_slices(calls)]):
        raise RpcError(INVALID_REQUEST, _CALL_TOO_LONG)
    return calls


def outline_of(call: object) -> object:
    """What tells a call from others, without the work of parsing all of it."""
    if not isinstance(call, msgspec.Raw):
        return call
    try:
        return _decode_outline(call)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


async def _refuse_batch(content: Sequence[object]) -> bytes:
    """An array with an error for every id, as clients expect: some wait for ever for an id that is missing."""
    error = RpcError(INVALID_REQUEST, f"batch too large: {len(content)} calls, {MAX_BATCH} at most")
    found = [id_of(outline_of(call)) async for call in in_slices(content)]
    ids: list[RequestId] = [each for each in found if each is not None]
    return await joined(long_array(_failure(each, error) for each in ids or [None]).pieces)


def _refused(content: object, error: RpcError) -> bytes | None:
    return _failure(id_of(content), error) if expects_answer(content) else None


def _failure(request_id: RequestId, error: RpcError) -> bytes:
    shown = {"code": error.code, "message": error.message} | ({} if error.data is None else {"data": error.data})
    return _encode({"jsonrpc": "2.0", "id": request_id, "error": shown})


# Results of megabytes are made in pieces: encoding or copying all of one at once would make others wait.


@dataclass(frozen=True, slots=True)
class LongResult:
    """JSON in pieces. They can be read once: most are made only then, in slices of time."""

    pieces: Iterable[bytes]


def long_array(items: Iterable[bytes]) -> LongResult:
    """An array of encoded items."""
    return LongResult(_array(items))


def _array(items: Iterable[bytes]) -> Iterator[bytes]:
    separator = b"["
    for item in items:
        yield separator
        yield item
        separator = b","
    yield b"]" if separator == b"," else b"[]"


def with_long_array(shown: dict[str, object], name: str, items: Iterable[bytes]) -> LongResult:
    """An object whose field `name`, an empty list so far, gets the encoded items."""
    before, empty, after = _encode(shown).partition(b'"%b":[]' % name.encode())
    assert empty, f"{name} is not an empty list"
    return LongResult(chain((before, b'"%b":' % name.encode()), _array(items), (after,)))


def long_object(fields: Iterable[tuple[str, LongResult]]) -> LongResult:
    """An object of encoded values. The names need no escapes."""
    return LongResult(_object(fields))


def _object(fields: Iterable[tuple[str, LongResult]]) -> Iterator[bytes]:
    separator = b"{"
    for name, value in fields:
        yield b'%b"%b":' % (separator, name.encode())
        yield from value.pieces
        separator = b","
    yield b"}" if separator == b"," else b"{}"


def long_data(parts: Iterable[bytes]) -> LongResult:
    """The bytes of all parts as one string of hexadecimal digits."""
    return LongResult(chain((b'"0x',), map(hexlify, parts), (b'"',)))


async def joined(pieces: Iterable[bytes]) -> bytes:
    """The bytes of all pieces, put together in slices of time."""
    whole = BytesIO()
    async for part in in_slices(_short_parts(pieces)):
        whole.write(part)
    # It is not copied again.
    return whole.getvalue()


def _short_parts(pieces: Iterable[bytes]) -> Iterator[bytes | memoryview]:
    """The pieces, but none so long that copying it takes more than a slice."""
    for piece in pieces:
        if len(piece) <= COPIED_AT_ONCE:
            yield piece
        else:
            content = memoryview(piece)
            yield from (content[at : at + COPIED_AT_ONCE] for at in range(0, len(piece), COPIED_AT_ONCE))
