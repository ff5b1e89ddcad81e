"""Webhooks as Standard Webhooks 1.0.0 describes them: their bodies, their ids and their signatures."""

import base64
import binascii
import hmac
import json
import os
import secrets
import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from cairn.client.models import Block, Payment
from cairn.client.transport import Amounts, with_strings
from cairn.domain.answers import NewBlock
from cairn.domain.errors import InvalidConfig
from cairn.store.directory import is_there, write_file

SECRET_VARIABLE = "CAIRN_FORWARD_SECRET"
SECRET_PREFIX = "whsec_"
SECRET_BYTES = range(24, 65)
"""The lengths that the specification allows."""


class Payload(msgspec.Struct, frozen=True, rename="camel"):
    """The body of a webhook."""

    type: str
    timestamp: str
    """When the event happened: the time of its block."""
    chain_id: int
    data: NewBlock | Payment
    """The event, as `WS /events` sends it."""


class Webhook(msgspec.Struct, frozen=True):
    id: str
    """The same for every attempt and after every restart: the receiver drops what it has seen."""
    body: bytes


def block_webhook(block: Block) -> Webhook:
    # The hash of a block covers its height, its chain and all blocks before it.
    return Webhook(f"newBlock_{block.hash}", _body(NewBlock(block.block_height, block.hash), block, "number"))


def payment_webhook(payment: Payment, block: Block, amounts: Amounts) -> Webhook:
    """The webhook of a payment in the block."""
    # On a dev chain that was started over, the same transaction can be made again: in another block.
    return Webhook(f"payment_{payment.tx_hash}_{block.hash[2:10]}", _body(payment, block, amounts))


def _body(event: NewBlock | Payment, block: Block, amounts: Amounts) -> bytes:
    kind = "newBlock" if isinstance(event, NewBlock) else "payment"
    payload = Payload(kind, _iso_time(block.timestamp), block.chain_id, event)
    fields = msgspec.to_builtins(payload)
    if amounts == "string":
        fields["data"] = with_strings(fields["data"])
    # msgspec takes no integer above 64 bits.
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _iso_time(timestamp_s: int) -> str:
    return datetime.fromtimestamp(timestamp_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def headers_of(webhook: Webhook, keys: Sequence[bytes], now_s: int) -> dict[str, str]:
    """With a signature for each key: while the secret is replaced, the receiver knows one of them."""
    signed = f"{webhook.id}.{now_s}.".encode() + webhook.body
    signatures = [base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys]
    return {
        "content-type": "application/json",
        "webhook-id": webhook.id,
        "webhook-timestamp": str(now_s),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def load_keys(secret_file: Path | None, own_file: Path) -> tuple[list[bytes], str]:
    """The keys, and where they are from: `secret_file`, else the variable, else `own_file`, which is made if need be.

    Raises `InvalidConfig`, including when others may read the file.
    """
    if secret_file is None and (text := os.environ.get(SECRET_VARIABLE)) is not None:
        return parse_secrets(text, SECRET_VARIABLE), SECRET_VARIABLE
    path = own_file if secret_file is None else secret_file
    made = ""
    try:
        if secret_file is None and not is_there(own_file):
            write_file(own_file, f"{SECRET_PREFIX}{base64.b64encode(secrets.token_bytes(32)).decode()}\n".encode())
            made = ", made now: give it to the receiver"
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise InvalidConfig(f"{path} can be read by others: chmod 600 {path}")
        return parse_secrets(path.read_text(), str(path)), f"{path}{made}"
    except OSError as error:
        raise InvalidConfig(f"cannot use {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidConfig(f"{path} is not text") from None


def parse_secrets(text: str, source: str) -> list[bytes]:
    """One or more secrets, each on its own line. Raises `InvalidConfig`, never with what it has read."""
    keys = [_parse_secret(word) for word in text.split()]
    if not keys or not all(len(key) in SECRET_BYTES for key in keys):
        raise InvalidConfig(f"{source} holds no secret: {SECRET_PREFIX} and 24 to 64 bytes in base64, one on each line")
    return keys


def _parse_secret(word: str) -> bytes:
    """Nothing if it is no secret."""
    try:
        return (
            base64.b64decode(word.removeprefix(SECRET_PREFIX), validate=True) if word.startswith(SECRET_PREFIX) else b""
        )
    except (binascii.Error, ValueError):
        return b""
