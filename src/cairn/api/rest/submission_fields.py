"""The fields of a transaction in the body of POST /tx: every rule on how they may be written.

`parse_submission` reads the common case faster. It accepts only what `read_fields` would accept and leaves every other
body to it, so there is one set of rules.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from cairn.domain.crypto import parse_address
from cairn.domain.errors import InvalidField, MalformedJson
from cairn.domain.json_fields import (
    MAX_AMOUNT_DIGITS,
    MAX_BATCH,
    MAX_EXACT_DOUBLE,
    REFERENCE,
    REFERENCE_FORMAT,
    AnyAddressText,
    TxType,
    about,
    find_bytes,
    find_data,
    find_decimal,
    hex_bytes,
    integer,
    ref,
    wei,
)
from cairn.domain.references import data_of
from cairn.domain.transactions import price_terms
from cairn.domain.types import DYNAMIC_FEE, MAX_DATA_BYTES, MAX_UINT64, MAX_UINT256, TRANSFER_GAS, Address, Draft

SIGNATURE_BYTES = 65

MAX_ITEM_CHARACTERS = 16 * 1024
"""Of an item of POST /txs that is read slowly: more than any transaction has, and little work."""
MOST_PARTS = 1_000
"""Commas and brackets of a transaction that is read slowly: far more than one has, and a fraction of a millisecond."""
MOST_COMMAS = 40 * MAX_BATCH
"""In a batch that is split at once."""

_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
# Lenient, because each item is checked later by itself; numbers of any length stay text.
_scan_item = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str, strict=False).raw_decode
_skip_space = re.compile(r"[ \t\n\r]*").match
_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")


class SubmissionJson(msgspec.Struct, forbid_unknown_fields=True, gc=False, rename={"sender": "from"}):
    """A transaction to submit."""

    sender: AnyAddressText
    to: AnyAddressText
    value: Annotated[int | str, wei("Wei to transfer.")]
    gas: Annotated[
        int,
        integer(
            f"Gas limit. A transfer uses {TRANSFER_GAS}, and for data 16 a byte, 4 a zero byte; a higher limit is "
            "accepted and not charged."
        ),
    ]
    nonce: Annotated[
        int | UnsetType, integer("Number of the transaction among its sender's. If left out, the sender's next nonce.")
    ] = UNSET
    gasPrice: Annotated[int | str | UnsetType, wei("Wei per unit of gas. If left out, the chain's gas price.")] = UNSET
    signature: Annotated[
        str | UnsetType,
        hex_bytes(65, "The sender's signature: r (32 bytes), s (32 bytes, in the lower half: EIP-2), v (0, 1, 27 or "
                  "28). It covers the transaction with its data and an empty access list.", "0-9a-fA-F"),
    ] = UNSET  # fmt: skip
    type: TxType | UnsetType = UNSET
    maxFeePerGas: Annotated[
        int | str | UnsetType,
        wei("Type 2 only, instead of gasPrice: the most that it pays per unit of gas, in wei. If left out, the chain's "
            "gasPrice plus the tip."),
    ] = UNSET  # fmt: skip
    maxPriorityFeePerGas: Annotated[
        int | str | UnsetType,
        wei("Type 2 only, instead of gasPrice: the tip per unit of gas, in wei. If left out, 0."),
    ] = UNSET
    data: Annotated[
        str | UnsetType,
        about(
            "What the payment is for, in bytes: 0x and hexadecimal digits, at most the chain's maxDataBytes. Everybody "
            "can read it forever: no personal data.",
            pattern=f"^0x([0-9a-fA-F]{{2}}){{0,{MAX_DATA_BYTES}}}$",
        ),
    ] = UNSET
    reference: Annotated[
        str | UnsetType,
        about(
            "Instead of `data`: the same as printable text, in UTF-8.",
            minLength=1,
            maxLength=MAX_DATA_BYTES,
            examples=[REFERENCE],
            # A pattern cannot express which characters are printable, nor how many bytes they have.
            format=REFERENCE_FORMAT,
        ),
    ] = UNSET


SubmissionBatch = Annotated[
    list[SubmissionJson],
    Meta(
        title="SubmissionBatch",
        description="An item that is not a valid submission gets an error in its place; the others are served.",
        max_length=MAX_BATCH,
    ),
]
BatchAnswer = Annotated[Any, Meta(title="BatchAnswer", extra_json_schema={"oneOf": [ref("Submitted"), ref("Problem")]})]
BatchResult = Annotated[list[BatchAnswer], Meta(title="BatchResult", max_length=MAX_BATCH)]

FIELDS = SubmissionJson.__struct_encode_fields__
REQUIRED = ("from", "to", "value", "gas")


def split_batch(body: bytes) -> Iterable[bytes]:
    """The items of POST /txs, not yet parsed. Raises `MalformedJson`, `InvalidField`, perhaps as late as the last."""
    # Not counted to the end: a million of them would take too long.
    if len(body.split(b",", MOST_COMMAS + 1)) > MOST_COMMAS + 1:
        # It cannot be what it should be, and a million items would take too long at once.
        return _split_slowly(body, "it has too many parts")
    try:
        items = _decode_items(body)
    except msgspec.ValidationError:
        raise InvalidField("body", "expected a JSON array of transactions") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _split_slowly(body, brief(str(error)))
    if len(items) > MAX_BATCH:
        raise InvalidField("body", f"has {len(items)} transactions; at most {MAX_BATCH} are allowed")
    return [bytes(item) for item in items]


def _past_space(text: str, at: int) -> int:
    space = _skip_space(text, at)
    return at if space is None else space.end()


def _split_slowly(body: bytes, reason: str) -> Iterator[bytes]:
    """Split an array in which an item is malformed (NaN, invalid UTF-8): the other items are still served."""
    # Invalid UTF-8 is passed through: only the item that has it is refused.
    text = body.decode(errors="surrogateescape")
    count, at, separator = 0, _past_space(text, 0), "["
    while text[at : at + 1] == separator:
        start = _past_space(text, at + 1)
        # No transaction is longer, and whatever else is there is not read: that would take too long.
        shown = text[start : start + MAX_ITEM_CHARACTERS]
        try:
            end = _scan_item(shown)[1]
        except (json.JSONDecodeError, RecursionError):
            raise MalformedJson(f"the body is not JSON: {reason}") from None
        yield shown[:end].encode(errors="surrogateescape")
        count += 1
        if count > MAX_BATCH:
            raise InvalidField("body", f"has more than {MAX_BATCH} transactions")
        at, separator = _past_space(text, start + end), ","
    if not count or text[at : at + 1] != "]" or _past_space(text, at + 1) != len(text):
        raise MalformedJson(f"the body is not JSON: {reason}")


class _Number(str):
    """A number as it was written: a double would already have rounded it."""


class _Object(list[tuple[str, object]]):
    """The members of a JSON object in their order, a repeated one included."""


def read_fields(body: bytes, base_fee: int) -> tuple[Draft, bytes | None]:
    """The transaction in the body, and its signature if it has one. Raises `MalformedJson`, `InvalidField`.

    `base_fee` is the chain's gas price, used when the body names none.
    """
    fields = read_object(body, FIELDS, "is not a field of a transaction")
    for name in REQUIRED:
        if name not in fields:
            raise InvalidField(name, "is missing")

    def amount(name: str) -> int | None:
        return read_amount(name, fields[name]) if name in fields else None

    sender, to = read_address("from", fields["from"]), read_address("to", fields["to"])
    value, gas = read_amount("value", fields["value"]), _integer("gas", fields["gas"], MAX_UINT64)
    kind = _type(fields["type"]) if "type" in fields else None
    prices = amount("gasPrice"), amount("maxFeePerGas"), amount("maxPriorityFeePerGas")
    nonce = _integer("nonce", fields["nonce"], MAX_UINT64) if "nonce" in fields else None
    data = read_data(fields.get("data", UNSET), fields.get("reference", UNSET))
    signature = _signature(fields["signature"]) if "signature" in fields else None
    terms = price_terms(kind, *prices, base_fee)
    caps = terms.max_fee, terms.max_tip
    return Draft(sender, to, value, gas, terms.gas_price, nonce, terms.kind, *caps, data), signature


def read_data(data: object, reference: object) -> bytes:
    """The bytes of either field; empty if neither is given. Raises `InvalidField`."""
    if reference is UNSET:
        found = b"" if data is UNSET else find_data(data)
        if found is None:
            raise InvalidField("data", "expected a string, 0x and two hexadecimal digits for each byte")
        return found
    if data is not UNSET:
        raise InvalidField("reference", "is the text of data: give one of the two, not both")
    if not isinstance(reference, str) or isinstance(reference, _Number):
        raise InvalidField("reference", "expected a string")
    return data_of(reference)


def _type(value: object) -> int:
    kind = _integer("type", value, MAX_UINT64)
    if kind > DYNAMIC_FEE:
        raise InvalidField("type", "transaction type not supported: this chain accepts types 0, 1 and 2")
    return kind


def read_object(body: bytes, known: Collection[str], if_unknown: str) -> dict[str, object]:
    """The fields of the body, for the functions below. Raises `InvalidField` for one that is unknown or given twice."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") > MOST_PARTS:
        raise MalformedJson("the body has more parts than a transaction")
    try:
        value = json.loads(
            body.decode(), object_pairs_hook=_Object, parse_int=_Number, parse_float=_Number, parse_constant=_Number
        )
    except UnicodeDecodeError:
        raise MalformedJson("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise MalformedJson(f"the body is not JSON: {error.msg} at byte {error.pos}") from None
    except RecursionError:
        raise MalformedJson("the body is nested too deeply") from None
    if not isinstance(value, _Object):
        raise InvalidField("body", "expected a JSON object")
    fields: dict[str, object] = {}
    for name, member in value:
        if name not in known:
            raise InvalidField(brief(name), if_unknown)
        if name in fields:
            raise InvalidField(name, "is given twice")
        fields[name] = member
    return fields


def brief(text: str) -> str:
    """What a client sent, safe to quote in an answer."""
    return text[:80].encode("ascii", "backslashreplace").decode()


def read_address(field: str, text: object) -> Address:
    if not isinstance(text, str) or isinstance(text, _Number):
        raise InvalidField(field, "expected a string, 0x and 40 hexadecimal digits")
    return parse_address(text, field)


def _signature(text: object) -> bytes:
    signature = find_bytes(text, SIGNATURE_BYTES)
    if signature is None:
        raise InvalidField("signature", "expected a string, 0x and 130 hexadecimal digits: r, s and v")
    return signature


def read_amount(field: str, value: object) -> int:
    """A number, or a string of decimal digits for clients that read numbers as doubles."""
    if isinstance(value, str) and not isinstance(value, _Number):
        decimal = find_decimal(value)
        if decimal is None:
            raise InvalidField(field, "a string must be an amount in decimal digits")
        return _at_most(field, decimal, MAX_UINT256)
    return _integer(field, value, MAX_UINT256)


def _integer(field: str, value: object, maximum: int) -> int:
    written = _NUMBER.fullmatch(value) if isinstance(value, _Number) else None
    if written is None:
        raise InvalidField(field, "expected an integer")
    sign, whole, fraction, exponent = written.groups()
    if fraction is None and exponent is None:
        digits = whole.lstrip("0") or "0"
        if len(digits) > MAX_AMOUNT_DIGITS:
            raise InvalidField(field, "is too large")
        number = int(digits)
    else:
        number = _exact_double(field, whole, fraction or "", exponent or "0")
    if sign and number:
        raise InvalidField(field, "must not be negative")
    return _at_most(field, number, maximum)


def _exact_double(field: str, whole: str, fraction: str, exponent: str) -> int:
    """The value of a number with a fraction or an exponent, if a double holds it exactly."""
    digits = (whole + fraction).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return 0
    # Never compute with huge exponents.
    shift = int(exponent) if len(exponent) < 8 else (-(10**8) if exponent[0] == "-" else 10**8)
    shift += len(digits) - len(significant) - len(fraction)
    if shift < 0:
        raise InvalidField(field, "must be a whole number")
    number = int(significant + "0" * shift) if len(significant) + shift <= 16 else MAX_EXACT_DOUBLE + 1
    if number > MAX_EXACT_DOUBLE:
        raise InvalidField(field, "is above 2^53 and has a fraction or an exponent: write all digits")
    return number


def _at_most(field: str, number: int, maximum: int) -> int:
    if number > maximum:
        raise InvalidField(field, f"is above 2^{maximum.bit_length()}-1")
    return number
