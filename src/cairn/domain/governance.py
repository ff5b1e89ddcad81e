"""The validators, who make the blocks, the administrators, who may change them and themselves, and who broke a rule.

Values and their bounds. `governance_codec` writes them as bytes, `updates` applies the updates.
"""

import hashlib
import re
from collections.abc import Sequence
from enum import IntEnum

import msgspec

from cairn.domain.errors import InvalidField
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


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    validators: tuple[Validator, ...]
    """Sorted by public key."""
    leaving: Validator | None = None
    """The validator that the last update removed. The engine may still let it propose the next block."""
    admins: Admins | None = None
    """Who may change all this; None means nobody."""
    evidence: tuple[Evidence, ...] = ()
    """The newest pieces, the newest last."""
    evidence_count: int = 0
    """How many pieces there have been in all."""

    @property
    def total_power(self) -> int:
        return sum(validator.power for validator in self.validators)

    def find(self, public_key: bytes) -> Validator | None:
        return next((each for each in self.validators if each.public_key == public_key), None)

    def find_engine(self, engine_address: bytes) -> Validator | None:
        """By its address in CometBFT; also the one that is leaving."""
        for validator in (*self.validators, self.leaving):
            if validator is not None and validator.engine_address == engine_address:
                return validator
        return None

    def proposer_of(self, engine_address: bytes) -> Address | None:
        """Where the fees of a block proposed by this validator go."""
        validator = self.find_engine(engine_address)
        return None if validator is None else validator.fee_recipient

    def with_evidence(self, found: Sequence[Evidence]) -> "Governance":
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
    """The chain that an update is for. Its id is not enough: a network that is begun anew may keep it."""

    chain_id: int
    genesis: bytes
    """The digest of its genesis, 32 bytes."""


class Before(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an administrator should know of the validators before the change. It is signed, so it must be true."""

    power: int
    """Of this key; 0 if it is new."""
    total_power: int
    validators: int
    """How many there are."""
    namesakes: int
    """How many other validators have its name."""


class ValidatorUpdate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="validator"):
    """Sets one validator; power 0 removes it."""

    sequence: int
    validator: Validator
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


def first_governance(validators: Sequence[Validator], admins: Admins | None = None) -> Governance:
    """As genesis starts it. Raises `InvalidField` when the validators are none, too many or not told apart."""
    if not 1 <= len(validators) <= MAX_VALIDATORS:
        raise InvalidField("validators", f"there are {len(validators)}; 1 to {MAX_VALIDATORS} are possible")
    for validator in validators:
        check_validator(validator, least_power=1)
    if len({validator.public_key for validator in validators}) != len(validators):
        raise InvalidField("validators", "two have the same public key")
    return Governance(0, tuple(sorted(validators, key=lambda validator: validator.public_key)), admins=admins)


def check_validator(validator: Validator, least_power: int) -> None:
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


def check_admins(admins: Admins) -> None:
    """Raises `InvalidField` unless they can reach their own threshold, in one update."""
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
    """Raises `InvalidField` for what no chain has."""
    bounds = {"power": MAX_POWER, "total_power": MAX_POWER * MAX_VALIDATORS, "validators": MAX_VALIDATORS}
    for name, most in (bounds | {"namesakes": MAX_VALIDATORS}).items():
        if not 0 <= getattr(before, name) <= most:
            raise InvalidField("before", f"{name} is between 0 and {most}, not {getattr(before, name)}")
