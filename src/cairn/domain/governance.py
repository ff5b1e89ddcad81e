"""The validators, who make the blocks, and the administrators in genesis, who may change them.

    validator             public key 32 | power 8 | fee recipient 20 | length of the name 1 | name in UTF-8
    governance            1 | sequence 8 | number of validators 4 | validators, by public key
                          | the validator that the last update removed, if it removed one
    a validator update    0x81 | sequence 8 | validator | number of signatures 1 | signatures, 65 each
    what is signed        keccak-256 of a tag, the chain id 8, sequence 8 and the validator           (big-endian)

The same governance and the same update have the same bytes everywhere: the state root covers the one, blocks hold the
other. An update names its sequence number and the chain, so it applies once, in order, and nowhere else.
"""

import hashlib
from collections.abc import Sequence
from struct import Struct
from unicodedata import ucd_3_2_0

import msgspec

from cairn.domain.crypto import keccak256, recover_sender, sign_digest
from cairn.domain.errors import Corrupt, InvalidField, InvalidSignature, UpdateRefused
from cairn.domain.types import Address

UPDATE_PREFIX = b"\x81"
"""No transfer starts with it: the types of EIP-2718 end at 0x7f, and the first byte of a list is 0xc0 or above."""
PUBLIC_KEY_SIZE = 32
MAX_POWER = 2**60 // 1_000
"""CometBFT bounds the power of all validators together by 2^60; so many can never reach it."""
MAX_VALIDATORS = 1_000
MAX_NAME_BYTES = 64
MAX_UPDATE_BYTES = 8 * 1024

SIGNATURE_SIZE = 65

_SIGNED_TAG = b"cairn validator update"
_GOVERNANCE_VERSION = b"\x01"
_HEAD = Struct(">32sQ20sB")
_SEQUENCE = Struct(">Q")
_COUNT = Struct(">I")


class Validator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    public_key: bytes
    """Ed25519, 32 bytes: the key that the engine signs votes with."""
    power: int
    fee_recipient: Address
    """Receives the fees of the blocks that this validator proposes."""
    name: str = ""

    @property
    def engine_address(self) -> bytes:
        """The validator's address in CometBFT."""
        return hashlib.sha256(self.public_key).digest()[:20]


class Admins(msgspec.Struct, frozen=True):
    """The keys that may change the validators; fixed in genesis."""

    threshold: int
    """How many of them must sign."""
    addresses: tuple[Address, ...]


class Governance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of the state that is not an account; the state root covers it."""

    sequence: int
    """How many updates were applied; the next one must have this number."""
    validators: tuple[Validator, ...]
    """Sorted by public key."""
    leaving: Validator | None = None
    """The validator that the last update removed. The engine may still let it propose the next block."""

    def proposer_of(self, engine_address: bytes) -> Address | None:
        """Where the fees of a block proposed by this validator go."""
        for validator in (*self.validators, self.leaving):
            if validator is not None and validator.engine_address == engine_address:
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
    if len(validator.name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise InvalidField("name", f"it has at most {MAX_NAME_BYTES} bytes")
    if not all(map(_is_printable, validator.name)):
        # Also half of a character, which JSON can spell and UTF-8 cannot.
        raise InvalidField("name", "it has characters that cannot be printed, or that are newer than Unicode 3.2")


def _is_printable(letter: str) -> bool:
    """By the one edition of Unicode that every Python has. By its own, nodes of two Pythons could disagree."""
    return letter == " " or ucd_3_2_0.category(letter)[0] not in "CZ"


def sign_update(update: ValidatorUpdate, private_keys: Sequence[bytes], chain_id: int) -> ValidatorUpdate:
    """Add the signatures of these administrators' keys."""
    digest = update_digest(update, chain_id)
    added = tuple(sign_digest(digest, private_key) for private_key in private_keys)
    return ValidatorUpdate(update.sequence, update.validator, update.signatures + added)


def update_digest(update: ValidatorUpdate, chain_id: int) -> bytes:
    return keccak256(_SIGNED_TAG + chain_id.to_bytes(8, "big") + _encode_unsigned(update))


def encode_update(update: ValidatorUpdate) -> bytes:
    """Raises `InvalidField` for a signature of another size."""
    for signature in update.signatures:
        if len(signature) != SIGNATURE_SIZE:
            raise InvalidField("signatures", f"a signature has {SIGNATURE_SIZE} bytes, not {len(signature)}")
    return UPDATE_PREFIX + _encode_unsigned(update) + bytes((len(update.signatures),)) + b"".join(update.signatures)


def _encode_unsigned(update: ValidatorUpdate) -> bytes:
    return _SEQUENCE.pack(update.sequence) + _encode_validator(update.validator)


def is_update(raw: bytes) -> bool:
    """Whether the bytes are an update: nothing else begins like it."""
    return raw[:1] == UPDATE_PREFIX


def decode_update(raw: bytes) -> ValidatorUpdate:
    """Read what `encode_update` gives. Raises `InvalidField`."""
    try:
        if not is_update(raw) or len(raw) > MAX_UPDATE_BYTES:
            raise ValueError("it has another prefix, or is too long")
        reader = _Reader(raw[1:])
        sequence = reader.integer(_SEQUENCE)
        validator = reader.validator()
        count = reader.take(1)[0]
        signatures = tuple(reader.take(SIGNATURE_SIZE) for _ in range(count))
        reader.end()
    except ValueError as error:
        raise InvalidField("raw", f"not a validator update: {error}") from None
    check_validator(validator, least_power=0)
    return ValidatorUpdate(sequence, validator, signatures)


def apply_update(governance: Governance, admins: Admins, update: ValidatorUpdate, chain_id: int) -> Governance:
    """The governance after `update`. Raises `UpdateRefused` or `InvalidSignature`, and changes nothing then."""
    if update.sequence != governance.sequence:
        raise UpdateRefused(f"its sequence is {update.sequence}; the next one is {governance.sequence}")
    _check_signatures(update, admins, chain_id)
    wanted = update.validator
    others = tuple(validator for validator in governance.validators if validator.public_key != wanted.public_key)
    if wanted.power == 0:
        return Governance(governance.sequence + 1, others, _removed(governance, others))
    if len(others) == MAX_VALIDATORS:
        raise UpdateRefused(f"there are {MAX_VALIDATORS} validators already")
    ordered = tuple(sorted((*others, wanted), key=lambda validator: validator.public_key))
    return Governance(governance.sequence + 1, ordered)


def _removed(governance: Governance, others: Sequence[Validator]) -> Validator:
    """The validator that is not among the others. Raises `UpdateRefused` unless it is one of several."""
    if len(others) == len(governance.validators):
        raise UpdateRefused("it removes an unknown validator")
    if not others:
        raise UpdateRefused("it removes the last validator")
    return next(validator for validator in governance.validators if validator not in others)


def _check_signatures(update: ValidatorUpdate, admins: Admins, chain_id: int) -> None:
    digest = update_digest(update, chain_id)
    signers: set[Address] = set()
    # One after the other: the first signature of a stranger ends it, so that an attack costs one recovery.
    for signature in update.signatures:
        signer = recover_sender(digest, signature)
        if signer in signers:
            raise InvalidSignature("one administrator has signed twice")
        if signer not in admins.addresses:
            raise InvalidSignature(f"0x{signer.hex()} is no administrator of this chain")
        signers.add(signer)
    if len(signers) < admins.threshold:
        raise UpdateRefused(f"{len(signers)} of {admins.threshold} required administrators have signed")


def encode_governance(governance: Governance) -> bytes:
    """The canonical bytes that the state root covers and the store keeps."""
    validators = governance.validators
    head = _GOVERNANCE_VERSION + _SEQUENCE.pack(governance.sequence) + _COUNT.pack(len(validators))
    leaving = b"" if governance.leaving is None else _encode_validator(governance.leaving)
    return head + b"".join(map(_encode_validator, validators)) + leaving


def decode_governance(raw: bytes) -> Governance:
    """Raises `Corrupt`: only our own bytes come here."""
    try:
        reader = _Reader(raw)
        if reader.take(1) != _GOVERNANCE_VERSION:
            raise ValueError("it is of another version")
        sequence, count = reader.integer(_SEQUENCE), reader.integer(_COUNT)
        validators = tuple(reader.validator() for _ in range(count))
        leaving = None if reader.is_at_end else reader.validator()
        reader.end()
    except ValueError as error:
        raise Corrupt(f"the stored governance cannot be read: {error}") from None
    return Governance(sequence, validators, leaving)


def _encode_validator(validator: Validator) -> bytes:
    # Nothing of another size may be cut or filled up on its way into a hash.
    check_validator(validator, least_power=0)
    name = validator.name.encode()
    return _HEAD.pack(validator.public_key, validator.power, validator.fee_recipient, len(name)) + name


class _Reader:
    """Reads values from the front. Raises `ValueError` if they are missing."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, size: int) -> bytes:
        taken = self._content[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError(f"it ends at byte {len(self._content)}, and goes on at least to {self._at + size}")
        self._at += size
        return taken

    def integer(self, layout: Struct) -> int:
        return int(layout.unpack(self.take(layout.size))[0])

    def validator(self) -> Validator:
        public_key, power, fee_recipient, name_bytes = _HEAD.unpack(self.take(_HEAD.size))
        return Validator(public_key, power, Address(fee_recipient), self.take(name_bytes).decode())

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._content)

    def end(self) -> None:
        if not self.is_at_end:
            raise ValueError(f"it goes on after byte {self._at}, where it should end")
