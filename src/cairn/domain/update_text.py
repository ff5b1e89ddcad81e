"""An update as JSON: the body of POST /validators, and the file that administrators hand around to sign."""

import base64
import re

import msgspec
from msgspec import UNSET, UnsetType

from cairn.domain.crypto import checksum_address, parse_address
from cairn.domain.errors import InvalidField, MalformedJson
from cairn.domain.governance import (
    MAX_ADMINS,
    Admins,
    AdminsUpdate,
    Before,
    ChainIdentity,
    Update,
    Validator,
    ValidatorUpdate,
)
from cairn.domain.governance_codec import check_update
from cairn.domain.types import MAX_UINT64

PUBLIC_KEY_PATTERN = "^[A-Za-z0-9+/]{43}=$"
GENESIS_PATTERN = "^0x[0-9a-fA-F]{64}$"
SIGNATURE_PATTERN = "^0x[0-9a-fA-F]{130}$"


class _ValidatorText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    publicKey: str
    power: int
    feeRecipient: str
    name: str


class _BeforeText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    power: int
    totalPower: int
    validators: int
    namesakes: int


class _AdminsText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    threshold: int
    addresses: list[str]


class _UpdateText(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    chainId: int
    genesis: str
    sequence: int
    validator: _ValidatorText | UnsetType = UNSET
    before: _BeforeText | UnsetType = UNSET
    admins: _AdminsText | UnsetType = UNSET
    replaces: _AdminsText | UnsetType = UNSET
    signatures: list[str]


def parse_update_text(text: bytes) -> tuple[ChainIdentity, Update]:
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
    if len(given.signatures) > MAX_ADMINS:
        raise InvalidField("signatures", f"there are {len(given.signatures)}; {MAX_ADMINS} are possible")
    update = _parse_change(
        given, tuple(_parse_hex(text, SIGNATURE_PATTERN, "signatures", 130) for text in given.signatures)
    )
    check_update(update)
    return ChainIdentity(given.chainId, parse_genesis_digest(given.genesis)), update


def _parse_change(given: _UpdateText, signatures: tuple[bytes, ...]) -> Update:
    match given.validator, given.before, given.admins, given.replaces:
        case _ValidatorText() as validator, _BeforeText() as before, UnsetType(), UnsetType():
            known = Before(before.power, before.totalPower, before.validators, before.namesakes)
            return ValidatorUpdate(given.sequence, _parse_validator(validator), known, signatures)
        case UnsetType(), UnsetType(), _AdminsText() as admins, _AdminsText() as replaced:
            parsed = _parse_admins(admins, "admins"), _parse_admins(replaced, "replaces")
            return AdminsUpdate(given.sequence, *parsed, signatures)
    raise InvalidField("body", "it has either validator and before, or admins and replaces")


def encode_update_text(chain: ChainIdentity, update: Update) -> bytes:
    genesis = "0x" + chain.genesis.hex()
    signatures = ["0x" + signature.hex() for signature in update.signatures]
    if isinstance(update, AdminsUpdate):
        text = _UpdateText(
            chainId=chain.chain_id,
            genesis=genesis,
            sequence=update.sequence,
            admins=_admins_text(update.admins),
            replaces=_admins_text(update.before),
            signatures=signatures,
        )
    else:
        before = update.before
        text = _UpdateText(
            chainId=chain.chain_id,
            genesis=genesis,
            sequence=update.sequence,
            validator=_validator_text(update.validator),
            before=_BeforeText(before.power, before.total_power, before.validators, before.namesakes),
            signatures=signatures,
        )
    return msgspec.json.format(msgspec.json.encode(text)) + b"\n"


def parse_public_key(text: str) -> bytes:
    """Raises `InvalidField`."""
    if not re.fullmatch(PUBLIC_KEY_PATTERN, text):
        raise InvalidField("publicKey", "an Ed25519 key is 44 characters of base64")
    return base64.b64decode(text)


def parse_genesis_digest(text: str) -> bytes:
    """Raises `InvalidField`."""
    return _parse_hex(text, GENESIS_PATTERN, "genesis", 64)


def encode_public_key(public_key: bytes) -> str:
    return base64.b64encode(public_key).decode()


def _parse_validator(given: _ValidatorText) -> Validator:
    fee_recipient = parse_address(given.feeRecipient, "feeRecipient")
    return Validator(parse_public_key(given.publicKey), given.power, fee_recipient, given.name)


def _validator_text(validator: Validator) -> _ValidatorText:
    return _ValidatorText(
        encode_public_key(validator.public_key),
        validator.power,
        checksum_address(validator.fee_recipient),
        validator.name,
    )


def _parse_admins(given: _AdminsText, field: str) -> Admins:
    addresses = tuple(parse_address(text, f"{field}.addresses[{n}]") for n, text in enumerate(given.addresses))
    return Admins(given.threshold, addresses)


def _admins_text(admins: Admins) -> _AdminsText:
    return _AdminsText(admins.threshold, [checksum_address(address) for address in admins.addresses])


def _parse_hex(text: str, pattern: str, field: str, digits: int) -> bytes:
    if not re.fullmatch(pattern, text):
        raise InvalidField(field, f"expected 0x and {digits} hexadecimal digits")
    return bytes.fromhex(text[2:])
