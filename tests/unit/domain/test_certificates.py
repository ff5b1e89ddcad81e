"""Certificates: real commits of a network, a chain of one signer, and everything that must be refused by name."""

import base64
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cairn.domain.certificates import (
    Certificate,
    EngineHeader,
    Parts,
    SetMember,
    SignedHeader,
    Step,
    VoteSignature,
    check_certificate,
    check_signed,
    check_steps,
    engine_address,
    engine_chain_id,
    first_validators,
    header_hash,
    header_leaves,
    in_engine_order,
    lone_signer,
    validator_set_hash,
    vote_bytes,
)
from cairn.domain.ed25519 import public_key_of, sign
from cairn.domain.errors import InvalidProof
from cairn.domain.genesis import DEV_SIGNER, Genesis, dev_genesis, genesis_outcome, parse_genesis
from cairn.domain.headers import block_hash, encode_header
from cairn.domain.json_fields import hex_text
from cairn.domain.types import BlockHeader

COMMITTED = 2
"""CometBFT's flag of a vote for the block; 1 is absent, 3 is nil."""
NETWORK: dict[str, Any] = json.loads((Path(__file__).parents[2] / "vectors" / "commits.json").read_text())
"""Of a network of four validators: one absent; two changes of validators; one nil vote, in round 1."""
NETWORK_GENESIS = parse_genesis(NETWORK["genesis"].encode())
NETWORK_ID = engine_chain_id(NETWORK_GENESIS)
SEEDS = [bytes([number]) * 32 for number in range(1, 8)]
KEYS = {public_key_of(seed): seed for seed in SEEDS}


def of_network(height: int) -> SignedHeader:
    """A signed header as CometBFT's RPC gives it."""
    found = next(each for each in NETWORK["signedHeaders"] if each["header"]["height"] == str(height))
    header, commit = found["header"], found["commit"]
    last = header["last_block_id"]
    hashes = {
        name: bytes.fromhex(header[name])
        for name in (
            "last_commit_hash",
            "data_hash",
            "validators_hash",
            "next_validators_hash",
            "consensus_hash",
            "app_hash",
            "last_results_hash",
            "evidence_hash",
            "proposer_address",
        )
    }
    seconds, nanos = read_time(header["time"])
    leaves = header_leaves(
        EngineHeader(
            chain_id=header["chain_id"],
            height=int(header["height"]),
            seconds=seconds,
            nanos=nanos,
            version_block=int(header["version"]["block"]),
            version_app=int(header["version"]["app"]),
            last_block_hash=bytes.fromhex(last["hash"]),
            last_parts_total=last["parts"]["total"],
            last_parts_hash=bytes.fromhex(last["parts"]["hash"]),
            **hashes,
        )
    )
    assert header_hash(leaves).hex().upper() == commit["block_id"]["hash"]
    votes = [
        VoteSignature(number, *read_time(vote["timestamp"]), hex_text(base64.b64decode(vote["signature"])))
        for number, vote in enumerate(commit["signatures"])
        if vote["block_id_flag"] == COMMITTED
    ]
    parts = commit["block_id"]["parts"]
    return SignedHeader(
        tuple(map(hex_text, leaves)),
        commit["round"],
        Parts(parts["total"], "0x" + parts["hash"].lower()),
        tuple(votes),
    )


def read_time(text: str) -> tuple[int, int]:
    whole, _, part = text.removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp()), int(part.ljust(9, "0"))


def validators_at(height: int) -> tuple[SetMember, ...]:
    return in_engine_order(
        (base64.b64decode(each["publicKey"]), each["power"]) for each in NETWORK["validators"][str(height)]
    )


def signed_by(
    validators: Sequence[SetMember],
    app_hash: bytes = bytes(32),
    *,
    genesis: Genesis | None = None,
    height: int = 5,
    after: Sequence[SetMember] | None = None,
    signers: Sequence[int] | None = None,
    **header: Any,
) -> SignedHeader:
    """A header that `signers`, all of them unless given, signed."""
    chain_id = engine_chain_id(genesis or dev_genesis())
    named: dict[str, Any] = {
        "chain_id": chain_id,
        "height": height,
        "seconds": 100,
        "validators_hash": validator_set_hash(validators),
        "next_validators_hash": validator_set_hash(after or validators),
        "app_hash": app_hash,
        "proposer_address": engine_address(validators[0].key),
    }
    leaves = header_leaves(EngineHeader(**(named | header)))
    message = vote_bytes(header_hash(leaves), height=height, chain_id=chain_id, seconds=100)
    votes = [
        VoteSignature(number, 100, 0, hex_text(sign(KEYS[validators[number].key], message)))
        for number in (range(len(validators)) if signers is None else signers)
    ]
    return SignedHeader(tuple(map(hex_text, leaves)), 0, Parts(0, "0x"), tuple(votes))


def genesis_of(seed: bytes) -> Genesis:
    return msgspec.structs.replace(dev_genesis(), signer=public_key_of(seed))


def certified(genesis: Genesis, block: BlockHeader | None = None, **changes: Any) -> Certificate:
    """A certificate of a chain of one signer, for its first block unless another is given."""
    header = block or genesis_outcome(genesis).block.header
    signed = signed_by(first_validators(genesis), block_hash(header), genesis=genesis)
    whole = Certificate((), signed, hex_text(encode_header(header)))
    return msgspec.structs.replace(whole, **changes)


# What a real network signed.


def test_a_commit_of_cometbft_holds_from_its_genesis_alone() -> None:
    validators = first_validators(NETWORK_GENESIS)
    signed = check_signed(of_network(1), validators, NETWORK_ID)
    assert (signed.height, signed.power, signed.total) == (1, 30, 40)
    assert set(signed.signers) < {each.key for each in validators}


def test_the_changes_of_a_network_s_validators_are_followed() -> None:
    steps = [Step(of_network(5), validators_at(6)), Step(of_network(7), validators_at(8))]
    validators, height = check_steps(steps, first_validators(NETWORK_GENESIS), NETWORK_ID)
    assert (len(validators), height) == (3, 7)
    # In round 1, with a vote for nothing.
    signed = check_signed(of_network(14), validators, NETWORK_ID)
    assert (signed.height, signed.power, signed.total) == (14, 27, 37)


def test_a_step_that_is_left_out_is_noticed() -> None:
    steps = [Step(of_network(7), validators_at(8))]
    with pytest.raises(InvalidProof, match="of other validators"):
        check_steps(steps, first_validators(NETWORK_GENESIS), NETWORK_ID)


def test_each_altered_leaf_of_a_real_header_breaks_its_signatures() -> None:
    signed, validators = of_network(1), first_validators(NETWORK_GENESIS)
    for number, leaf in enumerate(signed.header):
        altered = leaf[:-1] + ("0" if leaf[-1] != "0" else "1") if len(leaf) > 2 else "0x0a"
        header = (*signed.header[:number], altered, *signed.header[number + 1 :])
        with pytest.raises(InvalidProof):
            check_signed(msgspec.structs.replace(signed, header=header), validators, NETWORK_ID)


# A chain of one signer.


def test_one_signer_is_a_network_of_one() -> None:
    genesis = genesis_of(SEEDS[0])
    proven = check_certificate(certified(genesis), genesis)
    assert proven.header == genesis_outcome(genesis).block.header
    assert proven.hash == genesis_outcome(genesis).block.hash
    assert (proven.signed.power, proven.signed.total, proven.changes) == (1, 1, 0)
    assert proven.signed.signers == (public_key_of(SEEDS[0]),)
    assert not proven.is_public_key


def test_a_certificate_is_the_same_after_json() -> None:
    genesis = genesis_of(SEEDS[0])
    step = Step(signed_by(first_validators(genesis), genesis=genesis), lone_signer(public_key_of(SEEDS[1])))
    certificate = certified(genesis, steps=(step,))
    text = msgspec.json.encode(certificate)
    assert msgspec.json.decode(text, type=Certificate) == certificate
    shown = json.loads(text)
    assert set(shown) == {"steps", "signed", "header"}
    assert set(shown["signed"]) == {"header", "round", "parts", "signatures"}
    assert set(shown["signed"]["signatures"][0]) == {"validator", "seconds", "nanos", "signature"}
    assert shown["steps"][0]["validators"] == [{"publicKey": hex_text(public_key_of(SEEDS[1])), "power": 1}]


@pytest.mark.parametrize("text", [b"-1", b"9007199254740992", b"1.5", b"true", b'"1"', b"null"])
def test_a_number_that_not_every_reader_has_exactly_is_refused(text: bytes) -> None:
    encoded = msgspec.json.encode(certified(genesis_of(SEEDS[0])))
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(encoded.replace(b'"round":0', b'"round":' + text), type=Certificate)


def test_the_key_of_a_dev_chain_is_named_as_public() -> None:
    genesis = dev_genesis()
    KEYS[DEV_SIGNER] = bytes.fromhex("877b03dca164d49f5d9098bcf24538bb0923b1affa5228d662b818174f3ae6e0")
    assert check_certificate(certified(genesis), genesis).is_public_key


def test_a_hand_over_to_another_key_is_followed() -> None:
    genesis = genesis_of(SEEDS[0])
    first, second = first_validators(genesis), lone_signer(public_key_of(SEEDS[1]))
    header = genesis_outcome(genesis).block.header
    step = Step(signed_by(first, genesis=genesis, height=4, after=second), second)
    signed = signed_by(second, block_hash(header), genesis=genesis)
    proven = check_certificate(certified(genesis, steps=(step,), signed=signed), genesis)
    assert (proven.changes, proven.signed.signers) == (1, (public_key_of(SEEDS[1]),))


def test_after_a_hand_over_the_old_key_signs_no_more() -> None:
    genesis = genesis_of(SEEDS[0])
    first, second = first_validators(genesis), lone_signer(public_key_of(SEEDS[1]))
    step = Step(signed_by(first, genesis=genesis, height=4, after=second), second)
    with pytest.raises(InvalidProof, match="of other validators"):
        check_certificate(certified(genesis, steps=(step,)), genesis)


@pytest.mark.parametrize(
    ("alter", "why"),
    [
        (
            lambda genesis: certified(genesis, genesis_outcome(dev_genesis(chain_id=7)).block.header),
            "its chain id is 7",
        ),
        (lambda genesis: certified(genesis_of(SEEDS[1])), "of another chain"),
        (
            lambda genesis: certified(genesis, signed=signed_by(first_validators(genesis), genesis=genesis)),
            "names another block",
        ),
        (lambda genesis: certified(genesis, header="0x"), "cannot be read"),
        (lambda genesis: certified(genesis, header="0xc0"), "cannot be read"),
        (lambda genesis: certified(genesis, header="nothing"), "hexadecimal"),
        (lambda genesis: certified(genesis, header=certified(genesis).header.upper()), "hexadecimal"),
    ],
)
def test_a_certificate_of_another_chain_or_block_is_refused(alter: Callable[[Genesis], Certificate], why: str) -> None:
    genesis = genesis_of(SEEDS[0])
    with pytest.raises(InvalidProof, match=why):
        check_certificate(alter(genesis), genesis)


@pytest.mark.parametrize(("step_height", "signed_height"), [(5, 5), (5, 4), (6, 5)])
def test_a_signature_from_before_the_last_step_is_refused(step_height: int, signed_height: int) -> None:
    genesis = genesis_of(SEEDS[0])
    first, second = first_validators(genesis), lone_signer(public_key_of(SEEDS[1]))
    step = Step(signed_by(first, genesis=genesis, height=step_height, after=second), second)
    app_hash = block_hash(genesis_outcome(genesis).block.header)
    signed = signed_by(second, app_hash, genesis=genesis, height=signed_height)
    with pytest.raises(InvalidProof, match=f"height {signed_height}, not above {step_height}"):
        check_certificate(certified(genesis, steps=(step,), signed=signed), genesis)


# Several validators.

CHAIN_ID = engine_chain_id(dev_genesis())
FOUR = in_engine_order((key, power) for key, power in zip(list(KEYS)[:4], (1, 2, 3, 1), strict=True))
OTHERS = in_engine_order((key, 10) for key in list(KEYS)[3:7])


def test_validators_are_in_the_order_of_power_and_then_of_address() -> None:
    assert [each.power for each in FOUR] == [3, 2, 1, 1]
    assert engine_address(FOUR[2].key) < engine_address(FOUR[3].key)


def test_more_than_two_thirds_of_the_power_is_enough_and_two_thirds_are_not() -> None:
    assert check_signed(signed_by(FOUR, signers=[0, 1]), FOUR, CHAIN_ID).power == 5
    three = in_engine_order((key, 1) for key in list(KEYS)[:3])
    with pytest.raises(InvalidProof, match="signed by 2 of 3 of the power"):
        check_signed(signed_by(three, signers=[0, 1]), three, CHAIN_ID)
    with pytest.raises(InvalidProof, match="signed by 4 of 7 of the power"):
        check_signed(signed_by(FOUR, signers=[0, 2]), FOUR, CHAIN_ID)
    with pytest.raises(InvalidProof, match="signed by 0 of 7 of the power"):
        check_signed(signed_by(FOUR, signers=[]), FOUR, CHAIN_ID)


@pytest.mark.parametrize(
    ("signers", "why"),
    [([0, 0, 1], "validator 0 is given twice"), ([1, 0], "validator 0 is given out of order")],
)
def test_a_validator_counts_once(signers: list[int], why: str) -> None:
    with pytest.raises(InvalidProof, match=why):
        check_signed(signed_by(FOUR, signers=signers), FOUR, CHAIN_ID)


def test_a_signature_of_no_validator_is_refused() -> None:
    signed = signed_by(FOUR)
    votes = (*signed.signatures[:3], msgspec.structs.replace(signed.signatures[3], validator=4))
    with pytest.raises(InvalidProof, match="validator 4 of 4"):
        check_signed(msgspec.structs.replace(signed, signatures=votes), FOUR, CHAIN_ID)


@pytest.mark.parametrize(
    "change", [{"seconds": 101}, {"nanos": 1}, {"signature": "0x"}, {"signature": "0x" + "00" * 64}]
)
def test_one_wrong_signature_refuses_all_of_them(change: dict[str, Any]) -> None:
    signed = signed_by(FOUR)
    votes = (*signed.signatures[:3], msgspec.structs.replace(signed.signatures[3], **change))
    with pytest.raises(InvalidProof, match="the signature of validator 3 on header 5 is wrong"):
        check_signed(msgspec.structs.replace(signed, signatures=votes), FOUR, CHAIN_ID)


@pytest.mark.parametrize("change", [{"round": 1}, {"parts": Parts(1, "0x")}, {"parts": Parts(0, "0x00")}])
def test_another_round_or_division_was_not_signed(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidProof, match="is wrong"):
        check_signed(msgspec.structs.replace(signed_by(FOUR), **change), FOUR, CHAIN_ID)


def test_a_header_of_other_validators_or_of_another_chain_is_refused() -> None:
    with pytest.raises(InvalidProof, match="other validators"):
        check_signed(signed_by(OTHERS), FOUR, CHAIN_ID)
    with pytest.raises(InvalidProof, match="another chain"):
        check_signed(signed_by(FOUR, chain_id="cairn-1"), FOUR, CHAIN_ID)


@pytest.mark.parametrize("leaf", ["0x", "0x08", "0x0800", "0x088500", "0x1005", "0x0805ff", "0x08" + "ff" * 9 + "01"])
def test_a_height_in_any_but_its_shortest_form_is_refused(leaf: str) -> None:
    signed = signed_by(FOUR)
    header = (*signed.header[:2], leaf, *signed.header[3:])
    with pytest.raises(InvalidProof, match="height of a signed header"):
        check_signed(msgspec.structs.replace(signed, header=header), FOUR, CHAIN_ID)


@pytest.mark.parametrize("count", [0, 13, 15])
def test_a_header_with_too_few_or_too_many_leaves_is_refused(count: int) -> None:
    header = (*signed_by(FOUR).header, "0x")[:count]
    with pytest.raises(InvalidProof, match=f"{count} leaves"):
        check_signed(msgspec.structs.replace(signed_by(FOUR), header=header), FOUR, CHAIN_ID)


@pytest.mark.parametrize(
    ("following", "why"),
    [
        ((), "no validators"),
        (OTHERS[::-1], "not in CometBFT's order"),
        ((OTHERS[0], OTHERS[0]), "a validator twice"),
        ((SetMember("0x00", 1),), "32 bytes"),
    ],
)
def test_a_step_to_what_is_no_set_of_validators_is_refused(following: tuple[SetMember, ...], why: str) -> None:
    step = Step(signed_by(FOUR, after=following or None), following)
    with pytest.raises(InvalidProof, match=why):
        check_steps([step], FOUR, CHAIN_ID)


def test_a_step_to_others_than_its_header_names_is_refused() -> None:
    with pytest.raises(InvalidProof, match="validators of step 0 are not those"):
        check_steps([Step(signed_by(FOUR, after=OTHERS), FOUR)], FOUR, CHAIN_ID)


def test_a_step_that_too_few_signed_is_refused() -> None:
    with pytest.raises(InvalidProof, match="3 of 7 of the power"):
        check_steps([Step(signed_by(FOUR, after=OTHERS, signers=[0]), OTHERS)], FOUR, CHAIN_ID)


def test_steps_ascend() -> None:
    steps = [Step(signed_by(FOUR, height=6, after=OTHERS), OTHERS), Step(signed_by(OTHERS, after=FOUR), FOUR)]
    with pytest.raises(InvalidProof, match="step 1 has height 5, not above 6"):
        check_steps(steps, FOUR, CHAIN_ID)


def test_the_longest_engine_chain_id_is_one_that_cometbft_takes() -> None:
    assert len(engine_chain_id(dev_genesis(chain_id=9_223_372_036_854_775_771))) == 50
