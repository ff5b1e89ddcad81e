"""Commits of CometBFT: a header and the votes for it, as its RPC gives them, made into what certificates hold."""

import asyncio
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Protocol

import msgspec

from cairn.domain.certificates import (
    EngineHeader,
    Parts,
    SetMember,
    SignedHeader,
    VoteSignature,
    engine_address,
    header_hash,
    header_leaves,
    validator_set_hash,
    vote_bytes,
)
from cairn.domain.ed25519 import verify
from cairn.domain.errors import InvalidProof
from cairn.domain.json_fields import hex_text

MOST_AT_ONCE = 8
"""Signatures that are verified before the event loop gets its turn: about a millisecond."""
VOTED_FOR_IT = 2
"""`block_id_flag` of a vote for the block; others are absent, or for no block."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")


class Vote(msgspec.Struct, frozen=True):
    address: bytes
    seconds: int
    nanos: int
    signature: bytes


class EngineCommit(msgspec.Struct, frozen=True):
    """A header of CometBFT's, and who voted for it."""

    header: EngineHeader
    round: int
    parts_total: int
    parts_hash: bytes
    votes: tuple[Vote | None, ...]
    """By number of the validator; None for one that did not vote for this header."""
    is_canonical: bool
    """The votes are those in the block after it, the same on every node; else those that this node has seen."""


class CommitSource(Protocol):
    async def commit(self, height: int | None = None) -> EngineCommit | None:
        """The header of this height and the votes for it; by default the newest. None if it is not there, or not any
        more. Raises `RpcAway` or `TimeoutError`.
        """


async def signed_header(commit: EngineCommit, validators: Sequence[SetMember], chain_id: str) -> SignedHeader:
    """The header with the signatures of `validators`, which suffice.

    What is not valid by the rule of certificates is left out: CometBFT's own rule takes a few signatures more, which
    nobody makes by accident. Raises `InvalidProof`.
    """
    header = commit.header
    if header.chain_id != chain_id or header.validators_hash != validator_set_hash(validators):
        raise InvalidProof(f"header {header.height} of CometBFT is of another chain or of other validators")
    if len(commit.votes) != len(validators):
        raise InvalidProof(f"header {header.height} of CometBFT has {len(commit.votes)} votes of {len(validators)}")
    leaves = header_leaves(header)
    hashed = header_hash(leaves)
    signatures, power = [], 0
    for number, (vote, member) in enumerate(zip(commit.votes, validators, strict=True)):
        if number % MOST_AT_ONCE == 0:
            await asyncio.sleep(0)
        if vote is not None and _is_valid(vote, member, commit, hashed):
            signatures.append(VoteSignature(number, vote.seconds, vote.nanos, hex_text(vote.signature)))
            power += member.power
    total = sum(member.power for member in validators)
    if 3 * power <= 2 * total:
        raise InvalidProof(f"header {header.height} of CometBFT is signed by {power} of {total} of the power")
    parts = Parts(commit.parts_total, hex_text(commit.parts_hash))
    return SignedHeader(tuple(map(hex_text, leaves)), commit.round, parts, tuple(signatures))


def _is_valid(vote: Vote, member: SetMember, commit: EngineCommit, hashed: bytes) -> bool:
    if vote.address != engine_address(member.key):
        return False
    message = vote_bytes(
        hashed,
        height=commit.header.height,
        chain_id=commit.header.chain_id,
        seconds=vote.seconds,
        nanos=vote.nanos,
        round=commit.round,
        parts_total=commit.parts_total,
        parts_hash=commit.parts_hash,
    )
    return verify(member.key, message, vote.signature)


# CometBFT's answer. It writes most numbers as text, and bytes in hexadecimal or, of signatures, in base64.

_Number = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,19}$")]
_Hex = Annotated[str, msgspec.Meta(pattern="^([0-9A-Fa-f]{2}){0,32}$")]
_Small = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class _Version(msgspec.Struct, frozen=True):
    block: _Number = "0"
    app: _Number = "0"


class _Parts(msgspec.Struct, frozen=True):
    total: _Small
    hash: _Hex


class _BlockId(msgspec.Struct, frozen=True):
    hash: _Hex
    parts: _Parts


class _Header(msgspec.Struct, frozen=True):
    version: _Version
    chain_id: Annotated[str, msgspec.Meta(max_length=50)]
    height: _Number
    time: str
    last_block_id: _BlockId
    last_commit_hash: _Hex
    data_hash: _Hex
    validators_hash: _Hex
    next_validators_hash: _Hex
    consensus_hash: _Hex
    app_hash: _Hex
    last_results_hash: _Hex
    evidence_hash: _Hex
    proposer_address: _Hex


class _CommitSignature(msgspec.Struct, frozen=True):
    block_id_flag: int
    validator_address: _Hex
    timestamp: str
    signature: bytes | None


class _Commit(msgspec.Struct, frozen=True):
    round: _Small
    block_id: _BlockId
    signatures: list[_CommitSignature]


class _SignedHeader(msgspec.Struct, frozen=True):
    header: _Header | None
    commit: _Commit | None


class CommitAnswer(msgspec.Struct, frozen=True):
    """CometBFT's answer to `commit`."""

    signed_header: _SignedHeader
    canonical: bool


def read_commit(answer: CommitAnswer) -> EngineCommit | None:
    """None if CometBFT has the header without votes, or neither. Raises `ValueError`."""
    header, commit = answer.signed_header.header, answer.signed_header.commit
    if header is None or commit is None:
        return None
    return EngineCommit(
        _read_header(header),
        commit.round,
        commit.block_id.parts.total,
        bytes.fromhex(commit.block_id.parts.hash),
        tuple(map(_read_vote, commit.signatures)),
        answer.canonical,
    )


def _read_header(header: _Header) -> EngineHeader:
    seconds, nanos = read_time(header.time)
    return EngineHeader(
        chain_id=header.chain_id,
        height=int(header.height),
        seconds=seconds,
        nanos=nanos,
        validators_hash=bytes.fromhex(header.validators_hash),
        next_validators_hash=bytes.fromhex(header.next_validators_hash),
        app_hash=bytes.fromhex(header.app_hash),
        proposer_address=bytes.fromhex(header.proposer_address),
        version_block=int(header.version.block),
        version_app=int(header.version.app),
        last_block_hash=bytes.fromhex(header.last_block_id.hash),
        last_parts_total=header.last_block_id.parts.total,
        last_parts_hash=bytes.fromhex(header.last_block_id.parts.hash),
        last_commit_hash=bytes.fromhex(header.last_commit_hash),
        data_hash=bytes.fromhex(header.data_hash),
        consensus_hash=bytes.fromhex(header.consensus_hash),
        last_results_hash=bytes.fromhex(header.last_results_hash),
        evidence_hash=bytes.fromhex(header.evidence_hash),
    )


def _read_vote(vote: _CommitSignature) -> Vote | None:
    if vote.block_id_flag != VOTED_FOR_IT or vote.signature is None:
        return None
    return Vote(bytes.fromhex(vote.validator_address), *read_time(vote.timestamp), vote.signature)


def read_time(text: str) -> tuple[int, int]:
    """Seconds since 1970, and nanoseconds. Raises `ValueError`."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time as CometBFT writes it")
    seconds = int(datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp())
    if seconds < 0:
        raise ValueError(f"{text!r} is before 1970")
    return seconds, int((found[2] or "").ljust(9, "0"))
