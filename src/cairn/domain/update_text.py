"""A validator update as JSON: the body of POST /validators, and the file that administrators hand around to sign."""

import base64
import re

import msgspec

from cairn.domain.crypto import checksum_address, parse_address
from cairn.domain.errors import InvalidField, MalformedJson
from cairn.domain.governance import Validator, ValidatorUpdate, check_validator
from cairn.domain.types import MAX_UINT64

MAX_SIGNATURES = 100
NAME_PATTERN = "^[ -~]{0,64}$"
PUBLIC_KEY_PATTERN = "^[A-Za-z0-9+/]{43}=$"
SIGNATURE_PATTERN = "^0x[0-9a-fA-F]{130}$"


class _ValidatorText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    publicKey: str
    power: int
    feeRecipient: str
    name: str


class _UpdateText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    chainId: int
    sequence: int
    validator: _ValidatorText
    signatures: list[str]


def parse_update_text(text: bytes) -> tuple[int, ValidatorUpdate]:
    """The chain that it is for, and the update. Raises `MalformedJson`, or `InvalidField` naming the field."""
    try:
        given = msgspec.json.decode(text, type=_UpdateText)
    except msgspec.ValidationError as error:
        raise InvalidField("body", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedJson(f"it is not JSON: {error}") from None
    for field, number in (("chainId", given.chainId), ("sequence", given.sequence)):
        if not 0 <= number <= MAX_UINT64:
            raise InvalidField(field, f"{number} is not between 0 and {MAX_UINT64}")
    if len(given.signatures) > MAX_SIGNATURES:
        raise InvalidField("signatures", f"there are {len(given.signatures)}; {MAX_SIGNATURES} are possible")
    signatures = tuple(_parse_signature(text) for text in given.signatures)
    return given.chainId, ValidatorUpdate(given.sequence, _parse_validator(given.validator), signatures)


def encode_update_text(chain_id: int, update: ValidatorUpdate) -> bytes:
    validator = update.validator
    text = _UpdateText(
        chainId=chain_id,
        sequence=update.sequence,
        validator=_ValidatorText(
            encode_public_key(validator.public_key),
            validator.power,
            checksum_address(validator.fee_recipient),
            validator.name,
        ),
        signatures=["0x" + signature.hex() for signature in update.signatures],
    )
    return msgspec.json.format(msgspec.json.encode(text)) + b"\n"


def parse_public_key(text: str) -> bytes:
    """Raises `InvalidField`."""
    if not re.fullmatch(PUBLIC_KEY_PATTERN, text):
        raise InvalidField("publicKey", "an Ed25519 key is 44 characters of base64")
    return base64.b64decode(text)


def encode_public_key(public_key: bytes) -> str:
    return base64.b64encode(public_key).decode()


def _parse_validator(given: _ValidatorText) -> Validator:
    if not re.fullmatch(NAME_PATTERN, given.name):
        raise InvalidField("name", "it has at most 64 characters, printable ASCII only")
    fee_recipient = parse_address(given.feeRecipient, "feeRecipient")
    validator = Validator(parse_public_key(given.publicKey), given.power, fee_recipient, given.name)
    check_validator(validator, least_power=0)
    return validator


def _parse_signature(text: str) -> bytes:
    if not re.fullmatch(SIGNATURE_PATTERN, text):
        raise InvalidField("signatures", "a signature is 0x and 130 hexadecimal digits")
    return bytes.fromhex(text[2:])
