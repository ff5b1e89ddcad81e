"""A call of JSON-RPC 2.0, as it is read from a message or a part of a batch."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

import msgspec
from msgspec import UNSET, UnsetType

from cairn.api.rpc.values import INVALID_REQUEST, PARSE_ERROR, InvalidParams, RpcError
from cairn.time_shares import QueueName, give_way, in_slices

MAX_BATCH = 1_000
PARSED_AT_ONCE = 128 * 1024
"""Bytes. A longer message is a batch, whose calls are parsed one by one: all at once would take too long."""
MAX_CALL_BYTES = 16 * 1024
"""Of each call of such a batch: those that run together have no more than is parsed at once."""
MOST_COMMAS = 40 * MAX_BATCH
"""In such a batch: some ten times as many as a full one has."""
WAITING_CALL = "eth_sendRawTransactionSync"
"""The method that may wait for a block."""
SUBMITTING = "eth_send"
"""What the methods' names begin with that submit: such calls never wait for reads."""

RequestId = str | int | float | None


class Call(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What nearly every call looks like; `parse_request` reads whatever else may be one."""

    jsonrpc: Literal["2.0"]
    method: Annotated[str, msgspec.Meta(min_length=1)]
    params: list[Any] = []
    """The arguments, by position."""
    id: RequestId | UnsetType = UNSET
    """A notification has none, and gets no answer."""

    @property
    def queue(self) -> QueueName:
        return "submissions" if self.method.startswith(SUBMITTING) else "reads"


class Outline(TypedDict, total=False):
    """The fields of a call that are needed before its turn."""

    id: RequestId
    method: str


_decode_call = msgspec.json.Decoder(Call).decode
_decode_outline = msgspec.json.Decoder(Outline).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_CALL_TOO_LONG = (
    f"invalid request: a message of more than {PARSED_AT_ONCE} bytes is a batch of calls of at most {MAX_CALL_BYTES}"
)


def find_call(message: bytes | str) -> Call | None:
    """The call that the message is; None if it may be a batch, or no call, or needs a closer look."""
    try:
        return _decode_call(message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def parse_request(content: object) -> Call:
    """The call. Raises `RpcError` if it is no JSON-RPC 2.0 call, including the error that was found instead of one."""
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
    return Call("2.0", method, params or [], request_id)


def may_submit(content: object) -> bool:
    """Whether the call is one of those that submit."""
    method = content.get("method") if isinstance(content, dict) else None
    return isinstance(method, str) and method.startswith(SUBMITTING)


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


def parse_json(message: bytes | str | msgspec.Raw) -> Any:
    """The value of the JSON text. Raises `RpcError`."""
    try:
        return msgspec.json.decode(message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as malformed:
        raise RpcError(PARSE_ERROR, f"parse error: {str(malformed)[:200]}") from None


def parsed_part(call: object) -> object:
    """A call of a batch, or why it is none."""
    try:
        return parse_json(call) if isinstance(call, msgspec.Raw) else call
    except RpcError as malformed:
        return malformed


async def split_batch(message: bytes | str) -> Sequence[msgspec.Raw]:
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
