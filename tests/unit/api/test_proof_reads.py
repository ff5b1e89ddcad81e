"""The changes of signers that a worker remembers: which of them are in a certificate."""

import msgspec
import pytest

from cairn.api.proof_reads import KnownSteps
from cairn.domain.certificates import Step, engine_chain_id, sign_block
from cairn.domain.headers import block_hash
from cairn.domain.types import ZERO_ADDRESS, ZERO_HASH, BlockHeader
from cairn.store.signing_key import SigningKey
from tests.support.blocks import store_genesis

KEY, NEXT = SigningKey.new(), SigningKey.new()
CHAIN = engine_chain_id(store_genesis())


def step_at(height: int) -> Step:
    """A change that the engine's header of this height has."""
    roots = (bytes(32),) * 4
    header = BlockHeader(height - 1, ZERO_HASH, 2, *roots, 0, ZERO_ADDRESS, 1337, 210_000_000, 0, 0)
    step = sign_block(header, block_hash(header), CHAIN, KEY.public_key, KEY.sign, NEXT.public_key).step
    assert step is not None
    return step


STEPS = {height: step_at(height) for height in (4, 5, 10)}


def known_with(*heights: int) -> KnownSteps:
    known = KnownSteps(0)
    known.add([STEPS[height] for height in heights])
    return known


def encoded(*heights: int) -> bytes:
    return b",".join(msgspec.json.encode(STEPS[height]) for height in heights)


@pytest.mark.parametrize(
    ("height", "before"),
    [(2, ()), (4, ()), (5, (4,)), (6, (4, 5)), (10, (4, 5)), (11, (4, 5, 10)), (99, (4, 5, 10))],
)
def test_a_certificate_has_all_changes_below_its_header_and_no_other(height: int, before: tuple[int, ...]) -> None:
    signed = step_at(height).signed
    assert known_with(4, 5, 10).before(signed) == encoded(*before)


def test_changes_that_come_in_parts_or_twice_are_remembered_once_each() -> None:
    known = known_with(4)
    known.add([STEPS[4], STEPS[5]])
    known.add([STEPS[5], STEPS[10]])
    known.add([])
    assert len(known) == 3
    assert known.before(step_at(11).signed) == encoded(4, 5, 10)
