"""Validators, administrators and updates as bytes: the state root covers the one, blocks hold the other.

    validator             public key 32 | power 8 | fee recipient 20 | length of the name 1 | name in UTF-8
    administrators        their number 1 | threshold 1 | addresses, 20 each; number and threshold 0: there are none
    evidence              kind 1 | address in CometBFT 20 | height 8 | time 8 | length of the name 1 | name in UTF-8
    governance            2 | sequence 8 | number of validators 4 | validators, by public key
                          | 1 and the validator that the last update removed, or 0 | administrators
                          | number of pieces of evidence so far 8 | how many of them follow 1 | the newest pieces
    an update             0x81 | sequence 8 | change | number of signatures 1 | signatures, 65 each
    change                0 | validator | its power before 8 | power of all before 8 | number of validators before 4
                          | number of other validators with its name 4,
                          or 1 | administrators | administrators before
    what is signed        keccak-256 of a tag, the chain id 8, the digest of genesis 32, sequence 8 and the change

Numbers are big-endian.

The same governance and the same update have the same bytes everywhere.
"""

from struct import Struct
from typing import Any

from cairn.domain.crypto import keccak256
from cairn.domain.errors import Corrupt, InvalidField
from cairn.domain.governance import (
    MAX_ADMINS,
    Admins,
    AdminsUpdate,
    Before,
    ChainIdentity,
    Evidence,
    EvidenceKind,
    Governance,
    Update,
    Validator,
    ValidatorUpdate,
    check_admins,
    check_before,
    check_validator,
)
from cairn.domain.types import Address

UPDATE_PREFIX = b"\x81"
"""No transfer starts with it: the types of EIP-2718 end at 0x7f, and the first byte of a list is 0xc0 or above."""
SIGNATURE_SIZE = 65
ENGINE_ADDRESS_SIZE = 20
MAX_UPDATE_BYTES = 11 * 1024
"""More than the longest one has: a hundred administrators who replace a hundred, and the signatures of all."""

_SIGNED_TAG = b"cairn governance update"
_GOVERNANCE_VERSION = b"\x02"
_VALIDATOR_CHANGE, _ADMINS_CHANGE = b"\0", b"\1"
_VALIDATOR = Struct(">32sQ20sB")
_EVIDENCE = Struct(">B20sQQB")
_BEFORE = Struct(">QQII")
_ADMINS = Struct(">BB")
_SEQUENCE = Struct(">Q")
_CHAIN = Struct(">Q32s")
_COUNT = Struct(">I")


def update_digest(update: Update, chain: ChainIdentity) -> bytes:
    """What an administrator signs."""
    return keccak256(_SIGNED_TAG + _CHAIN.pack(chain.chain_id, chain.genesis) + _encode_unsigned(update))


def encode_update(update: Update) -> bytes:
    """Raises `InvalidField` for a signature of another size, or too many."""
    if len(update.signatures) > MAX_ADMINS:
        raise InvalidField("signatures", f"there are {len(update.signatures)}; {MAX_ADMINS} are possible")
    for signature in update.signatures:
        if len(signature) != SIGNATURE_SIZE:
            raise InvalidField("signatures", f"a signature has {SIGNATURE_SIZE} bytes, not {len(signature)}")
    return UPDATE_PREFIX + _encode_unsigned(update) + bytes((len(update.signatures),)) + b"".join(update.signatures)


def _encode_unsigned(update: Update) -> bytes:
    sequence = _SEQUENCE.pack(update.sequence)
    if isinstance(update, AdminsUpdate):
        return sequence + _ADMINS_CHANGE + _encode_admins(update.admins) + _encode_admins(update.before)
    before = update.before
    known = _BEFORE.pack(before.power, before.total_power, before.validators, before.namesakes)
    return sequence + _VALIDATOR_CHANGE + _encode_validator(update.validator) + known


def is_update(raw: bytes) -> bool:
    """Whether the bytes are an update: nothing else begins like it."""
    return raw[:1] == UPDATE_PREFIX


def decode_update(raw: bytes) -> Update:
    """Read what `encode_update` gives. Raises `InvalidField`."""
    try:
        if not is_update(raw) or len(raw) > MAX_UPDATE_BYTES:
            raise ValueError("it has another prefix, or is too long")
        reader = _Reader(raw[1:])
        sequence = reader.integer(_SEQUENCE)
        kind = reader.take(1)
        if kind == _VALIDATOR_CHANGE:
            validator, before = reader.validator(), Before(*reader.unpack(_BEFORE))
            update: Update = ValidatorUpdate(sequence, validator, before, reader.signatures())
        elif kind == _ADMINS_CHANGE:
            admins, replaced = reader.admins(), reader.admins()
            if admins is None or replaced is None:
                raise ValueError("it names no administrators")
            update = AdminsUpdate(sequence, admins, replaced, reader.signatures())
        else:
            raise ValueError("it makes a change of an unknown kind")
        reader.end()
    except ValueError as error:
        raise InvalidField("raw", f"not a governance update: {error}") from None
    check_update(update)
    return update


def check_update(update: Update) -> None:
    """Raises `InvalidField` unless what it sets has the right shape."""
    if isinstance(update, AdminsUpdate):
        check_admins(update.admins)
        check_admins(update.before)
    else:
        check_validator(update.validator, least_power=0)
        check_before(update.before)


def encode_governance(governance: Governance) -> bytes:
    """The canonical bytes that the state root covers and the store keeps."""
    validators, leaving, evidence = governance.validators, governance.leaving, governance.evidence
    return b"".join(
        (
            _GOVERNANCE_VERSION + _SEQUENCE.pack(governance.sequence) + _COUNT.pack(len(validators)),
            *map(_encode_validator, validators),
            b"\0" if leaving is None else b"\1" + _encode_validator(leaving),
            _ADMINS.pack(0, 0) if governance.admins is None else _encode_admins(governance.admins),
            _SEQUENCE.pack(governance.evidence_count) + bytes((len(evidence),)),
            *map(_encode_evidence, evidence),
        )
    )


def decode_governance(raw: bytes) -> Governance:
    """Raises `Corrupt`: only our own bytes come here."""
    try:
        reader = _Reader(raw)
        if reader.take(1) != _GOVERNANCE_VERSION:
            raise ValueError("it is of another version")
        sequence, count = reader.integer(_SEQUENCE), reader.integer(_COUNT)
        validators = tuple(reader.validator() for _ in range(count))
        leaving = reader.validator() if reader.flag() else None
        admins = reader.admins()
        evidence_count = reader.integer(_SEQUENCE)
        evidence = tuple(reader.evidence() for _ in range(reader.take(1)[0]))
        reader.end()
    except ValueError as error:
        raise Corrupt(f"the stored governance cannot be read: {error}") from None
    return Governance(sequence, validators, leaving, admins, evidence, evidence_count)


def _encode_validator(validator: Validator) -> bytes:
    # Nothing of another size may be cut or filled up on its way into a hash.
    check_validator(validator, least_power=0)
    name = validator.name.encode()
    return _VALIDATOR.pack(validator.public_key, validator.power, validator.fee_recipient, len(name)) + name


def _encode_admins(admins: Admins) -> bytes:
    check_admins(admins)
    return _ADMINS.pack(len(admins.addresses), admins.threshold) + b"".join(admins.addresses)


def _encode_evidence(evidence: Evidence) -> bytes:
    if len(evidence.engine_address) != ENGINE_ADDRESS_SIZE:
        raise InvalidField("evidence", f"an address has 20 bytes, not {len(evidence.engine_address)}")
    name = evidence.name.encode()
    head = (evidence.kind, evidence.engine_address, evidence.height, evidence.timestamp, len(name))
    return _EVIDENCE.pack(*head) + name


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

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        return layout.unpack(self.take(layout.size))

    def integer(self, layout: Struct) -> int:
        return int(self.unpack(layout)[0])

    def flag(self) -> bool:
        value = self.take(1)[0]
        if value > 1:
            raise ValueError(f"byte {self._at - 1} is neither 0 nor 1")
        return bool(value)

    def validator(self) -> Validator:
        public_key, power, fee_recipient, name_bytes = self.unpack(_VALIDATOR)
        return Validator(public_key, power, Address(fee_recipient), self.take(name_bytes).decode())

    def admins(self) -> Admins | None:
        count, threshold = self.unpack(_ADMINS)
        if not count and not threshold:
            return None
        return Admins(threshold, tuple(Address(self.take(20)) for _ in range(count)))

    def evidence(self) -> Evidence:
        kind, engine_address, height, timestamp, name_bytes = self.unpack(_EVIDENCE)
        return Evidence(EvidenceKind(kind), engine_address, height, timestamp, self.take(name_bytes).decode())

    def signatures(self) -> tuple[bytes, ...]:
        count = self.take(1)[0]
        if count > MAX_ADMINS:
            raise ValueError(f"it has {count} signatures; {MAX_ADMINS} are possible")
        return tuple(self.take(SIGNATURE_SIZE) for _ in range(count))

    def end(self) -> None:
        if self._at != len(self._content):
            raise ValueError(f"it goes on after byte {self._at}, where it should end")
