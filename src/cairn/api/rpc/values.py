"""Errors and values of JSON-RPC: how they are written, and what a parameter must look like.

Codes and wording of the errors are geth's: wallets and libraries search the text for it.
"""

import re
from binascii import unhexlify
from collections.abc import Collection
from typing import Any

import msgspec

from cairn.domain.crypto import parse_address
from cairn.domain.errors import ApiError, Internal, InvalidField, NodeError, Unavailable
from cairn.domain.json_fields import find_bytes, find_decimal, hex_text
from cairn.domain.types import MAX_UINT64, Address, BlockHash

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = InvalidField.rpc_code
INTERNAL_ERROR = Internal.rpc_code
SERVER_ERROR = ApiError.rpc_code
"""geth's code for refusals by a method."""
RESOURCE_UNAVAILABLE = Unavailable.rpc_code
RESPONSE_TOO_LARGE = -32003
LIMIT_EXCEEDED = -32005
_QUANTITY = re.compile(r"0x(0|[1-9a-fA-F][0-9a-fA-F]*)")
_MAX_QUANTITY_TEXT = 2 + 64
MAX_SHOWN = 80
"""Characters of an invalid number that the error quotes: it may have any length."""

TAGS = frozenset({"latest", "earliest", "pending", "safe", "finalized"})


class RpcError(Exception):
    """What a method answers instead of a result."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def refusal(message: str, code: str) -> RpcError:
    """`code` is the error code of the same refusal on REST."""
    return RpcError(SERVER_ERROR, message, {"code": code})


class InvalidParams(RpcError):
    def __init__(self, message: str) -> None:
        super().__init__(INVALID_PARAMS, message)


class MethodNotFound(RpcError):
    def __init__(self, method: str) -> None:
        super().__init__(METHOD_NOT_FOUND, f"the method {method[:80]} does not exist/is not available")


def rpc_error_of(error: NodeError) -> RpcError:
    """The refusal in geth's words; `data` has the error code of REST."""
    if not isinstance(error, ApiError) or isinstance(error, Internal):
        # The reason belongs in the log, not in the answer.
        return RpcError(INTERNAL_ERROR, "internal error: see the node's log")
    message = f"{error.rpc_text}: {error.detail}" if error.rpc_text else error.detail
    return RpcError(error.rpc_code, message, {"code": error.code})


class BlockName(msgspec.Struct, frozen=True):
    """How a call names a block; exactly one of the three is set."""

    tag: str | None = None
    height: int | None = None
    hash: BlockHash | None = None


LATEST = BlockName(tag="latest")

quantity = hex
"""A number as the specification demands it: 0x and hexadecimal digits without leading zeros."""

data = hex_text
"""Bytes as the specification demands them: 0x and two hexadecimal digits for each."""


def parse_quantity(value: object, what: str, maximum: int = MAX_UINT64) -> int:
    if not isinstance(value, str):
        raise InvalidParams(f"{what}: expected a hex quantity in a string")
    if not value.startswith("0x"):
        raise InvalidParams(f"{what}: hex string without 0x prefix")
    if not _QUANTITY.fullmatch(value):
        leads = len(value) > 3 and value[2] == "0" and _QUANTITY.fullmatch("0x1" + value[3:])
        raise InvalidParams(f"{what}: {'hex number with leading zero digits' if leads else 'invalid hex string'}")
    if len(value) > _MAX_QUANTITY_TEXT or int(value, 16) > maximum:
        raise InvalidParams(f"{what}: hex number > {maximum.bit_length()} bits")
    return int(value, 16)


def parse_number(value: object, what: str, maximum: int = MAX_UINT64) -> int:
    """For methods whose callers write a quantity, a plain number, or decimal digits in a string."""
    decimal = find_decimal(value, len(str(maximum)))
    if decimal is not None:
        value = decimal
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= maximum:
            shown = str(value)[:MAX_SHOWN]
            raise InvalidParams(f"{what}: {shown} is not from 0 to 2^{maximum.bit_length()}-1")
        return value
    return parse_quantity(value, what, maximum)


def parse_data(value: object, what: str) -> bytes:
    if not isinstance(value, str):
        raise InvalidParams(f"{what}: expected hex bytes in a string")
    if not value.startswith("0x"):
        raise InvalidParams(f"{what}: hex string without 0x prefix")
    try:
        # Not `bytes.fromhex`, which skips white space.
        return unhexlify(value[2:])
    except ValueError:
        why = "hex string of odd length" if len(value) % 2 else "invalid hex string"
        raise InvalidParams(f"{what}: {why}") from None


def parse_hash(value: object, what: str) -> bytes:
    found = find_bytes(value, 32)
    if found is None:
        raise InvalidParams(f"{what}: expected a hash, 0x and 64 hexadecimal digits")
    return found


def parse_account(value: object, what: str) -> Address:
    if not isinstance(value, str):
        raise InvalidParams(f"{what}: expected an address in a string")
    try:
        return parse_address(value, what)
    except InvalidField as invalid:
        raise InvalidParams(invalid.detail) from None


def parse_flag(value: object, what: str) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool):
        raise InvalidParams(f"{what}: expected true or false")
    return value


def parse_fields(value: object, what: str, known: Collection[str] | None = None) -> dict[str, Any]:
    """The fields of an object without those that are null. A missing object has none."""
    if not isinstance(value, dict | None):
        raise InvalidParams(f"{what}: expected an object")
    fields = {name: member for name, member in (value or {}).items() if member is not None}
    for name in fields:
        if known is not None and name not in known:
            raise InvalidParams(f"{what}: {name[:80]!a} is not a field of a {what}")
    return fields


def parse_list(fields: dict[str, Any], name: str) -> list[Any]:
    """One of the fields; an empty list when it is not there."""
    value = fields.get(name, [])
    if not isinstance(value, list):
        raise InvalidParams(f"{name}: expected a list")
    return value


def parse_block_number(value: object, what: str) -> BlockName:
    """A number or a tag."""
    if isinstance(value, str) and value in TAGS:
        return BlockName(tag=value)
    return BlockName(height=parse_quantity(value, what))


def parse_block(value: object, what: str) -> BlockName:
    """A number, a tag, a hash, or an object that names one of them (EIP-1898). None means the latest."""
    if value is None:
        return LATEST
    if isinstance(value, str) and len(value) == len("0x") + 64:
        return BlockName(hash=BlockHash(parse_hash(value, what)))
    if not isinstance(value, dict):
        return parse_block_number(value, what)
    number, block_hash = value.get("blockNumber"), value.get("blockHash")
    if (number is None) == (block_hash is None):
        raise InvalidParams(f"{what}: give either blockNumber or blockHash")
    if block_hash is not None:
        return BlockName(hash=BlockHash(parse_hash(block_hash, f"{what}: blockHash")))
    return parse_block_number(number, f"{what}: blockNumber")
