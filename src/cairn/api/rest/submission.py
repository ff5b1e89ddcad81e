"""From the body of POST /tx to a submission: every rule on how its fields are written.

The common case is decoded in one fast, typed pass. Everything else is read slowly, field by field. Only the slow
reading refuses, so there is one set of rules; the fast pass accepts only what the slow one would accept.
"""

import json
import re
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import UNSET

from cairn.api.rest.bodies import SubmissionJson
from cairn.domain.crypto import parse_address
from cairn.domain.errors import InvalidField, MalformedJson
from cairn.domain.json_fields import MAX_AMOUNT_DIGITS, MAX_BATCH, MAX_EXACT_DOUBLE, find_bytes, find_decimal
from cairn.domain.transactions import effective_price, price_terms
from cairn.domain.types import ACCESS_LIST, DYNAMIC_FEE, LEGACY, MAX_UINT64, MAX_UINT256, Address, Draft

SIGNATURE_BYTES = 65

FIELDS = SubmissionJson.__struct_encode_fields__
REQUIRED = ("from", "to", "value", "gas")


class Submission(Draft, frozen=True):
    """The fields of a transaction as sent: each is well-formed, but they are not yet checked together."""

    signature: bytes | None = None


MAX_ITEM_CHARACTERS = 16 * 1024
"""Of an item of POST /txs that is read slowly: more than any transaction has, and little work."""
MOST_PARTS = 1_000
"""Commas and brackets of a transaction that is read slowly: far more than one has, and a fraction of a millisecond."""
MOST_COMMAS = 40 * MAX_BATCH
"""In a batch that is split at once."""

_decode_plain = msgspec.json.Decoder(SubmissionJson).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
# Lenient, because each item is checked later by itself; numbers of any length stay text.
_scan_item = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str, strict=False).raw_decode
_skip_space = re.compile(r"[ \t\n\r]*").match


def parse_submission(body: bytes, base_fee: int) -> Submission:
    """Read the body of POST /tx. Raises `MalformedJson`, `InvalidField`.

    `base_fee` is the chain's gas price, used when the body names none.
    """
    try:
        plain = _decode_plain(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_slowly(body, base_fee)
    return _read_plain(plain, body, base_fee) or _read_slowly(body, base_fee)


def _read_plain(plain: SubmissionJson, body: bytes, base_fee: int) -> Submission | None:
    """The common case: numbers as digits, and the price fields that wallets give for the type. None for any other."""
    value, nonce, signature = plain.value, plain.nonce, plain.signature
    kind, price, max_fee, max_tip = plain.type, plain.gasPrice, plain.maxFeePerGas, plain.maxPriorityFeePerGas
    # Each field has two quotes and each string two more. Any other number means that a field is given twice.
    quotes = 12
    if signature is not UNSET:
        quotes += 4
    if nonce is not UNSET:
        quotes += 2
    if kind is UNSET:
        kind = LEGACY if max_fee is UNSET else DYNAMIC_FEE
    else:
        quotes += 2
    if kind == DYNAMIC_FEE:
        if max_tip is UNSET:
            max_tip = 0
        else:
            quotes += 2
        if price is not UNSET or max_fee.__class__ is not int or max_tip.__class__ is not int:
            return None
        quotes += 2
        price = effective_price(max_fee, max_tip, base_fee)
    else:
        if not (LEGACY <= kind <= ACCESS_LIST and max_fee is UNSET and max_tip is UNSET):
            return None
        max_fee = max_tip = 0
        if price is UNSET:
            price = base_fee
        else:
            quotes += 2
    if (
        body.count(b'"') != quotes
        or value.__class__ is not int
        or price.__class__ is not int
        or not 0 <= value <= MAX_UINT256
        or not 0 <= price <= MAX_UINT256
        or not 0 <= max_fee <= MAX_UINT256
        or not 0 <= max_tip <= MAX_UINT256
        or not 0 <= plain.gas <= MAX_UINT64
        or (nonce is not UNSET and not 0 <= nonce <= MAX_UINT64)
    ):
        return None
    return Submission(
        parse_address(plain.sender, "from"),
        parse_address(plain.to, "to"),
        value,
        plain.gas,
        price,
        None if nonce is UNSET else nonce,
        kind,
        max_fee,
        max_tip,
        None if signature is UNSET else _signature(signature),
    )


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
        return _split_slowly(body, _brief(str(error)))
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


def _read_slowly(body: bytes, base_fee: int) -> Submission:
    fields = _read_object(body)
    for name in REQUIRED:
        if name not in fields:
            raise InvalidField(name, "is missing")

    def amount(name: str) -> int | None:
        return _amount(name, fields[name]) if name in fields else None

    sender, to = _address("from", fields["from"]), _address("to", fields["to"])
    value, gas = _amount("value", fields["value"]), _integer("gas", fields["gas"], MAX_UINT64)
    kind = _type(fields["type"]) if "type" in fields else None
    prices = amount("gasPrice"), amount("maxFeePerGas"), amount("maxPriorityFeePerGas")
    nonce = _integer("nonce", fields["nonce"], MAX_UINT64) if "nonce" in fields else None
    signature = _signature(fields["signature"]) if "signature" in fields else None
    terms = price_terms(kind, *prices, base_fee)
    caps = terms.max_fee, terms.max_tip
    return Submission(sender, to, value, gas, terms.gas_price, nonce, terms.kind, *caps, signature=signature)


def _type(value: object) -> int:
    kind = _integer("type", value, MAX_UINT64)
    if kind > DYNAMIC_FEE:
        raise InvalidField("type", "transaction type not supported: this chain accepts types 0, 1 and 2")
    return kind


def _read_object(body: bytes) -> dict[str, object]:
    """The fields of the body. Raises `InvalidField` for one that is unknown or given twice."""
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
        if name not in FIELDS:
            raise InvalidField(_brief(name), "is not a field of a transaction")
        if name in fields:
            raise InvalidField(name, "is given twice")
        fields[name] = member
    return fields


def _brief(text: str) -> str:
    """What a client sent, safe to quote in an answer."""
    return text[:80].encode("ascii", "backslashreplace").decode()


def _address(field: str, text: object) -> Address:
    if not isinstance(text, str) or isinstance(text, _Number):
        raise InvalidField(field, "expected a string, 0x and 40 hexadecimal digits")
    return parse_address(text, field)


def _signature(text: object) -> bytes:
    signature = find_bytes(text, SIGNATURE_BYTES)
    if signature is None:
        raise InvalidField("signature", "expected a string, 0x and 130 hexadecimal digits: r, s and v")
    return signature


_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")


def _amount(field: str, value: object) -> int:
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
