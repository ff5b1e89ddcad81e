"""The validators, who make the blocks, the administrators, who may change them and themselves, and who broke a rule.

Values, their bounds, and their bytes: the state root covers those of the governance, blocks hold those of updates.
`updates` applies the updates.

    validator             public key 32 | power 8 | fee recipient 20 | length of the name 1 | name in UTF-8
    administrators        their number 1 | threshold 1 | addresses, 20 each; number and threshold 0: there are none
    evidence              kind 1 | address in CometBFT 20 | height 8 | time 8 | length of the name 1 | name in UTF-8
    governance            3 | sequence 8 | number of changes of powers 8 | height of the block of the newest one 8
                          | number of validators 4 | validators, by public key
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

import hashlib
import re
from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Any

import msgspec

from cairn.domain.crypto import keccak256
from cairn.domain.ed25519 import is_usable_point
from cairn.domain.errors import Corrupt, InvalidField
from cairn.domain.types import Address

PUBLIC_KEY_SIZE = 32
MAX_POWER = 2**60 // 1_000
"""CometBFT bounds the power of all validators together by 2^60; so many can never reach it."""
MAX_VALIDATORS = 1_000
MAX_NAME_BYTES = 64
NAME_PATTERN = "^([!-~]+( [!-~]+)*)?$"
"""No foreign letters that look like others, and no spaces that nobody sees. Names in ASCII can still be alike, such as
`n1` and `nl`: only the key says who is meant."""
MAX_ADMINS = 100
"""Each may have to sign, and an update holds this many signatures at most."""
VOTED_BLOCKS = 100
"""Missing votes are counted in so many of the latest blocks."""
KEPT_EVIDENCE = 100
"""The newest pieces that the state holds; older ones are only counted."""

UPDATE_PREFIX = b"\x81"
"""No transfer starts with it: the types of EIP-2718 end at 0x7f, and the first byte of a list is 0xc0 or above."""
SIGNATURE_SIZE = 65
ENGINE_ADDRESS_SIZE = 20
MAX_UPDATE_BYTES = 11 * 1024
"""More than the longest one has: a hundred administrators who replace a hundred, and the signatures of all."""

_SIGNED_TAG = b"cairn governance update"
_GOVERNANCE_VERSION = b"\x03"
_VALIDATOR_CHANGE, _ADMINS_CHANGE = b"\0", b"\1"
_VALIDATOR = Struct(">32sQ20sB")
_EVIDENCE = Struct(">B20sQQB")
_BEFORE = Struct(">QQII")
_ADMINS = Struct(">BB")
_SEQUENCE = Struct(">Q")
_CHAIN = Struct(">Q32s")
_SET = Struct(">QQI")


class ValidatorRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A validator, as genesis, the state and updates hold it."""

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


class Admins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys that may change the validators and the administrators. Genesis names the first ones."""

    threshold: int
    """How many of them must sign."""
    addresses: tuple[Address, ...]


class EvidenceKind(IntEnum):
    """What a validator did, as CometBFT numbers it."""

    UNKNOWN = 0
    DUPLICATE_VOTE = 1
    """It signed two votes of one round: two processes have its key, or it is hostile."""
    LIGHT_CLIENT_ATTACK = 2
    """It signed a block that is not the chain's."""


class EvidenceRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Proof that a validator broke the rules of consensus. CometBFT has verified it, and a block holds it."""

    kind: EvidenceKind
    engine_address: bytes
    """Who did it: the validator's address in CometBFT."""
    height: int
    """The block on which it was voted."""
    timestamp: int
    """The time of that block."""
    name: str = ""
    """The validator's name when the evidence came; empty if it was none any more, or had no name."""


class Governance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of the state that is not an account; the state root covers it."""

    sequence: int
    """How many updates were applied; the next one must have this number."""
    validators: tuple[ValidatorRecord, ...]
    """Sorted by public key."""
    leaving: ValidatorRecord | None = None
    """The validator that the last update removed. The engine may still let it propose the next block."""
    admins: Admins | None = None
    """Who may change all this; None means nobody."""
    evidence: tuple[EvidenceRecord, ...] = ()
    """The newest pieces, the newest last."""
    evidence_count: int = 0
    """How many pieces there have been in all."""
    set_changes: int = 0
    """How many updates changed who votes with how much power. Each has a step in every certificate after it: so whoever
    is given the steps knows that none is missing."""
    set_changed_at: int = 0
    """The height of the block with the newest of these updates; 0 if there was none."""

    @property
    def total_power(self) -> int:
        return sum(validator.power for validator in self.validators)

    def find(self, public_key: bytes) -> ValidatorRecord | None:
        return next((each for each in self.validators if each.public_key == public_key), None)

    def find_engine(self, engine_address: bytes) -> ValidatorRecord | None:
        """By its address in CometBFT, including the one that is leaving."""
        for validator in (*self.validators, self.leaving):
            if validator is not None and validator.engine_address == engine_address:
                return validator
        return None

    def proposer_of(self, engine_address: bytes) -> Address | None:
        """Where the fees of a block proposed by this validator go."""
        validator = self.find_engine(engine_address)
        return None if validator is None else validator.fee_recipient

    def with_evidence(self, found: Sequence[EvidenceRecord]) -> "Governance":
        """With these pieces, each under the name that its validator has now."""
        named = tuple(msgspec.structs.replace(each, name=self._name_of(each.engine_address)) for each in found)
        return msgspec.structs.replace(
            self,
            evidence=(*self.evidence, *named)[-KEPT_EVIDENCE:],
            evidence_count=self.evidence_count + len(named),
        )

    def _name_of(self, engine_address: bytes) -> str:
        validator = self.find_engine(engine_address)
        return "" if validator is None else validator.name


class ChainIdentity(msgspec.Struct, frozen=True):
    """The chain that an update is for. Its id is not enough: a network that is started over may keep it."""

    chain_id: int
    genesis: bytes
    """The digest of its genesis, 32 bytes."""


class Before(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an administrator should know of the validators before the change. It is signed, so it must be true."""

    power: int
    """Power of this key; 0 if it is new."""
    total_power: int
    validators: int
    """How many there are."""
    namesakes: int
    """How many other validators have its name."""


class ValidatorUpdate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="validator"):
    """Sets one validator; power 0 removes it."""

    sequence: int
    validator: ValidatorRecord
    before: Before
    signatures: tuple[bytes, ...] = ()


class AdminsUpdate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="admins"):
    """Sets the administrators, all at once."""

    sequence: int
    admins: Admins
    before: Admins
    """Those that it replaces."""
    signatures: tuple[bytes, ...] = ()


Update = ValidatorUpdate | AdminsUpdate


def first_governance(validators: Sequence[ValidatorRecord], admins: Admins | None = None) -> Governance:
    """As genesis starts it. Raises `InvalidField` when the validators are none, too many or not told apart."""
    if not 1 <= len(validators) <= MAX_VALIDATORS:
        raise InvalidField("validators", f"there are {len(validators)}; 1 to {MAX_VALIDATORS} are possible")
    for validator in validators:
        check_validator(validator, least_power=1)
        check_public_key("publicKey", validator.public_key)
    if len({validator.public_key for validator in validators}) != len(validators):
        raise InvalidField("validators", "two have the same public key")
    return Governance(0, tuple(sorted(validators, key=lambda validator: validator.public_key)), admins=admins)


def check_validator(validator: ValidatorRecord, least_power: int) -> None:
    """Check the size and the range of each field. Raises `InvalidField`."""
    if len(validator.public_key) != PUBLIC_KEY_SIZE:
        raise InvalidField("publicKey", f"an Ed25519 key has {PUBLIC_KEY_SIZE} bytes, not {len(validator.public_key)}")
    if not least_power <= validator.power <= MAX_POWER:
        raise InvalidField("power", f"it is between {least_power} and {MAX_POWER}, not {validator.power}")
    if len(validator.fee_recipient) != 20:
        raise InvalidField("feeRecipient", f"an address has 20 bytes, not {len(validator.fee_recipient)}")
    if len(validator.name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise InvalidField("name", f"it has at most {MAX_NAME_BYTES} bytes")
    if not re.fullmatch(NAME_PATTERN, validator.name):
        raise InvalidField("name", "it is words of printable ASCII, with single spaces between them")


def check_public_key(field: str, key: bytes) -> None:
    """Check that only who has its secret half can sign with a new key. Raises `InvalidField`."""
    if not is_usable_point(key):
        raise InvalidField(field, "not an Ed25519 key that protects anything: it is of small order, or badly encoded")


def check_admins(admins: Admins) -> None:
    """Check that they can reach their own threshold, in one update. Raises `InvalidField`."""
    count = len(admins.addresses)
    if not 1 <= count <= MAX_ADMINS:
        raise InvalidField("admins.addresses", f"there are {count}; 1 to {MAX_ADMINS} are possible")
    if any(len(address) != 20 for address in admins.addresses):
        raise InvalidField("admins.addresses", "an address has 20 bytes")
    if len(set(admins.addresses)) != count:
        raise InvalidField("admins.addresses", "an address is given twice")
    if not 1 <= admins.threshold <= count:
        raise InvalidField("admins.threshold", f"{admins.threshold} is not between 1 and {count}, the administrators")


def check_before(before: Before) -> None:
    """Check that a chain can have these numbers. Raises `InvalidField`."""
    bounds = {"power": MAX_POWER, "total_power": MAX_POWER * MAX_VALIDATORS, "validators": MAX_VALIDATORS}
    for name, most in (bounds | {"namesakes": MAX_VALIDATORS}).items():
        if not 0 <= getattr(before, name) <= most:
            raise InvalidField("before", f"{name} is between 0 and {most}, not {getattr(before, name)}")


# As bytes.


def update_digest(update: Update, chain: ChainIdentity) -> bytes:
    """What an administrator signs."""
    return keccak256(_SIGNED_TAG + _CHAIN.pack(chain.chain_id, chain.genesis) + _encode_unsigned(update))


def encode_update(update: Update) -> bytes:
    """The bytes that a block holds. Raises `InvalidField` for a signature of another size, or too many."""
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
    """Check the size and the range of each field. Raises `InvalidField`."""
    if isinstance(update, AdminsUpdate):
        check_admins(update.admins)
        check_admins(update.before)
    else:
        check_validator(update.validator, least_power=0)
        # One that the chain has all the same can always be removed.
        if update.validator.power:
            check_public_key("publicKey", update.validator.public_key)
        check_before(update.before)


def encode_governance(governance: Governance) -> bytes:
    """The canonical bytes that the state root covers and the store keeps."""
    validators, leaving, evidence = governance.validators, governance.leaving, governance.evidence
    return b"".join(
        (
            _GOVERNANCE_VERSION + _SEQUENCE.pack(governance.sequence),
            _SET.pack(governance.set_changes, governance.set_changed_at, len(validators)),
            *map(_encode_validator, validators),
            b"\0" if leaving is None else b"\1" + _encode_validator(leaving),
            _ADMINS.pack(0, 0) if governance.admins is None else _encode_admins(governance.admins),
            _SEQUENCE.pack(governance.evidence_count) + bytes((len(evidence),)),
            *map(_encode_evidence, evidence),
        )
    )


def decode_governance(raw: bytes) -> Governance:
    """Read what `encode_governance` gave. Raises `Corrupt`: only our own bytes come here."""
    try:
        reader = _Reader(raw)
        if reader.take(1) != _GOVERNANCE_VERSION:
            raise ValueError("it is of another version")
        sequence = reader.integer(_SEQUENCE)
        set_changes, set_changed_at, count = reader.unpack(_SET)
        validators = tuple(reader.validator() for _ in range(count))
        leaving = reader.validator() if reader.flag() else None
        admins = reader.admins()
        evidence_count = reader.integer(_SEQUENCE)
        evidence = tuple(reader.evidence() for _ in range(reader.take(1)[0]))
        reader.end()
    except ValueError as error:
        raise Corrupt(f"the stored governance cannot be read: {error}") from None
    return Governance(sequence, validators, leaving, admins, evidence, evidence_count, set_changes, set_changed_at)


def _encode_validator(validator: ValidatorRecord) -> bytes:
    # Nothing of another size may be cut or filled up on its way into a hash.
    check_validator(validator, least_power=0)
    name = validator.name.encode()
    return _VALIDATOR.pack(validator.public_key, validator.power, validator.fee_recipient, len(name)) + name


def _encode_admins(admins: Admins) -> bytes:
    check_admins(admins)
    return _ADMINS.pack(len(admins.addresses), admins.threshold) + b"".join(admins.addresses)


def _encode_evidence(evidence: EvidenceRecord) -> bytes:
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

    def validator(self) -> ValidatorRecord:
        public_key, power, fee_recipient, name_bytes = self.unpack(_VALIDATOR)
        return ValidatorRecord(public_key, power, Address(fee_recipient), self.take(name_bytes).decode())

    def admins(self) -> Admins | None:
        count, threshold = self.unpack(_ADMINS)
        if not count and not threshold:
            return None
        return Admins(threshold, tuple(Address(self.take(20)) for _ in range(count)))

    def evidence(self) -> EvidenceRecord:
        kind, engine_address, height, timestamp, name_bytes = self.unpack(_EVIDENCE)
        return EvidenceRecord(EvidenceKind(kind), engine_address, height, timestamp, self.take(name_bytes).decode())

    def signatures(self) -> tuple[bytes, ...]:
        count = self.take(1)[0]
        if count > MAX_ADMINS:
            raise ValueError(f"it has {count} signatures; {MAX_ADMINS} are possible")
        return tuple(self.take(SIGNATURE_SIZE) for _ in range(count))

    def end(self) -> None:
        if self._at != len(self._content):
            raise ValueError(f"it goes on after byte {self._at}, where it should end")
