"""Request bodies: what they hold. They are declared as JSON, and never larger in memory than the limit."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from cairn.domain.errors import BodyTooLarge, NodeError, UnsupportedMediaType
from cairn.domain.json_fields import MAX_BATCH, AnyAddressText, TxType, about, hex_bytes, integer, ref, wei
from cairn.domain.types import TRANSFER_GAS

JSON_MEDIA_TYPE = "application/json"
MAX_DISCARDED_BYTES = 8 * 1024 * 1024


class SubmissionJson(msgspec.Struct, forbid_unknown_fields=True, gc=False, rename={"sender": "from"}):
    """A transaction to submit."""

    sender: AnyAddressText
    to: AnyAddressText
    value: Annotated[int | str, wei("Wei to transfer.")]
    gas: Annotated[
        int, integer(f"Gas limit. A transfer uses {TRANSFER_GAS}; a higher limit is accepted and not charged.")
    ]
    nonce: Annotated[
        int | UnsetType, integer("Number of the transaction among its sender's. If left out, the sender's next nonce.")
    ] = UNSET
    gasPrice: Annotated[int | str | UnsetType, wei("Wei per unit of gas. If left out, the chain's gas price.")] = UNSET
    signature: Annotated[
        str | UnsetType,
        hex_bytes(65, "The sender's signature: r (32 bytes), s (32 bytes, in the lower half: EIP-2), v (0, 1, 27 or "
                  "28). It covers the transaction with empty data and an empty access list.", "0-9a-fA-F"),
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


class FaucetRequest(msgspec.Struct, frozen=True):
    """Who gets the coins, and how many."""

    address: AnyAddressText
    amount: Annotated[int | str | UnsetType, about("Wei to send. If left out, 100 coins.", **ref("FaucetAmount"))] = (
        UNSET
    )


async def read_json_body(request: Request, max_bytes: int) -> bytes:
    """The bytes of the body. Raises `UnsupportedMediaType` or `BodyTooLarge`."""
    refusal = _refusal_of(request.headers, max_bytes)
    if refusal is not None and "expect" in request.headers:
        # The client waits for 100 Continue and has sent no body.
        raise refusal
    chunks, size, has_more = [], 0, True
    # A refused body is read, too, up to a limit: otherwise the connection is reset and the answer lost.
    while has_more and size <= (max_bytes if refusal is None else MAX_DISCARDED_BYTES):
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        size += len(message["body"])
        has_more = message.get("more_body", False)
        if refusal is None and size > max_bytes:
            refusal = _too_large(max_bytes)
        chunks.append(b"" if refusal else message["body"])
    if refusal is not None:
        raise refusal
    return b"".join(chunks)


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body has more than {max_bytes} bytes")


def _refusal_of(headers: Headers, max_bytes: int) -> NodeError | None:
    """Why the headers alone make the request invalid."""
    content_type = headers.get("content-type")
    if content_type is None:
        return UnsupportedMediaType(f"send the header Content-Type: {JSON_MEDIA_TYPE}")
    if not is_json(content_type):
        return UnsupportedMediaType(f"the body is declared as {content_type[:80]!a}; send {JSON_MEDIA_TYPE}")
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        return UnsupportedMediaType(f"bodies encoded as {encoding[:80]!a} are not supported")
    # Python reads 4,300 digits at most, and HTTP allows any number of zeros.
    declared = headers.get("content-length", "").strip().lstrip("0")
    return _too_large(max_bytes) if int(declared or 0) > max_bytes else None


def is_json(content_type: str) -> bool:
    media_type, _, parameters = content_type.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    return media_type.strip().lower() == JSON_MEDIA_TYPE and charset in ("", "charset=utf-8")
