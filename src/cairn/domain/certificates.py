"""Certificates: who signed a block, checked from genesis alone.

Each chain signs in the format of CometBFT: a header of the engine, whose app hash is our block's, and the votes of
validators for it. A node that makes its blocks alone is a network of one. A change of validators is a step: a header,
signed by those before, that names those after.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

import msgspec

from cairn.domain.crypto import keccak256
from cairn.domain.ed25519 import PUBLIC_KEY_BYTES, is_usable_point, verify
from cairn.domain.errors import Corrupt, InvalidProof
from cairn.domain.genesis import DEV_SIGNER, Genesis, genesis_digest
from cairn.domain.governance import MAX_VALIDATORS, Governance
from cairn.domain.headers import decode_header, encode_header
from cairn.domain.json_fields import about, find_data, hex_text
from cairn.domain.merkle import leaf_hash, root_of
from cairn.domain.types import BlockHash, BlockHeader

MAX_INTEGER = 2**53 - 1
"""The largest integer of a file: every reader of JSON has it exactly."""
MAX_FILE_BYTES = 1_024
"""Of bytes in a file for which the format names no size: what is longer would be work for nothing."""
ENGINE_VERSION = 11
"""Of CometBFT's blocks: `version.block` in each header."""
DIGEST_BYTES = 12
"""As many of the genesis digest are in the engine's chain id, which CometBFT bounds at 50 characters."""
REMEMBERED_HEADERS = 64
LEAVES = 14
_CHAIN_ID, _HEIGHT, _VALIDATORS, _NEXT_VALIDATORS, _APP_HASH = 1, 2, 7, 8, 10
"""Numbers of leaves of the engine's header."""

HexText = Annotated[str, about("0x and two lower-case hexadecimal digits for each byte.", pattern="^0x([0-9a-f]{2})*$")]
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER, extra_json_schema={"format": "int64"})]
_Power = Annotated[int, msgspec.Meta(ge=1, le=MAX_INTEGER, extra_json_schema={"format": "int64"})]


class Parts(msgspec.Struct, frozen=True):
    """How CometBFT divided the block; votes name it beside the header's hash."""

    total: Count
    hash: HexText


class VoteSignature(msgspec.Struct, frozen=True):
    validator: Annotated[Count, about("Number of the validator in its set, from 0.")]
    seconds: Annotated[Count, about("Time of the vote.")]
    nanos: Count
    signature: Annotated[HexText, about("Ed25519, 64 bytes.")]


class SignedHeader(msgspec.Struct, frozen=True):
    header: Annotated[tuple[HexText, ...], about("The fourteen leaves of the engine's header.")]
    round: Count
    parts: Parts
    signatures: Annotated[tuple[VoteSignature, ...], about("By number of the validator, each above the one before.")]


class SetMember(msgspec.Struct, frozen=True, rename="camel"):
    """A validator, as far as signatures go."""

    public_key: Annotated[HexText, about("Ed25519, 32 bytes.")]
    power: _Power

    @property
    def key(self) -> bytes:
        return read_hex(self.public_key, "a validator's public key")


class Step(msgspec.Struct, frozen=True):
    """A change of validators: those before signed a header that names those after."""

    signed: SignedHeader
    validators: Annotated[tuple[SetMember, ...], about("Those after it, in CometBFT's order.")]


class Certificate(msgspec.Struct, frozen=True):
    """Proof that the chain's validators signed a block."""

    steps: Annotated[tuple[Step, ...], about("Every change of validators so far, from genesis on.")]
    signed: SignedHeader
    header: Annotated[HexText, about("Header of the signed block, in RLP.")]


class EngineHeader(msgspec.Struct, frozen=True):
    """CometBFT's header of a block. What is empty here is empty in a chain without a network."""

    chain_id: str
    height: int
    seconds: int
    validators_hash: bytes
    next_validators_hash: bytes
    app_hash: bytes
    proposer_address: bytes
    nanos: int = 0
    version_block: int = ENGINE_VERSION
    version_app: int = 0
    last_block_hash: bytes = b""
    last_parts_total: int = 0
    last_parts_hash: bytes = b""
    last_commit_hash: bytes = b""
    data_hash: bytes = b""
    consensus_hash: bytes = b""
    last_results_hash: bytes = b""
    evidence_hash: bytes = b""


class SignedPower(msgspec.Struct, frozen=True):
    """What a signed header says, and who says so."""

    height: int
    """Of the engine's header."""
    signers: tuple[bytes, ...]
    """Public keys."""
    power: int
    total: int
    """The power of all validators."""


class SignedBlock(msgspec.Struct, frozen=True):
    """A block that the chain's validators signed."""

    header: BlockHeader
    hash: BlockHash
    signed: SignedPower
    validators: tuple[SetMember, ...]
    """Those of the set that signed it, whether they signed or not."""
    changes: int
    """Changes of validators since genesis."""
    is_public_key: bool
    """Everybody has the key of one of the validators from genesis to here, a dev chain's: this proves nothing."""


# Who signs.

_DEV_KEY = "0x" + DEV_SIGNER.hex()
"""As a file has it: with many steps there are thousands of keys to compare."""


def engine_chain_id(genesis: Genesis) -> str:
    """The chain's name in every signature, and for CometBFT, whose nodes refuse peers of another name.

    With the genesis in it: another chain may have the same chain id, and its signatures must mean nothing here.
    """
    return f"cairn-{genesis.chain_id}-{genesis_digest(genesis)[:DIGEST_BYTES].hex()}"


def first_validators(genesis: Genesis) -> tuple[SetMember, ...]:
    """Those that sign from the first block on."""
    if genesis.signer is not None:
        return lone_signer(genesis.signer)
    return in_engine_order((validator.public_key, validator.power) for validator in genesis.validators)


def members_of(governance: Governance) -> tuple[SetMember, ...]:
    """Those that sign two blocks after the one that left this governance."""
    return in_engine_order((validator.public_key, validator.power) for validator in governance.validators)


def next_signer(steps: Sequence[Step], first: tuple[SetMember, ...]) -> bytes:
    """Whose key signs the next block of a chain whose blocks one node makes alone; it began with `first`."""
    return (steps[-1].validators if steps else first)[0].key


def lone_signer(public_key: bytes) -> tuple[SetMember, ...]:
    """The validators of a chain whose blocks one node makes alone."""
    return (SetMember(hex_text(public_key), 1),)


def in_engine_order(validators: Iterable[tuple[bytes, int]]) -> tuple[SetMember, ...]:
    """Public keys and powers in CometBFT's order: the highest power first, then by address."""
    ordered = sorted(validators, key=lambda each: (-each[1], engine_address(each[0])))
    return tuple(SetMember(hex_text(key), power) for key, power in ordered)


def engine_address(public_key: bytes) -> bytes:
    return hashlib.sha256(public_key).digest()[:20]


def validator_set_hash(validators: Sequence[SetMember]) -> bytes:
    """The hash that names a set, whose validators are in CometBFT's order."""
    return _root([_bytes_field(1, _bytes_field(1, each.key)) + _number_field(2, each.power) for each in validators])


# What is signed.


def header_leaves(header: EngineHeader) -> tuple[bytes, ...]:
    parts = _number_field(1, header.last_parts_total) + _bytes_field(2, header.last_parts_hash)
    return (
        _number_field(1, header.version_block) + _number_field(2, header.version_app),
        _bytes_field(1, header.chain_id.encode()),
        _number_field(1, header.height),
        _time(header.seconds, header.nanos),
        _bytes_field(1, header.last_block_hash) + _message_field(2, parts),
        _bytes_field(1, header.last_commit_hash),
        _bytes_field(1, header.data_hash),
        _bytes_field(1, header.validators_hash),
        _bytes_field(1, header.next_validators_hash),
        _bytes_field(1, header.consensus_hash),
        _bytes_field(1, header.app_hash),
        _bytes_field(1, header.last_results_hash),
        _bytes_field(1, header.evidence_hash),
        _bytes_field(1, header.proposer_address),
    )


def header_hash(leaves: Sequence[bytes]) -> bytes:
    return _root(leaves)


def vote_bytes(
    header_hash: bytes,
    *,
    height: int,
    chain_id: str,
    seconds: int,
    nanos: int = 0,
    round: int = 0,
    parts_total: int = 0,
    parts_hash: bytes = b"",
) -> bytes:
    """What a validator signs: its precommit for a header."""
    parts = _number_field(1, parts_total) + _bytes_field(2, parts_hash)
    vote = b"".join(
        (
            b"\x08\x02",
            b"\x11" + height.to_bytes(8, "little"),
            b"\x19" + round.to_bytes(8, "little") if round else b"",
            _message_field(4, _bytes_field(1, header_hash) + _message_field(2, parts)),
            _message_field(5, _time(seconds, nanos)),
            _bytes_field(6, chain_id.encode()),
        )
    )
    return _varint(len(vote)) + vote


# A node that makes its blocks alone.


class BlockSignature(msgspec.Struct, frozen=True):
    """What is stored with a block that one node made and signed alone."""

    signature: bytes
    step: Step | None = None
    """If the block hands over to another key."""


def sign_block(
    header: BlockHeader,
    block_hash: BlockHash,
    chain_id: str,
    signer: bytes,
    sign: Callable[[bytes], bytes],
    successor: bytes | None = None,
) -> BlockSignature:
    """Sign a block with the key whose public half `signer` is; with `successor`, the last one that it signs."""
    engine_header = _lone_header(header, block_hash, chain_id, signer, successor)
    signature = sign(_lone_vote(engine_header))
    if successor is None:
        return BlockSignature(signature)
    return BlockSignature(signature, Step(_lone_signed(engine_header, signature), lone_signer(successor)))


def lone_certificate(
    header: BlockHeader, signature: bytes, chain_id: str, first: tuple[SetMember, ...], steps: Sequence[Step]
) -> Certificate:
    """The certificate of a block from its signature. `steps` are all of the chain, from the `first` signer on."""
    height = header.height + 1
    before = tuple(step for step in steps if signed_height(step.signed) < height)
    validators = before[-1].validators if before else first
    # The step that this very block is.
    following = [step.validators for step in steps if signed_height(step.signed) == height]
    raw = encode_header(header)
    engine_header = _lone_header(
        header,
        BlockHash(keccak256(raw)),
        chain_id,
        validators[0].key,
        following[0][0].key if following else None,
    )
    return Certificate(before, _lone_signed(engine_header, signature), hex_text(raw))


def _lone_header(
    header: BlockHeader, block_hash: BlockHash, chain_id: str, signer: bytes, successor: bytes | None
) -> EngineHeader:
    """The engine's header that names a block: as in a network, that of the height after it."""
    validators = lone_signer(signer)
    validators_hash = validator_set_hash(validators)
    return EngineHeader(
        chain_id=chain_id,
        height=header.height + 1,
        seconds=header.timestamp,
        validators_hash=validators_hash,
        next_validators_hash=validators_hash if successor is None else validator_set_hash(lone_signer(successor)),
        app_hash=block_hash,
        proposer_address=engine_address(signer),
    )


def _lone_vote(header: EngineHeader) -> bytes:
    hashed = header_hash(header_leaves(header))
    return vote_bytes(hashed, height=header.height, chain_id=header.chain_id, seconds=header.seconds)


def _lone_signed(header: EngineHeader, signature: bytes) -> SignedHeader:
    vote = VoteSignature(0, header.seconds, 0, hex_text(signature))
    return SignedHeader(tuple(map(hex_text, header_leaves(header))), 0, Parts(0, "0x"), (vote,))


# Checking.


def check_certificate(certificate: Certificate, genesis: Genesis) -> SignedBlock:
    """The signed block, and who signed it. Raises `InvalidProof` with the reason."""
    return CheckedCertificates(genesis).check(certificate)


Reached = tuple[tuple[SetMember, ...], int]
"""The validators after all steps, and the height of the last."""


class CheckedCertificates:
    """Checks certificates of one chain. Each step, and each of the latest signed headers, is checked once.

    Threads may share it; two that meet the same signatures at the same time may both check them.
    """

    def __init__(self, genesis: Genesis) -> None:
        self._genesis = genesis
        self._chain_id = engine_chain_id(genesis)
        self._first = first_validators(genesis)
        self._followed: tuple[tuple[Step, ...], tuple[Reached, ...]] = (), ((self._first, 0),)
        """The steps, and what is reached after none of them, after the first one, and so on. Replaced as a whole."""
        self._signed: dict[tuple[SignedHeader, tuple[SetMember, ...]], SignedPower] = {}
        """The latest, the oldest first. Replaced as a whole."""

    def check(self, certificate: Certificate) -> SignedBlock:
        """The signed block, and who signed it. Raises `InvalidProof` with the reason."""
        header = certified_header(certificate, self._genesis)
        validators, height = self._follow(certificate.steps)
        signed = self._check_signed(certificate.signed, validators)
        if signed.height <= height:
            raise InvalidProof(
                f"the signed header has height {signed.height}, not above {height}, that of the last step"
            )
        block_hash = keccak256(read_hex(certificate.header, "the block's header"))
        if read_hex(certificate.signed.header[_APP_HASH], "the app hash") != _bytes_field(1, block_hash):
            raise InvalidProof("the signed header names another block")
        sets = (self._first, *(step.validators for step in certificate.steps))
        is_public_key = any(each.public_key == _DEV_KEY for members in sets for each in members)
        return SignedBlock(header, BlockHash(block_hash), signed, validators, len(certificate.steps), is_public_key)

    def _check_signed(self, header: SignedHeader, validators: tuple[SetMember, ...]) -> SignedPower:
        known = self._signed
        signed = known.get((header, validators))
        if signed is None:
            signed = check_signed(header, validators, self._chain_id)
            kept = known.copy()
            if len(kept) >= REMEMBERED_HEADERS:
                del kept[next(iter(kept))]
            self._signed = kept | {(header, validators): signed}
        return signed

    def _follow(self, steps: tuple[Step, ...]) -> Reached:
        known, reached = self._followed
        if steps == known[: len(steps)]:
            return reached[len(steps)]
        if steps[: len(known)] != known:
            # Others than those that were checked: whoever signed them signed two histories.
            return check_steps(steps, self._first, self._chain_id)
        for number in range(len(known), len(steps)):
            validators, height = reached[-1]
            after = check_steps(steps[number : number + 1], validators, self._chain_id, (number, height))
            reached = (*reached, after)
            self._followed = steps[: number + 1], reached
        return reached[-1]


def certified_header(certificate: Certificate, genesis: Genesis) -> BlockHeader:
    """The header of the block that the certificate is for; no signature is looked at. Raises `InvalidProof`."""
    header = read_header(certificate.header)
    if header.chain_id != genesis.chain_id:
        raise InvalidProof(f"a block of another chain: its chain id is {header.chain_id}, not {genesis.chain_id}")
    return header


def read_header(text: str) -> BlockHeader:
    """A block's header in a file. Raises `InvalidProof`."""
    try:
        return decode_header(read_hex(text, "a block's header"))
    except Corrupt as error:
        raise InvalidProof(f"a block's header cannot be read: {error.detail}") from None


def check_steps(
    steps: Sequence[Step], validators: tuple[SetMember, ...], chain_id: str, before: tuple[int, int] = (0, 0)
) -> Reached:
    """The validators after all steps, and the height of the last; 0 without steps. Raises `InvalidProof`.

    `before` is how many steps were checked before these, and the height of the last of them.
    """
    first, height = before
    for number, step in enumerate(steps, first):
        signed = check_signed(step.signed, validators, chain_id)
        if signed.height <= height:
            raise InvalidProof(f"step {number} has height {signed.height}, not above {height}")
        _check_set(step.validators)
        following = read_hex(step.signed.header[_NEXT_VALIDATORS], "the hash of the next validators")
        if following != _bytes_field(1, validator_set_hash(step.validators)):
            raise InvalidProof(f"the validators of step {number} are not those that its header names")
        # Else every header that they sign would be one: whoever counts the steps could be given others.
        if step.validators == validators:
            raise InvalidProof(f"step {number} changes nothing: its validators are those before it")
        validators, height = step.validators, signed.height
    return validators, height


def check_signed(signed: SignedHeader, validators: Sequence[SetMember], chain_id: str) -> SignedPower:
    """Check that more than two thirds of `validators` signed the header, and that it is theirs. Raises `InvalidProof`.

    One wrong signature refuses it, even if the others suffice.
    """
    leaves = [read_hex(text, "a leaf of a signed header") for text in signed.header]
    if len(leaves) != LEAVES:
        raise InvalidProof(f"a signed header has {len(leaves)} leaves, not {LEAVES}")
    if leaves[_CHAIN_ID] != _bytes_field(1, chain_id.encode()):
        raise InvalidProof(f"a signed header of another chain than {chain_id}")
    if leaves[_VALIDATORS] != _bytes_field(1, validator_set_hash(validators)):
        raise InvalidProof("a signed header of other validators")
    height = _read_height(leaves[_HEIGHT])
    signers = _check_signatures(signed, validators, header_hash(leaves), height, chain_id)
    power, total = sum(each.power for each in signers), sum(each.power for each in validators)
    if 3 * power <= 2 * total:
        raise InvalidProof(f"header {height} is signed by {power} of {total} of the power, not by more than two thirds")
    return SignedPower(height, tuple(each.key for each in signers), power, total)


def _check_signatures(
    signed: SignedHeader, validators: Sequence[SetMember], hashed: bytes, height: int, chain_id: str
) -> list[SetMember]:
    """Those who signed."""
    parts_hash = read_hex(signed.parts.hash, "the hash of the parts")
    last, signers = -1, []
    for vote in signed.signatures:
        if vote.validator <= last:
            twice = "twice" if vote.validator == last else "out of order"
            raise InvalidProof(f"validator {vote.validator} is given {twice} among the signatures of header {height}")
        if vote.validator >= len(validators):
            raise InvalidProof(f"header {height} is signed by validator {vote.validator} of {len(validators)}")
        message = vote_bytes(
            hashed,
            height=height,
            chain_id=chain_id,
            seconds=vote.seconds,
            nanos=vote.nanos,
            round=signed.round,
            parts_total=signed.parts.total,
            parts_hash=parts_hash,
        )
        last, signer = vote.validator, validators[vote.validator]
        if not verify(signer.key, message, read_hex(vote.signature, "a signature")):
            raise InvalidProof(f"the signature of validator {vote.validator} on header {height} is wrong")
        signers.append(signer)
    return signers


def _check_set(validators: Sequence[SetMember]) -> None:
    if not validators:
        raise InvalidProof("a step to no validators")
    if len(validators) > MAX_VALIDATORS:
        raise InvalidProof(f"a step to {len(validators)} validators: {MAX_VALIDATORS} are possible")
    members = [(each.key, each.power) for each in validators]
    if any(len(key) != PUBLIC_KEY_BYTES for key, _ in members):
        raise InvalidProof(f"a validator's public key does not have {PUBLIC_KEY_BYTES} bytes")
    if not all(is_usable_point(key) for key, _ in members):
        raise InvalidProof("a step names a key of small order, for which everybody can sign")
    if len({key for key, _ in members}) != len(members):
        raise InvalidProof("a step names a validator twice")
    if in_engine_order(members) != tuple(validators):
        raise InvalidProof("the validators of a step are not in CometBFT's order")


def signed_height(signed: SignedHeader) -> int:
    """Height of the engine's header. Raises `InvalidProof`."""
    return _read_height(read_hex(signed.header[_HEIGHT], "the height of a signed header"))


def _read_height(leaf: bytes) -> int:
    height = 0
    for place, byte in enumerate(leaf[1:10]):
        height |= (byte & 0x7F) << (7 * place)
    # Compared with what it must be, so a varint that is not the shortest is refused, too.
    if not 0 < height < 2**63 or leaf != _number_field(1, height):
        raise InvalidProof("the height of a signed header cannot be read")
    return height


def read_hex(text: str, what: str) -> bytes:
    """Bytes of a file. Raises `InvalidProof`."""
    if len(text) > 2 + 2 * MAX_FILE_BYTES:
        raise InvalidProof(f"{what} has more than {MAX_FILE_BYTES:,} bytes")
    found = find_data(text)
    if found is None or text != text.lower():
        raise InvalidProof(f"{what} is not 0x and lower-case hexadecimal digits, two for each byte")
    return found


def _root(leaves: Sequence[bytes]) -> bytes:
    return root_of(list(map(leaf_hash, leaves)))


# Protobuf: a field that is zero or empty is left out, but for a message that is always there.


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _number_field(field: int, number: int) -> bytes:
    return bytes((field << 3,)) + _varint(number) if number else b""


def _bytes_field(field: int, content: bytes) -> bytes:
    if not content:
        return b""
    # Most are short, and each block that is signed passes here.
    size = len(content)
    return bytes((field << 3 | 2, size)) + content if size < 0x80 else _message_field(field, content)


def _message_field(field: int, content: bytes) -> bytes:
    return bytes((field << 3 | 2,)) + _varint(len(content)) + content


def _time(seconds: int, nanos: int) -> bytes:
    return _number_field(1, seconds) + _number_field(2, nanos)
