"""Commits of CometBFT that real keys have signed, without CometBFT."""

import hashlib
from collections.abc import Collection, Mapping, Sequence

from cairn.domain.certificates import (
    EngineHeader,
    SetMember,
    engine_address,
    header_hash,
    header_leaves,
    in_engine_order,
    validator_set_hash,
    vote_bytes,
)
from cairn.domain.ed25519 import public_key_of, sign
from cairn.engine.network.commits import EngineCommit, Vote

PARTS_HASH = hashlib.sha256(b"parts").digest()
VOTED_AT = 1_700_000_000


def seed_of(number: int) -> bytes:
    return hashlib.sha256(b"validator %d" % number).digest()


def key_of(number: int) -> bytes:
    return public_key_of(seed_of(number))


def members(powers: Mapping[int, int]) -> tuple[SetMember, ...]:
    """Validators by number, with their power."""
    return in_engine_order((key_of(number), power) for number, power in powers.items())


def engine_header(
    chain_id: str, height: int, app_hash: bytes, validators: Sequence[SetMember], following: Sequence[SetMember]
) -> EngineHeader:
    before = hashlib.sha256(b"block %d" % (height - 1)).digest() if height > 1 else b""
    return EngineHeader(
        chain_id=chain_id,
        height=height,
        seconds=VOTED_AT,
        nanos=height,
        validators_hash=validator_set_hash(validators),
        next_validators_hash=validator_set_hash(following),
        app_hash=app_hash,
        proposer_address=engine_address(validators[0].key),
        version_app=2,
        last_block_hash=before,
        last_parts_total=int(bool(before)),
        last_parts_hash=PARTS_HASH if before else b"",
        last_commit_hash=hashlib.sha256(b"commit").digest(),
        data_hash=hashlib.sha256(b"").digest(),
        consensus_hash=hashlib.sha256(b"consensus").digest(),
        last_results_hash=hashlib.sha256(b"").digest(),
        evidence_hash=hashlib.sha256(b"").digest(),
    )


def sign_commit(
    header: EngineHeader,
    validators: Sequence[SetMember],
    seeds: Mapping[bytes, bytes],
    absent: Collection[bytes] = (),
    round: int = 0,
    is_canonical: bool = True,
) -> EngineCommit:
    """The votes of all but the `absent`; `seeds` and `absent` are by public key."""
    hashed = header_hash(header_leaves(header))
    votes: list[Vote | None] = []
    for number, member in enumerate(validators):
        if member.key in absent:
            votes.append(None)
            continue
        message = vote_bytes(
            hashed,
            height=header.height,
            chain_id=header.chain_id,
            seconds=VOTED_AT + 1,
            nanos=number,
            round=round,
            parts_total=1,
            parts_hash=PARTS_HASH,
        )
        votes.append(Vote(engine_address(member.key), VOTED_AT + 1, number, sign(seeds[member.key], message)))
    return EngineCommit(header, round, 1, PARTS_HASH, tuple(votes), is_canonical)
