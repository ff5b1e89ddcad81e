"""An update as JSON: the body of POST /validators, and the file that administrators hand around to sign."""

import base64
import re
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from cairn.domain.crypto import checksum_address, parse_address
from cairn.domain.errors import InvalidField, MalformedJson
from cairn.domain.governance import (
    MAX_ADMINS,
    MAX_POWER,
    MAX_VALIDATORS,
    Admins,
    AdminsUpdate,
    Before,
    ChainIdentity,
    Update,
    ValidatorRecord,
    ValidatorUpdate,
    check_update,
)
from cairn.domain.json_fields import (
    PUBLIC_KEY_PATTERN,
    SIGNATURE_PATTERN,
    AnyAddressText,
    Power,
    PublicKeyText,
    Sequence,
    ValidatorName,
    about,
    find_bytes,
    hex_bytes,
    integer,
)
from cairn.domain.types import MAX_UINT64


class ValidatorUpdateValidator(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The validator after the update. Power 0 removes it."""

    public_key: PublicKeyText
    power: Power
    fee_recipient: AnyAddressText
    name: ValidatorName


class ValidatorUpdateBefore(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The validators before the update. It is signed too, and must be true."""

    power: Annotated[int, integer("Power of this key; 0 if it is new.", MAX_POWER)]
    total_power: Annotated[int, integer("Power of all validators.")]
    validators: Annotated[int, integer("How many validators there are.", MAX_VALIDATORS)]
    namesakes: Annotated[int, integer("How many other validators have the same name.", MAX_VALIDATORS)]


class ValidatorUpdateAdmins(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Administrators, and how many of them must sign."""

    threshold: Annotated[int, integer("How many must sign.", MAX_ADMINS, 1)]
    addresses: Annotated[list[AnyAddressText], about("Their accounts.", minItems=1, maxItems=MAX_ADMINS)]


class ValidatorUpdateJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """A change of one validator (`validator` and `before`), or of the administrators (`admins` and `replaces`)."""

    chain_id: Annotated[int, integer("The chain that the update is for.", least=1)]
    genesis: Annotated[str, hex_bytes(32, "Its genesis, as in `GET /validators`.")]
    sequence: Sequence
    validator: ValidatorUpdateValidator | UnsetType = UNSET
    before: ValidatorUpdateBefore | UnsetType = UNSET
    admins: Annotated[ValidatorUpdateAdmins | UnsetType, about("The administrators after the update.")] = UNSET
    replaces: Annotated[ValidatorUpdateAdmins | UnsetType, about("The administrators before the update.")] = UNSET
    signatures: Annotated[
        list[Annotated[str, Meta(extra_json_schema={"pattern": SIGNATURE_PATTERN})]],
        about("Signatures of as many administrators as the threshold: r, s, v (0 or 1).", maxItems=MAX_ADMINS),
    ]


def parse_update_json(text: bytes) -> tuple[ChainIdentity, Update]:
    """The chain that it is for, and the update. Raises `MalformedJson`, or `InvalidField` naming the field."""
    try:
        given = msgspec.json.decode(text, type=ValidatorUpdateJson)
    except msgspec.ValidationError as error:
        raise InvalidField("body", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedJson(f"it is not JSON: {error}") from None
    for field, number in (("chainId", given.chain_id), ("sequence", given.sequence)):
        if not 0 <= number <= MAX_UINT64:
            raise InvalidField(field, f"{number} is not between 0 and {MAX_UINT64}")
    if len(given.signatures) > MAX_ADMINS:
        raise InvalidField("signatures", f"there are {len(given.signatures)}; {MAX_ADMINS} are possible")
    update = _parse_change(given, tuple(_parse_bytes(text, 65, "signatures") for text in given.signatures))
    check_update(update)
    return ChainIdentity(given.chain_id, parse_genesis_digest(given.genesis)), update


def _parse_change(given: ValidatorUpdateJson, signatures: tuple[bytes, ...]) -> Update:
    match given.validator, given.before, given.admins, given.replaces:
        case ValidatorUpdateValidator() as validator, ValidatorUpdateBefore() as before, UnsetType(), UnsetType():
            known = Before(before.power, before.total_power, before.validators, before.namesakes)
            return ValidatorUpdate(given.sequence, _parse_validator(validator), known, signatures)
        case UnsetType(), UnsetType(), ValidatorUpdateAdmins() as admins, ValidatorUpdateAdmins() as replaced:
            parsed = _parse_admins(admins, "admins"), _parse_admins(replaced, "replaces")
            return AdminsUpdate(given.sequence, *parsed, signatures)
    raise InvalidField("body", "it has either validator and before, or admins and replaces")


def encode_update_json(chain: ChainIdentity, update: Update) -> bytes:
    genesis = "0x" + chain.genesis.hex()
    signatures = ["0x" + signature.hex() for signature in update.signatures]
    if isinstance(update, AdminsUpdate):
        text = ValidatorUpdateJson(
            chain_id=chain.chain_id,
            genesis=genesis,
            sequence=update.sequence,
            admins=_admins_text(update.admins),
            replaces=_admins_text(update.before),
            signatures=signatures,
        )
    else:
        before = update.before
        text = ValidatorUpdateJson(
            chain_id=chain.chain_id,
            genesis=genesis,
            sequence=update.sequence,
            validator=_validator_text(update.validator),
            before=ValidatorUpdateBefore(before.power, before.total_power, before.validators, before.namesakes),
            signatures=signatures,
        )
    return msgspec.json.format(msgspec.json.encode(text)) + b"\n"


def parse_public_key(text: str) -> bytes:
    """Read an Ed25519 key in base64. Raises `InvalidField`."""
    if not re.fullmatch(PUBLIC_KEY_PATTERN, text):
        raise InvalidField("publicKey", "an Ed25519 key is 44 characters of base64")
    return base64.b64decode(text)


def parse_genesis_digest(text: str) -> bytes:
    """Read `0x` and 64 hexadecimal digits. Raises `InvalidField`."""
    return _parse_bytes(text, 32, "genesis")


def encode_public_key(public_key: bytes) -> str:
    return base64.b64encode(public_key).decode()


def _parse_validator(given: ValidatorUpdateValidator) -> ValidatorRecord:
    fee_recipient = parse_address(given.fee_recipient, "feeRecipient")
    return ValidatorRecord(parse_public_key(given.public_key), given.power, fee_recipient, given.name)


def _validator_text(validator: ValidatorRecord) -> ValidatorUpdateValidator:
    return ValidatorUpdateValidator(
        encode_public_key(validator.public_key),
        validator.power,
        checksum_address(validator.fee_recipient),
        validator.name,
    )


def _parse_admins(given: ValidatorUpdateAdmins, field: str) -> Admins:
    addresses = tuple(parse_address(text, f"{field}.addresses[{n}]") for n, text in enumerate(given.addresses))
    return Admins(given.threshold, addresses)


def _admins_text(admins: Admins) -> ValidatorUpdateAdmins:
    return ValidatorUpdateAdmins(admins.threshold, [checksum_address(address) for address in admins.addresses])


def _parse_bytes(text: str, size: int, field: str) -> bytes:
    found = find_bytes(text, size)
    if found is None:
        raise InvalidField(field, f"expected 0x and {2 * size} hexadecimal digits")
    return found
