"""What a client may ask for on `/events`: by message, or on the URL before the upgrade."""

import json
from collections import Counter
from typing import Any, Literal
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, UnsetType

from cairn.api.amount_forms import amounts_of
from cairn.api.events.messages import RequestId
from cairn.api.rest.parameters import find_number, parse_hash
from cairn.api.rest.submission import MAX_EXACT_DOUBLE
from cairn.domain.errors import InvalidField, InvalidHash, InvalidQuery, MalformedJson
from cairn.domain.types import MAX_UINT64, TxHash


class Blocks(msgspec.Struct, frozen=True):
    """Every new block; from `from_height` on, when it is given."""

    from_height: int | None = None


class Confirmation(msgspec.Struct, frozen=True):
    """What becomes of one transaction."""

    tx_hash: TxHash


Target = Blocks | Confirmation


class Command(msgspec.Struct, frozen=True):
    action: Literal["subscribe", "unsubscribe"]
    target: Target


def decode_message(text: str) -> dict[str, Any]:
    """The JSON object in `text`. Raises `MalformedJson` or `InvalidField`."""
    try:
        message = msgspec.json.decode(text)
        doubled = _find_doubled(text, message) if isinstance(message, dict) else None
    except (ValueError, RecursionError) as malformed:
        raise MalformedJson(f"the message is not JSON: {malformed}") from malformed
    if not isinstance(message, dict):
        raise InvalidField("message", "expected a JSON object")
    if doubled is not None:
        raise InvalidField(doubled[:80], "is given twice")
    return message


def _find_doubled(text: str, message: dict[str, Any]) -> str | None:
    """The name of a field that `text` gives twice: `message` has only the last of them."""
    # Each field as written brings a colon, so that with one for each that was read there can be no other.
    if text.count(":") == len(message):
        return None
    given = Counter(name for name, _ in json.loads(text, object_pairs_hook=list))
    return next((name for name, times in given.items() if times > 1), None)


def id_of(message: dict[str, Any]) -> RequestId | UnsetType:
    """The client's own name for its request. Raises `InvalidField` when it is no string and no number."""
    if "id" not in message:
        return UNSET
    given = message["id"]
    # A bool is an int to Python, but not to JSON.
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise InvalidField("id", "must be a string or a number")
    return given


def parse_command(message: dict[str, Any]) -> Command:
    """What the message asks for. Raises `InvalidField` or `InvalidHash`."""
    action = _one_of(message, "action", "subscribe", "unsubscribe")
    event = _one_of(message, "event", "newBlock", "txConfirmed")
    extra = "txHash" if event == "txConfirmed" else "fromHeight" if action == "subscribe" else ""
    for name in message:
        if name not in ("action", "event", "id", extra):
            raise InvalidField(name[:80], f"is not a field of {action} {event}")
    target: Target
    if event == "newBlock":
        target = Blocks(parse_height(message["fromHeight"]) if "fromHeight" in message else None)
    elif "txHash" not in message:
        raise InvalidField("txHash", "is missing")
    else:
        target = Confirmation(parse_tx_hash(message["txHash"]))
    return Command("unsubscribe" if action == "unsubscribe" else "subscribe", target)


def _one_of(message: dict[str, Any], name: str, *choices: str) -> str:
    if name not in message:
        raise InvalidField(name, "is missing")
    if message[name] not in choices:
        raise InvalidField(name, "must be " + " or ".join(f'"{choice}"' for choice in choices))
    return str(message[name])


def parse_height(given: object) -> int:
    """A height in JSON; 10.0 is the integer 10, as JSON Schema has it. Raises `InvalidField`."""
    if isinstance(given, float) and given.is_integer() and abs(given) <= MAX_EXACT_DOUBLE:
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MAX_UINT64:
        raise InvalidField("fromHeight", "must be an integer from 0 to 2^64-1")
    return given


def parse_tx_hash(given: object) -> TxHash:
    """Raises `InvalidHash`."""
    if not isinstance(given, str):
        raise InvalidHash("a transaction hash is a string")
    return TxHash(parse_hash(given, "transaction"))


def parse_targets(query_string: bytes) -> list[Target]:
    """The subscriptions on the URL, in their order. Raises `InvalidQuery` or `InvalidHash`."""
    wants_blocks = False
    from_height: int | None = None
    followed: list[Target] = []
    try:
        pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise InvalidQuery("the query string cannot be read") from None
    for name, value in pairs:
        if name == "newBlock":
            if value not in ("", "true"):
                raise InvalidQuery("newBlock takes no value")
            wants_blocks = True
        elif name == "fromHeight":
            if from_height is not None:
                raise InvalidQuery("fromHeight is given twice")
            from_height = _query_height(value)
        elif name == "txConfirmed":
            followed.append(Confirmation(parse_tx_hash(value)))
        elif name == "amounts":
            # No event holds an amount, but a client may ask for all that it reads in one form.
            amounts_of({name: value})
        else:
            raise InvalidQuery(
                f"{name[:80]!a} is not a parameter of this path; known: newBlock, fromHeight, txConfirmed, amounts"
            )
    if from_height is not None and not wants_blocks:
        raise InvalidQuery("fromHeight needs newBlock beside it")
    # Blocks come first: a followed transaction that the replay passes is then told after its block.
    return [Blocks(from_height), *followed] if wants_blocks else followed


def _query_height(text: str) -> int:
    height = find_number(text)
    if height is None or height > MAX_UINT64:
        raise InvalidQuery("fromHeight is an integer from 0 to 2^64-1")
    return height
