"""What CometBFT signed becomes what a certificate holds, and only what is valid there."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cairn.domain.certificates import check_signed, header_hash, header_leaves, vote_bytes
from cairn.domain.errors import InvalidProof
from cairn.engine.network.commits import (
    MOST_AT_ONCE,
    CommitAnswer,
    EngineCommit,
    Vote,
    read_commit,
    read_time,
    signed_header,
)
from tests.support.commits import engine_header, key_of, members, seed_of, sign_commit
from tests.vectors.proofs.small_order import Careless

CHAIN_ID = "cairn-7-00112233445566778899aabb"
FOUR = members({0: 10, 1: 10, 2: 10, 3: 10})
SEEDS = {key_of(number): seed_of(number) for number in range(4)}


def commit(absent: tuple[int, ...] = (), round: int = 0) -> EngineCommit:
    header = engine_header(CHAIN_ID, 12, b"\x0a" * 32, FOUR, FOUR)
    return sign_commit(header, FOUR, SEEDS, [FOUR[number].key for number in absent], round)


def with_votes(made: EngineCommit, votes: list[Vote | None]) -> EngineCommit:
    return msgspec.structs.replace(made, votes=tuple(votes))


@pytest.mark.parametrize("round", [0, 3])
async def test_a_commit_of_all_is_checked_as_a_certificate_is(round: int) -> None:
    signed = await signed_header(commit(round=round), FOUR, CHAIN_ID)
    checked = check_signed(signed, FOUR, CHAIN_ID)
    assert (checked.height, checked.power, checked.total) == (12, 40, 40)
    assert [each.validator for each in signed.signatures] == [0, 1, 2, 3]


async def test_who_did_not_vote_is_left_out_and_the_others_keep_their_numbers() -> None:
    signed = await signed_header(commit(absent=(1,)), FOUR, CHAIN_ID)
    assert [each.validator for each in signed.signatures] == [0, 2, 3]
    assert check_signed(signed, FOUR, CHAIN_ID).power == 30


async def test_two_thirds_of_the_power_are_not_enough() -> None:
    three = FOUR[:3]
    header = engine_header(CHAIN_ID, 12, b"\x0a" * 32, three, three)
    with pytest.raises(InvalidProof, match="signed by 20 of 30"):
        await signed_header(sign_commit(header, three, SEEDS, [three[0].key]), three, CHAIN_ID)


async def test_signatures_that_are_not_valid_are_left_out() -> None:
    first, second, *others = commit().votes
    assert first is not None
    assert second is not None
    for wrong in (
        msgspec.structs.replace(first, signature=second.signature),
        msgspec.structs.replace(first, seconds=first.seconds + 1),
        msgspec.structs.replace(first, nanos=first.nanos + 1),
        msgspec.structs.replace(first, address=second.address),
        msgspec.structs.replace(first, signature=b""),
    ):
        signed = await signed_header(with_votes(commit(), [wrong, second, *others]), FOUR, CHAIN_ID)
        assert [each.validator for each in signed.signatures] == [1, 2, 3]
        assert check_signed(signed, FOUR, CHAIN_ID).power == 30


async def test_a_vote_whose_r_is_of_small_order_is_absent_and_the_others_must_suffice() -> None:
    """CometBFT takes it: its own rule is wider, and whoever has the key can make one."""
    made = commit(absent=(3,))
    leaves = header_hash(header_leaves(made.header))
    vote = made.votes[1]
    assert vote is not None
    message = vote_bytes(
        leaves,
        height=made.header.height,
        chain_id=CHAIN_ID,
        seconds=vote.seconds,
        nanos=vote.nanos,
        parts_total=made.parts_total,
        parts_hash=made.parts_hash,
    )
    signer = Careless(SEEDS[FOUR[1].key], 10)
    assert signer.key == FOUR[1].key
    small = msgspec.structs.replace(vote, signature=signer.sign(message))
    whole = commit()
    signed = await signed_header(with_votes(whole, [whole.votes[0], small, *whole.votes[2:]]), FOUR, CHAIN_ID)
    assert [each.validator for each in signed.signatures] == [0, 2, 3]
    with pytest.raises(InvalidProof, match="signed by 20 of 40"):
        await signed_header(with_votes(made, [made.votes[0], small, *made.votes[2:]]), FOUR, CHAIN_ID)


async def test_a_commit_of_another_chain_or_of_others_is_refused() -> None:
    with pytest.raises(InvalidProof, match="another chain"):
        await signed_header(commit(), FOUR, CHAIN_ID[:-1])
    with pytest.raises(InvalidProof, match="other validators"):
        await signed_header(commit(), FOUR[:3], CHAIN_ID)
    with pytest.raises(InvalidProof, match="has 3 votes of 4"):
        await signed_header(with_votes(commit(), list(commit().votes[:3])), FOUR, CHAIN_ID)


async def test_votes_of_many_are_verified_in_turns_of_the_event_loop() -> None:
    many = members(dict.fromkeys(range(3 * MOST_AT_ONCE), 1))
    seeds = {key_of(number): seed_of(number) for number in range(len(many))}
    made = sign_commit(engine_header(CHAIN_ID, 12, b"\x0a" * 32, many, many), many, seeds)
    work, turns = asyncio.ensure_future(signed_header(made, many, CHAIN_ID)), 0
    while not work.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 3
    assert len(work.result().signatures) == len(many)


# As CometBFT 0.38 answers.

ANSWER: dict[str, Any] = json.loads(Path(__file__).with_name("commit.json").read_text())


def test_a_header_of_cometbft_is_read_so_that_its_hash_is_the_one_that_it_names() -> None:
    made = read_commit(msgspec.convert(ANSWER, CommitAnswer))
    assert made is not None
    assert made.is_canonical
    hashed = header_hash(header_leaves(made.header))
    assert hashed.hex().upper() == ANSWER["signed_header"]["commit"]["block_id"]["hash"]
    assert [vote is None for vote in made.votes] == [False, True]


@pytest.mark.parametrize("flag", [1, 3])
def test_a_vote_for_no_block_is_no_vote(flag: int) -> None:
    changed = json.loads(json.dumps(ANSWER))
    changed["signed_header"]["commit"]["signatures"][0]["block_id_flag"] = flag
    made = read_commit(msgspec.convert(changed, CommitAnswer))
    assert made is not None
    assert made.votes == (None, None)


@pytest.mark.parametrize("missing", ["header", "commit"])
def test_a_header_without_votes_is_none(missing: str) -> None:
    changed = {"signed_header": {**ANSWER["signed_header"], missing: None}, "canonical": True}
    assert read_commit(msgspec.convert(changed, CommitAnswer)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", (0, 0)),
        ("2026-11-18T00:35:05.115892548Z", (1_794_962_105, 115_892_548)),
        ("2026-11-18T00:35:05.1Z", (1_794_962_105, 100_000_000)),
    ],
)
def test_times_to_the_nanosecond(text: str, expected: tuple[int, int]) -> None:
    assert read_time(text) == expected


@pytest.mark.parametrize(
    "text", ["", "2026-11-18T00:35:05", "2026-13-18T00:35:05Z", "0001-01-01T00:00:00Z", "2026-11-18T00:35:05.Z"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"CometBFT|month|1970"):
        read_time(text)
