"""The five files of proof as types, and how they are read: finality, receipt, account, statement and history.

A node answers with them, and anybody checks them later with genesis.json alone (`proof_checks`).
"""

import json
import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from cairn.domain.certificates import Certificate, Count, HexText
from cairn.domain.errors import InvalidProof
from cairn.domain.json_fields import AddressText, HashText, about, hex_bytes

HeaderText = Annotated[HexText, about("Header of the block in RLP; its keccak-256 is the block's hash.")]
Path = Annotated[list[HashText], about("Sibling hashes on the way to the root, lowest level first (RFC 6962).")]
LeafIndex = Annotated[Count, about("Number of the leaf in its tree, from 0.")]
LeafCount = Annotated[Count, about("How many leaves the tree has.")]
Height = Annotated[Count, about("Height of a block.")]
PublicKeyHex = Annotated[str, hex_bytes(32, "Ed25519, 0x and 64 lower-case hexadecimal digits.")]


class BlockPath(msgspec.Struct, frozen=True):
    """A block: the one that is signed, with the same bytes and no history, or one that its history holds."""

    header: HeaderText
    history: Path


class PaymentPath(msgspec.Struct, frozen=True):
    """A signed transaction and its path to the transactions root of its block."""

    transaction: Annotated[HexText, about("The signed transaction as it is hashed.")]
    index: LeafIndex
    path: Path


class StatePath(msgspec.Struct, frozen=True):
    """An account's leaf under the state root of the signed block; or the one in whose gap the address lies."""

    leaf: Annotated[str, hex_bytes(88, "Address 20, balance 32, nonce 8, height of the last touch 8, next address 20.")]
    number: LeafIndex
    size: LeafCount
    path: Path


class ChangePath(msgspec.Struct, frozen=True):
    """What one block did to the account: its leaf under the block's changes root, `receiptsRoot`."""

    block: BlockPath
    leaf: Annotated[
        str,
        hex_bytes(108, "Address 20, height of the touch before 8 (2^64-1: none), balance 32 and nonce 8 before, "
                  "balance 32 and nonce 8 after."),
    ]  # fmt: skip
    index: LeafIndex
    count: LeafCount
    path: Path


class StatementChange(ChangePath, frozen=True):
    """A change with all transactions of the block that name the account, in their order."""

    payments: list[PaymentPath]


class WitnessSignature(msgspec.Struct, frozen=True, rename="camel"):
    public_key: PublicKeyHex
    signature: Annotated[str, hex_bytes(64, "Ed25519, over the block as this witness saw it.")]


class Descendant(msgspec.Struct, frozen=True):
    """A block in whose history the signed one is, or that block itself, with signatures of witnesses."""

    header: HeaderText
    history: Path
    witnesses: list[WitnessSignature]


class ProofFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="format"):
    """What every file of proof has."""

    certificate: Certificate
    descendants: Annotated[list[Descendant], Meta(description="Later blocks that witnesses signed.")] = []


class FinalityFile(ProofFile, frozen=True, kw_only=True, tag="cairn-finality-1"):
    """Proves that a block is final."""

    block: BlockPath


class ReceiptFile(ProofFile, frozen=True, kw_only=True, tag="cairn-receipt-1"):
    """Proves that a payment is final."""

    block: BlockPath
    payment: PaymentPath


class AccountFile(ProofFile, frozen=True, kw_only=True, tag="cairn-account-1"):
    """Proves what an account held after the block at `height`, by exactly one of `state` and `change`."""

    address: AddressText
    height: Height
    state: StatePath | None = None
    change: ChangePath | None = None


class StatementFile(ProofFile, frozen=True, kw_only=True, tag="cairn-statement-1"):
    """Proves all that happened to an account from one block to another; it ends with one of `state` and `next`."""

    address: AddressText
    first: Height = msgspec.field(name="from")
    last: Height = msgspec.field(name="to")
    changes: list[StatementChange]
    state: StatePath | None = None
    next: ChangePath | None = None
    ends: Annotated[
        list[BlockPath],
        Meta(description="Those known of the blocks from - 1, from, to and to + 1: they show of which days it is."),
    ] = []


class HistoryFile(ProofFile, frozen=True, kw_only=True, tag="cairn-history-1"):
    """Proves that the history at one block begins with that at an earlier one: it was only appended to."""

    first: HeaderText
    second: BlockPath
    inclusion: Path
    consistency: Path


AnyProofFile = FinalityFile | ReceiptFile | AccountFile | StatementFile | HistoryFile

_UNSIGNED: dict[str, Any] = {
    "steps": [],
    "signed": {"header": [], "round": 0, "parts": {"total": 0, "hash": "0x"}, "signatures": []},
}
"""What takes the place of signatures that nobody looks at."""

MAX_DEPTH = 32
"""Lists and objects within each other: JSON libraries differ in how many they take."""
MAX_BYTES = 2**28
"""Of a whole file: a year of a busy account has less, and a longer statement can be cut in two."""
_MAX_DIGITS = 16

_strings = re.compile(rb'"[ !#-\[\]-~]*"')
_is_plain = re.compile(rb"[0-9{}\[\]:, \t\n\r]*").fullmatch
_brackets = re.compile(rb"[{}\[\]]")


def read_file(raw: bytes, *, without_signatures: bool = False) -> AnyProofFile:
    """Read a file of proof. Raises `InvalidProof`.

    The rules are so strict that every verifier in every language takes the same files: see docs/formats.md.
    Without signatures, whatever stands in their place is taken: the caller trusts a block of the file already.
    """
    fields = parse_fields(raw)
    certificate = fields.get("certificate")
    if without_signatures and isinstance(certificate, dict):
        fields["certificate"] = certificate | _UNSIGNED
    try:
        file: AnyProofFile = msgspec.convert(fields, AnyProofFile)
    except msgspec.ValidationError as error:
        raise InvalidProof(f"the file is not a proof: {error}") from None
    return file


def encode_file(file: AnyProofFile) -> bytes:
    """The file as `cairn` saves it."""
    return msgspec.json.encode(file) + b"\n"


def parse_fields(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_BYTES:
        raise InvalidProof(f"the file has more than {MAX_BYTES:,} bytes")
    outside = _strings.sub(b"", raw)
    if not _is_plain(outside):
        raise InvalidProof("the file is not JSON of the plain kind that proofs have: ASCII, integers, no escapes")
    depth = 0
    for bracket in _brackets.findall(outside):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise InvalidProof(f"the file is nested more than {MAX_DEPTH} deep")
    try:
        # The last one counts of a key that is given twice: JSON libraries agree on nothing else.
        fields = json.loads(raw, parse_int=_integer)
    except ValueError as error:
        raise InvalidProof(f"the file is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise InvalidProof("the file is not a JSON object")
    return fields


def _integer(digits: str) -> int:
    # A longer one is refused where it has a meaning, and where it has none it must cost nothing.
    return int(digits) if len(digits) <= _MAX_DIGITS else -1
