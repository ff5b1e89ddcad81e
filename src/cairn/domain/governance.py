"""Who may make blocks, and who may change that: the validators, and the administrators that genesis names.

    a validator update, as the engine carries it:   0x01 | JSON of the update with its signatures
    what an administrator signs:                    keccak-256 of a tag, the chain id and the JSON of the update without

The JSON is compact with its fields in one order, and bytes in base64, so the same update has the same bytes
everywhere. It names its sequence number and the chain, so each applies once, in order, and nowhere else.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from cairn.domain.crypto import keccak256, recover_sender, sign_digest
from cairn.domain.errors import Corrupt, InvalidField, InvalidSignature, UpdateRefused
from cairn.domain.types import Address

UPDATE_PREFIX = b"\x01"
"""No transfer starts with it: the first byte of an RLP list is 0xc0 or above."""
PUBLIC_KEY_SIZE = 32
MAX_POWER = 2**60 // 1_000
"""CometBFT bounds the power of all validators together by 2^60; so many can never reach it."""
MAX_VALIDATORS = 1_000
MAX_NAME_BYTES = 64
MAX_UPDATE_BYTES = 8 * 1024

_SIGNED_TAG = b"cairn validator update"


class Validator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    public_key: bytes
    """Ed25519, 32 bytes: the key that the engine signs votes with."""
    power: int
    fee_recipient: Address
    """Receives the fees of the blocks that this validator proposes."""
    name: str = ""

    @property
    def engine_address(self) -> bytes:
        """What the engine calls the validator when it proposes a block."""
        return hashlib.sha256(self.public_key).digest()[:20]


class Admins(msgspec.Struct, frozen=True):
    """The keys that may change the validators; fixed in genesis."""

    threshold: int
    """How many of them must sign."""
    addresses: tuple[Address, ...]


class Governance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of the state that is not an account; the state root covers it."""

    sequence: int
    """How many updates have been applied: the number that the next one must carry."""
    validators: tuple[Validator, ...]
    """Sorted by public key."""

    def proposer_of(self, engine_address: bytes) -> Address | None:
        """Where the fees of a block proposed by this validator go."""
        for validator in self.validators:
            if validator.engine_address == engine_address:
                return validator.fee_recipient
        return None


class ValidatorUpdate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sets one validator; power 0 removes it."""

    sequence: int
    validator: Validator
    signatures: tuple[bytes, ...] = ()


def first_governance(validators: Sequence[Validator]) -> Governance:
    """As genesis starts it. Raises `InvalidField` when the validators are none, too many or not told apart."""
    if not 1 <= len(validators) <= MAX_VALIDATORS:
        raise InvalidField("validators", f"there are {len(validators)}; 1 to {MAX_VALIDATORS} are possible")
    for validator in validators:
        check_validator(validator, least_power=1)
    if len({validator.public_key for validator in validators}) != len(validators):
        raise InvalidField("validators", "two have the same public key")
    return Governance(0, tuple(sorted(validators, key=lambda validator: validator.public_key)))


def check_validator(validator: Validator, least_power: int) -> None:
    if len(validator.public_key) != PUBLIC_KEY_SIZE:
        raise InvalidField("publicKey", f"an Ed25519 key has {PUBLIC_KEY_SIZE} bytes, not {len(validator.public_key)}")
    if not least_power <= validator.power <= MAX_POWER:
        raise InvalidField("power", f"it is between {least_power} and {MAX_POWER}, not {validator.power}")
    if len(validator.fee_recipient) != 20:
        raise InvalidField("feeRecipient", f"an address has 20 bytes, not {len(validator.fee_recipient)}")
    if len(validator.name.encode()) > MAX_NAME_BYTES:
        raise InvalidField("name", f"it has at most {MAX_NAME_BYTES} bytes")


def sign_update(update: ValidatorUpdate, private_keys: Sequence[bytes], chain_id: int) -> ValidatorUpdate:
    """Add the signatures of these administrators' keys."""
    digest = update_digest(update, chain_id)
    added = tuple(sign_digest(digest, private_key) for private_key in private_keys)
    return ValidatorUpdate(update.sequence, update.validator, update.signatures + added)


def update_digest(update: ValidatorUpdate, chain_id: int) -> bytes:
    unsigned = ValidatorUpdate(update.sequence, update.validator)
    return keccak256(_SIGNED_TAG + chain_id.to_bytes(8, "big") + msgspec.json.encode(unsigned))


def encode_update(update: ValidatorUpdate) -> bytes:
    return UPDATE_PREFIX + msgspec.json.encode(update)


def is_update(raw: bytes) -> bool:
    """Whether it is meant as one: nothing else starts like it."""
    return raw[:1] == UPDATE_PREFIX


def decode_update(raw: bytes) -> ValidatorUpdate:
    """Read what `encode_update` gives. Raises `InvalidField`."""
    try:
        if not is_update(raw) or len(raw) > MAX_UPDATE_BYTES:
            raise ValueError("it has another prefix, or is too long")
        update = msgspec.json.decode(raw[1:], type=ValidatorUpdate)
        if encode_update(update) != raw:
            raise ValueError("it is not in its one canonical form")
    except ValueError as error:
        raise InvalidField("raw", f"not a validator update: {error}") from None
    check_validator(update.validator, least_power=0)
    return update


def apply_update(governance: Governance, admins: Admins, update: ValidatorUpdate, chain_id: int) -> Governance:
    """The governance after `update`. Raises `UpdateRefused` or `InvalidSignature`, and changes nothing then."""
    if update.sequence != governance.sequence:
        raise UpdateRefused(f"its sequence is {update.sequence}; the next one is {governance.sequence}")
    _check_signatures(update, admins, chain_id)
    wanted = update.validator
    others = [validator for validator in governance.validators if validator.public_key != wanted.public_key]
    if wanted.power == 0 and len(others) == len(governance.validators):
        raise UpdateRefused("it removes a validator that there is not")
    if wanted.power == 0 and not others:
        raise UpdateRefused("it removes the last validator")
    validators = others if wanted.power == 0 else [*others, wanted]
    if len(validators) > MAX_VALIDATORS:
        raise UpdateRefused(f"there are {MAX_VALIDATORS} validators already")
    ordered = tuple(sorted(validators, key=lambda validator: validator.public_key))
    return Governance(governance.sequence + 1, ordered)


def _check_signatures(update: ValidatorUpdate, admins: Admins, chain_id: int) -> None:
    digest = update_digest(update, chain_id)
    signers = [recover_sender(digest, signature) for signature in update.signatures]
    if len(set(signers)) != len(signers):
        raise InvalidSignature("one administrator has signed twice")
    for signer in signers:
        if signer not in admins.addresses:
            raise InvalidSignature(f"0x{signer.hex()} is no administrator of this chain")
    if len(signers) < admins.threshold:
        raise UpdateRefused(f"{len(signers)} administrators have signed; {admins.threshold} must")


def encode_governance(governance: Governance) -> bytes:
    """The canonical bytes that the state root covers and the store keeps."""
    return msgspec.json.encode(governance)


def decode_governance(raw: bytes) -> Governance:
    """Raises `Corrupt`: only our own bytes come here."""
    try:
        return msgspec.json.decode(raw, type=Governance)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"the stored governance cannot be read: {error}") from None
