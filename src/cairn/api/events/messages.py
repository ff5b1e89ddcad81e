"""The messages that the node sends on `/events`, and their WebSocket frames."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from websockets.frames import Frame, Opcode

from cairn.api.bodies import problem_of
from cairn.domain.answers import NewBlock, Outcome
from cairn.domain.errors import (
    BlockNotKept,
    FollowLimit,
    InvalidField,
    InvalidHash,
    MalformedJson,
    NodeError,
    ShuttingDown,
    Starting,
    StoreUnavailable,
    UnsupportedMediaType,
)
from cairn.domain.json_fields import HashText, about
from cairn.domain.types import MAX_UINT64

_encoder = msgspec.json.Encoder()

RequestId = str | int | float
GivenId = Annotated[
    RequestId | UnsetType, about("Chosen by the client, and returned in the answer.", type=["string", "number"])
]


class Subscribed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="event", tag="subscribed"):
    """The subscription has begun. Its events come after this message."""


class BlocksSubscribed(Subscribed, frozen=True, kw_only=True):
    subscription: Literal["newBlock"] = "newBlock"
    from_height: Annotated[int, about("The first height whose event this socket gets.", minimum=0, maximum=MAX_UINT64)]
    id: GivenId = UNSET


class TxSubscribed(Subscribed, frozen=True, kw_only=True):
    subscription: Literal["txConfirmed"] = "txConfirmed"
    tx_hash: HashText
    id: GivenId = UNSET


class Unsubscribed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="event", tag="unsubscribed"):
    """The subscription has ended. No event of it comes after this message."""


class BlocksUnsubscribed(Unsubscribed, frozen=True, kw_only=True):
    subscription: Literal["newBlock"] = "newBlock"
    id: GivenId = UNSET


class TxUnsubscribed(Unsubscribed, frozen=True, kw_only=True):
    subscription: Literal["txConfirmed"] = "txConfirmed"
    tx_hash: HashText
    id: GivenId = UNSET


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


class ErrorMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag="error"):
    """The message was refused, and nothing has changed. It has the fields of a problem (RFC 9457)."""

    type: Annotated[str, Meta(extra_json_schema={"format": "uri"})]
    title: str
    status: Annotated[int, Meta(ge=400, le=599)]
    detail: str
    code: Annotated[str, Meta(extra_json_schema={"enum": [error.code for error in ERRORS]})]
    field: Annotated[str | None, about("The field that INVALID_FIELD is about.")] = None
    id: GivenId = UNSET


ServerMessage = NewBlock | Outcome | Subscribed | Unsubscribed | ErrorMessage


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
    """The whole frame, which any number of sockets can share: unmasked and never compressed."""
    return Frame(Opcode.TEXT, _encoder.encode(message)).serialize(mask=False)
