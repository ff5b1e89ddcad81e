"""What the node says on `/events`, message by message, and the WebSocket frames that carry it."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType
from websockets.frames import Frame, Opcode

from cairn.domain.types import DropReason

RequestId = str | int | float
"""Chosen by the client, given back in the answer; the node makes nothing of it."""
Subscription = Literal["newBlock", "txConfirmed"]


class NewBlock(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="newBlock"):
    block_height: int
    hash: str


class TxConfirmed(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="txConfirmed"):
    tx_hash: str
    block_height: int


class TxDropped(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag="txDropped"):
    tx_hash: str
    reason: DropReason


class Subscribed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="event", tag="subscribed"):
    subscription: Subscription
    from_height: int | UnsetType = UNSET
    """The first height whose newBlock this socket gets: none from there on is left out."""
    tx_hash: str | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class Unsubscribed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="event", tag="unsubscribed"):
    subscription: Subscription
    tx_hash: str | UnsetType = UNSET
    id: RequestId | UnsetType = UNSET


class ErrorMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="error"):
    """A problem's fields [RFC 9457]. The socket stays open."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    field: str | UnsetType = UNSET
    """The field that INVALID_FIELD is about."""
    id: RequestId | UnsetType = UNSET


ServerMessage = NewBlock | TxConfirmed | TxDropped | Subscribed | Unsubscribed | ErrorMessage

_encoder = msgspec.json.Encoder()


def encode_frame(message: ServerMessage) -> bytes:
    """The whole frame, as it goes over the wire to any number of sockets: unmasked and never compressed."""
    return Frame(Opcode.TEXT, _encoder.encode(message)).serialize(mask=False)
