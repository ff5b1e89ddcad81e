"""The messages of `/events`: what the node sends, and what a client may send or write in the URL."""

import json
from collections import Counter
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, Meta, UnsetType

from cairn.api.bodies import FORMS, Form, problem_of
from cairn.api.parameters import amounts_of, find_number, parse_hash
from cairn.domain.answers import NewBlock, Outcome, Payment, TxQueued
from cairn.domain.crypto import parse_address
from cairn.domain.errors import (
    BlockNotKept,
    FollowLimit,
    InvalidField,
    InvalidHash,
    InvalidQuery,
    MalformedJson,
    NodeError,
    ShuttingDown,
    Starting,
    StoreUnavailable,
    UnsupportedMediaType,
)
from cairn.domain.json_fields import ANY_ADDRESS, ANY_HASH, AnyAddressText, AnyHashText, HashText, about, find_integer
from cairn.domain.types import MAX_UINT64, Address, TxHash

RequestId = str | int | float
GivenId = Annotated[
    RequestId | UnsetType, about("Chosen by the client, and returned in the answer.", type=["string", "number"])
]

FromHeight = Annotated[
    int | UnsetType,
    about(
        "Replay from this height, which may be in the future. If left out, only new blocks are sent.",
        minimum=0,
        maximum=MAX_UINT64,
    ),
]
SomeAddresses = Annotated[list[AnyAddressText], Meta(min_length=1)]
Followed = Annotated[int, about("How many addresses this socket follows now.", minimum=0)]
ERRORS = (
    MalformedJson,
    InvalidField,
    InvalidHash,
    BlockNotKept,
    UnsupportedMediaType,
    FollowLimit,
    Starting,
    ShuttingDown,
    StoreUnavailable,
)
"""What a message can be answered with."""

_encode = msgspec.json.Encoder().encode


# What the node sends.


class SubscribedMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="event", tag="subscribed"):
    """The subscription has begun. Its events come after this message."""


class BlocksSubscribed(SubscribedMessage, frozen=True, kw_only=True):
    subscription: Literal["newBlock"] = "newBlock"
    from_height: Annotated[int, about("The first height whose event this socket gets.", minimum=0, maximum=MAX_UINT64)]
    id: GivenId = UNSET


class TxSubscribed(SubscribedMessage, frozen=True, kw_only=True):
    subscription: Literal["txConfirmed"] = "txConfirmed"
    tx_hash: HashText
    id: GivenId = UNSET


class PaymentsSubscribed(SubscribedMessage, frozen=True, kw_only=True):
    subscription: Literal["payment"] = "payment"
    from_height: Annotated[
        int,
        about("The first height whose payments of these addresses this socket gets.", minimum=0, maximum=MAX_UINT64),
    ]
    followed: Followed
    id: GivenId = UNSET


class UnsubscribedMessage(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="event", tag="unsubscribed"
):
    """The subscription has ended. No event of it comes after this message."""


class BlocksUnsubscribed(UnsubscribedMessage, frozen=True, kw_only=True):
    subscription: Literal["newBlock"] = "newBlock"
    id: GivenId = UNSET


class TxUnsubscribed(UnsubscribedMessage, frozen=True, kw_only=True):
    subscription: Literal["txConfirmed"] = "txConfirmed"
    tx_hash: HashText
    id: GivenId = UNSET


class PaymentsUnsubscribed(UnsubscribedMessage, frozen=True, kw_only=True):
    subscription: Literal["payment"] = "payment"
    followed: Followed
    id: GivenId = UNSET


class ErrorMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="error"):
    """The message was refused, and nothing has changed. It has the fields of a problem (RFC 9457)."""

    type: Annotated[str, Meta(extra_json_schema={"format": "uri"})]
    title: str
    status: Annotated[int, Meta(ge=400, le=599)]
    detail: str
    code: Annotated[str, Meta(extra_json_schema={"enum": [error.code for error in ERRORS]})]
    field: Annotated[str | None, about("The field that INVALID_FIELD is about.")] = None
    id: GivenId = UNSET


ServerMessage = NewBlock | Outcome | TxQueued | Payment | SubscribedMessage | UnsubscribedMessage | ErrorMessage


def error_message(refused: NodeError, request_id: RequestId | UnsetType = UNSET) -> ErrorMessage:
    problem = problem_of(refused)
    return ErrorMessage(
        type=problem.type,
        title=problem.title,
        status=problem.status,
        detail=problem.detail,
        code=problem.code,
        field=problem.field,
        id=request_id,
    )


def encode_frame(message: ServerMessage) -> bytes:
    """The whole frame, which any number of sockets can share."""
    return text_frame(_encode(message))


def text_frame(payload: bytes) -> bytes:
    """Unmasked and not compressed, like every frame that a node sends."""
    return text_frame_head(len(payload)) + payload


def text_frame_head(size: int) -> bytes:
    """What is before a payload of so many bytes: a whole text (0x81), then the size in 7, 16 or 64 bits (RFC 6455)."""
    if size < 126:
        return bytes((0x81, size))
    if size < 1 << 16:
        return b"\x81\x7e" + size.to_bytes(2, "big")
    return b"\x81\x7f" + size.to_bytes(8, "big")


# What a client sends.


class SubscribeBlocks(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="event", tag="newBlock"):
    """Subscribe to new blocks. Sent again with another fromHeight, the events continue from there."""

    action: Literal["subscribe"] = "subscribe"
    from_height: FromHeight = UNSET
    id: GivenId = UNSET


class UnsubscribeBlocks(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="newBlock"):
    """End the subscription to new blocks."""

    action: Literal["unsubscribe"] = "unsubscribe"
    id: GivenId = UNSET


class FollowTransaction(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="event", tag="txConfirmed"
):
    """Follow one transaction until it is confirmed or dropped. The node need not know it yet. A socket follows at most
    1,000 at once, unless configured otherwise; one more is answered with the error FOLLOW_LIMIT.
    """

    action: Literal["subscribe"] = "subscribe"
    tx_hash: AnyHashText
    queued: Annotated[
        bool | UnsetType, about("If true, `txQueued` comes once if the transaction is queued now, and says why.")
    ] = UNSET
    id: GivenId = UNSET


class UnfollowTransaction(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="event", tag="txConfirmed"
):
    """Stop following one transaction."""

    action: Literal["unsubscribe"] = "unsubscribe"
    tx_hash: AnyHashText
    id: GivenId = UNSET


class FollowAddresses(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="event", tag="payment"):
    """Follow the payments of these addresses, beside those of the addresses that the socket follows already. A socket
    follows at most 10,000, unless configured otherwise; more are answered with the error FOLLOW_LIMIT.
    """

    action: Literal["subscribe"] = "subscribe"
    addresses: SomeAddresses
    from_height: Annotated[
        int | UnsetType,
        about(
            "The payments of all addresses of the socket continue from this height, which may be in the future. If "
            "left out, those of the added ones begin where the socket is; at first, with new blocks.",
            minimum=0,
            maximum=MAX_UINT64,
        ),
    ] = UNSET
    id: GivenId = UNSET


class UnfollowAddresses(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="payment"):
    """Stop following these addresses, or all if none are given."""

    action: Literal["unsubscribe"] = "unsubscribe"
    addresses: SomeAddresses | UnsetType = UNSET
    id: GivenId = UNSET


Subscription = SubscribeBlocks | FollowTransaction | FollowAddresses
Command = Subscription | UnsubscribeBlocks | UnfollowTransaction | UnfollowAddresses

COMMANDS: dict[tuple[str, str], type[Command]] = {
    ("subscribe", "newBlock"): SubscribeBlocks,
    ("unsubscribe", "newBlock"): UnsubscribeBlocks,
    ("subscribe", "txConfirmed"): FollowTransaction,
    ("unsubscribe", "txConfirmed"): UnfollowTransaction,
    ("subscribe", "payment"): FollowAddresses,
    ("unsubscribe", "payment"): UnfollowAddresses,
}


class EventsQuery(msgspec.Struct, kw_only=True):
    """The parameters of the URL, for the AsyncAPI document."""

    newBlock: Annotated[Literal["", "true"] | UnsetType, about("If present, subscribes to new blocks.")] = UNSET
    fromHeight: FromHeight = UNSET
    txConfirmed: Annotated[
        str | UnsetType, about("Follow this transaction. May be given several times.", pattern=ANY_HASH)
    ] = UNSET
    payment: Annotated[
        str | UnsetType,
        about("Follow the payments of this address. May be given several times.", pattern=ANY_ADDRESS),
    ] = UNSET
    amounts: Annotated[str | UnsetType, about("How amounts are written, as on REST.", enum=list(FORMS))] = UNSET


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
    # Each field has a colon. As many colons as fields that were read means that none is given twice.
    if text.count(":") == len(message):
        return None
    given = Counter(name for name, _ in json.loads(text, object_pairs_hook=list))
    return next((name for name, times in given.items() if times > 1), None)


def id_of(message: dict[str, Any]) -> RequestId | UnsetType:
    """The id that the client gave its request. Raises `InvalidField` unless it is a string or a number."""
    if "id" not in message:
        return UNSET
    given = message["id"]
    # A bool is an int to Python, but not to JSON.
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise InvalidField("id", "must be a string or a number")
    return given


def parse_command(message: dict[str, Any]) -> Command:
    """The command in the message. Raises `InvalidField` or `InvalidHash`."""
    action = _one_of(message, "action", "subscribe", "unsubscribe")
    event = _one_of(message, "event", "newBlock", "txConfirmed", "payment")
    command = COMMANDS[action, event]
    for name in message:
        if name != "event" and name not in command.__struct_encode_fields__:
            raise InvalidField(name[:80], f"is not a field of {action} {event}")
    if event == "txConfirmed":
        if "txHash" not in message:
            raise InvalidField("txHash", "is missing")
        parse_tx_hash(message["txHash"])
    if not isinstance(message.get("queued", False), bool):
        raise InvalidField("queued", "must be true or false")
    if command is FollowAddresses and "addresses" not in message:
        raise InvalidField("addresses", "is missing")
    if "addresses" in message:
        parse_addresses(message["addresses"])
    if "fromHeight" in message:
        message = message | {"fromHeight": parse_height(message["fromHeight"])}
    return msgspec.convert(message, command)


def _one_of(message: dict[str, Any], name: str, *choices: str) -> str:
    if name not in message:
        raise InvalidField(name, "is missing")
    if message[name] not in choices:
        raise InvalidField(name, "must be " + " or ".join(f'"{choice}"' for choice in choices))
    return str(message[name])


def parse_height(given: object) -> int:
    """A height in JSON; 10.0 is the integer 10, as in JSON Schema. Raises `InvalidField`."""
    height = find_integer(given)
    if height is None or not 0 <= height <= MAX_UINT64:
        raise InvalidField("fromHeight", "must be an integer from 0 to 2^64-1")
    return height


def parse_tx_hash(given: object) -> TxHash:
    """A transaction hash in a message or in the URL. Raises `InvalidHash`."""
    if not isinstance(given, str):
        raise InvalidHash("a transaction hash is a string")
    return TxHash(parse_hash(given, "transaction"))


def parse_addresses(given: object) -> list[Address]:
    """The addresses in a message. Raises `InvalidField`."""
    if not isinstance(given, list) or not given:
        raise InvalidField("addresses", "must be a list of at least one address")
    return [_parse_address(text) for text in given]


def _parse_address(given: object) -> Address:
    if not isinstance(given, str):
        raise InvalidField("addresses", "an address is a string")
    return parse_address(given, "addresses")


def parse_amounts(query_string: bytes) -> Form:
    """How the events of a socket with this URL write amounts. Raises `InvalidQuery`."""
    return amounts_of(dict(_pairs_of(query_string)))


def parse_subscriptions(query_string: bytes) -> list[Subscription]:
    """The subscriptions on the URL, in their order. Raises `InvalidQuery` or `InvalidHash`."""
    wants_blocks = False
    from_height: int | UnsetType = UNSET
    followed: list[Subscription] = []
    addresses: list[str] = []
    for name, value in _pairs_of(query_string):
        if name == "newBlock":
            if value not in ("", "true"):
                raise InvalidQuery("newBlock takes no value")
            wants_blocks = True
        elif name == "fromHeight":
            if from_height is not UNSET:
                raise InvalidQuery("fromHeight is given twice")
            from_height = _query_height(value)
        elif name == "txConfirmed":
            parse_tx_hash(value)
            followed.append(FollowTransaction(tx_hash=value))
        elif name == "payment":
            addresses.append(_query_address(value))
        elif name == "amounts":
            amounts_of({name: value})
        else:
            known = ", ".join(EventsQuery.__struct_fields__)
            raise InvalidQuery(f"{name[:80]!a} is not a parameter of this path; known: {known}")
    if from_height is not UNSET and not wants_blocks and not addresses:
        raise InvalidQuery("fromHeight needs newBlock or payment")
    # Blocks first: what is said of a block then comes after its newBlock.
    subscriptions: list[Subscription] = [SubscribeBlocks(from_height=from_height)] if wants_blocks else []
    if addresses:
        subscriptions.append(FollowAddresses(addresses=addresses, from_height=from_height))
    return subscriptions + followed


def _pairs_of(query_string: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise InvalidQuery("the query string cannot be read") from None


def _query_address(text: str) -> str:
    try:
        parse_address(text, "payment")
    except InvalidField as invalid:
        raise InvalidQuery(invalid.detail) from None
    return text


def _query_height(text: str) -> int:
    height = find_number(text)
    if height is None or height > MAX_UINT64:
        raise InvalidQuery("fromHeight must be an integer from 0 to 2^64-1")
    return height
