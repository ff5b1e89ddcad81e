"""Whoever checks many certificates of a chain checks each step and each header once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from itertools import count
from threading import Barrier
from unittest.mock import patch

import msgspec
import pytest

from cairn.domain import certificates
from cairn.domain.certificates import Certificate, CheckedCertificates
from cairn.domain.ed25519 import verify
from cairn.domain.errors import InvalidProof
from cairn.domain.genesis import parse_genesis
from tests.support.pace import PATIENCE_S
from tests.support.proof_chain import ProofChain

OLD, NEW = {"a": 10, "b": 10, "c": 10, "d": 10}, {"b": 10, "c": 10, "d": 10}


def chain_of(seed: str = "steps", changes: tuple[int, ...] = (3, 6)) -> ProofChain:
    chain = ProofChain(seed, OLD)
    for number, height in enumerate(changes):
        chain.change_validators(OLD if number % 2 else NEW, height)
    for _ in range(8):
        chain.add()
    return chain


def certificate_at(chain: ProofChain, height: int) -> Certificate:
    return msgspec.convert(chain.certificate(height), Certificate)


@pytest.fixture
def verified() -> Iterator[list[bytes]]:
    """The keys of all signatures that are verified."""
    keys: list[bytes] = []

    def count(public_key: bytes, message: bytes, signature: bytes) -> bool:
        keys.append(public_key)
        return verify(public_key, message, signature)

    with patch.object(certificates, "verify", count):
        yield keys


def test_steps_and_headers_that_were_checked_are_not_checked_again(verified: list[bytes]) -> None:
    chain = chain_of()
    checked = CheckedCertificates(parse_genesis(chain.genesis))
    expected = [(1, 4, 0), (4, 4 + 3, 1), (8, 3 + 4, 2), (8, 0, 2), (4, 0, 1), (3, 3, 1), (7, 4, 2)]
    for height, signatures, changes in expected:
        verified.clear()
        block = checked.check(certificate_at(chain, height))
        assert (block.header.height, block.changes, len(verified)) == (height, changes, signatures)


def test_other_steps_than_those_that_were_checked_are_checked_from_genesis_on(verified: list[bytes]) -> None:
    chain, other = chain_of(), chain_of(changes=(4, 6))
    checked = CheckedCertificates(parse_genesis(chain.genesis))
    assert checked.check(certificate_at(chain, 8)).changes == 2
    verified.clear()
    assert checked.check(certificate_at(other, 8)).changes == 2
    # The last header is the same in both.
    assert len(verified) == 4 + 3
    verified.clear()
    assert checked.check(certificate_at(chain, 8)).changes == 2
    assert not verified


def test_a_step_that_was_refused_is_refused_again_and_does_not_count() -> None:
    chain = chain_of()
    checked = CheckedCertificates(parse_genesis(chain.genesis))
    right = certificate_at(chain, 8)
    forged = msgspec.structs.replace(right.steps[1], validators=right.steps[0].validators)
    wrong = msgspec.structs.replace(right, steps=(right.steps[0], forged))
    for _ in range(2):
        with pytest.raises(InvalidProof, match="the validators of step 1 are not those that its header names"):
            checked.check(wrong)
    assert checked.check(right).changes == 2
    with pytest.raises(InvalidProof, match="a signed header of other validators"):
        checked.check(msgspec.structs.replace(right, steps=right.steps[:1]))


def test_threads_that_follow_the_same_steps_at_the_same_time_leave_them_in_order() -> None:
    chain = chain_of()
    checked = CheckedCertificates(parse_genesis(chain.genesis))
    meet = Barrier(2)

    def check(_: int) -> int:
        votes.set(count())
        return checked.check(certificate_at(chain, 8)).changes

    def vote(public_key: bytes, message: bytes, signature: bytes) -> bool:
        # The first of the four votes for the first step, and the first for the second one.
        if next(votes.get()) in (0, 4):
            meet.wait(PATIENCE_S)
        return verify(public_key, message, signature)

    votes: ContextVar[Iterator[int]] = ContextVar("votes")
    with patch.object(certificates, "verify", vote), ThreadPoolExecutor(2) as threads:
        assert list(threads.map(check, range(2))) == [2, 2]
    for height in range(1, 9):
        assert checked.check(certificate_at(chain, height)).header.height == height
