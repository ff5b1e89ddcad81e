"""Certificates of a network, from what its CometBFT has signed: each checks from genesis, and names its block."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from cairn.domain.certificates import Certificate, SignedBlock, check_certificate, signed_height
from cairn.domain.errors import Corrupt, EngineUnavailable, NotSignedYet
from cairn.engine.network import certificates
from cairn.engine.network.certificates import MOST_AT_ONE_HEAD, Certificates
from cairn.engine.network.steps import NONE_MISSING, RETRY_S
from cairn.store import keys
from cairn.store.rocks import WriteBatch
from tests.support.core_fixtures import signed
from tests.support.disk import database_of
from tests.support.signed_chain import FOUR, SignedChain

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def chain(tmp_path: Path) -> AsyncIterator[SignedChain]:
    chain = SignedChain(tmp_path / "data")
    yield chain
    chain.store.close()


async def proven(chain: SignedChain, height: int | None) -> SignedBlock:
    """What the certificate for a block proves to somebody who has the genesis alone."""
    certificate = await chain.certificates.certificate(height)
    read = msgspec.json.decode(msgspec.json.encode(certificate), type=Certificate)
    return check_certificate(read, chain.genesis)


# Which certificate.


async def test_a_block_that_changed_the_state_is_named_by_the_next_header(chain: SignedChain) -> None:
    heights = [chain.decide(signed(0)), chain.decide(signed(1)), chain.decide(), chain.decide(signed(2))]
    for height in heights[:2]:
        block = await proven(chain, height)
        assert (block.header.height, block.signed.height) == (height, height + 1)
        assert block.hash == chain.app_hashes[height]
    assert (await proven(chain, 0)).header.height == 0


async def test_an_empty_block_is_covered_by_the_newest_that_a_signature_names(chain: SignedChain) -> None:
    chain.decide(signed(0))
    empty = chain.decide()
    with pytest.raises(NotSignedYet, match="empty ones at the end with the next payment"):
        await chain.certificates.certificate(empty)
    later = chain.decide(signed(1))
    with pytest.raises(NotSignedYet):
        await chain.certificates.certificate(empty)
    chain.decide()
    assert (await proven(chain, empty)).header.height == later


async def test_without_a_height_it_is_the_newest(chain: SignedChain) -> None:
    first = chain.decide(signed(0))
    assert (await proven(chain, None)).header.height == 0
    second = chain.decide(signed(1))
    assert (await proven(chain, None)).header.height == first
    # Decided, but not committed here yet.
    chain.certificates = type(chain.certificates)(chain.store, chain.steps, chain.rpc)
    chain.rpc.is_ahead = True
    assert (await proven(chain, None)).header.height == second


async def test_before_the_first_block_nothing_is_signed(chain: SignedChain) -> None:
    for height in (None, 0, 1):
        with pytest.raises(NotSignedYet):
            await chain.certificates.certificate(height)


async def test_a_block_that_cometbft_has_pruned_is_covered_by_the_newest(chain: SignedChain) -> None:
    old, new = chain.decide(signed(0)), chain.decide(signed(1))
    chain.decide()
    chain.rpc.base = 3
    assert (await proven(chain, old)).header.height == new


async def test_while_cometbft_is_away_or_lies_it_is_unavailable(chain: SignedChain) -> None:
    height = chain.decide(signed(0))
    chain.decide()
    chain.rpc.is_away = True
    with pytest.raises(EngineUnavailable, match="does not answer"):
        await chain.certificates.certificate(height)
    chain.rpc.is_away = False
    chain.rpc.absent = lambda height: [each.key for each in chain.validators_at(height)[:2]]
    with pytest.raises(EngineUnavailable, match="signed by 20 of 40"):
        await chain.certificates.certificate(height)
    chain.rpc.absent = lambda height: []
    assert (await proven(chain, height)).header.height == height


async def test_who_asks_again_costs_cometbft_nothing(chain: SignedChain) -> None:
    heights = [chain.decide(signed(nonce)) for nonce in range(3)]
    answers = await asyncio.gather(*(chain.certificates.certificate(heights[0]) for _ in range(20)))
    assert len(chain.rpc.asked) == 1
    assert all(answer is answers[0] for answer in answers)
    await asyncio.gather(*(chain.certificates.certificate(None) for _ in range(20)))
    assert len(chain.rpc.asked) == 2
    chain.decide()
    await chain.certificates.certificate(None)
    assert len(chain.rpc.asked) == 3


async def test_who_asks_for_many_old_blocks_gets_the_newest_signatures_for_most_of_them(chain: SignedChain) -> None:
    heights = [chain.decide(signed(nonce)) for nonce in range(MOST_AT_ONE_HEAD + 5)]
    newest = heights[-2]
    found = [(await proven(chain, height)).header.height for height in heights[:-2]]
    assert found == [*heights[:MOST_AT_ONE_HEAD], *[newest] * 3]
    assert len(chain.rpc.asked) == MOST_AT_ONE_HEAD + 1
    # Those that are known cost nothing, and with the next block others may be looked for.
    assert (await proven(chain, heights[0])).header.height == heights[0]
    chain.decide()
    assert (await proven(chain, heights[-3])).header.height == heights[-3]


async def test_who_waits_while_cometbft_does_not_answer_waits_for_one_timeout(chain: SignedChain) -> None:
    chain.decide(signed(0))
    chain.decide()

    async def hang(height: int | None = None) -> None:
        await asyncio.sleep(2)
        raise TimeoutError

    chain.certificates = Certificates(chain.store, chain.steps, SimpleNamespace(commit=hang))
    began = asyncio.get_running_loop().time()
    questions = (chain.certificates.certificate(1) for _ in range(10))
    answers = await asyncio.gather(*questions, return_exceptions=True)
    assert all(isinstance(answer, EngineUnavailable) for answer in answers)
    assert asyncio.get_running_loop().time() - began == 2


async def test_who_asks_again_while_the_newest_signatures_are_of_no_use_costs_cometbft_one_call_a_second(
    chain: SignedChain,
) -> None:
    chain.decide(signed(0))
    chain.decide()
    chain.rpc.absent = lambda height: [each.key for each in chain.validators_at(height)[:2]]
    for _ in range(20):
        with pytest.raises(EngineUnavailable, match="signed by 20 of 40"):
            await chain.certificates.certificate(None)
    assert len(chain.rpc.asked) == 1
    chain.rpc.absent = lambda height: []
    await asyncio.sleep(certificates.RETRY_S)
    assert (await proven(chain, None)).header.height == 1


async def test_who_asks_again_for_a_block_that_is_not_here_costs_cometbft_one_call_until_the_next_block(
    chain: SignedChain,
) -> None:
    chain.decide(signed(0))
    chain.decide()
    here = chain.app_hashes[1]
    chain.app_hashes[1] = bytes(32)
    for _ in range(20):
        with pytest.raises(NotSignedYet):
            await chain.certificates.certificate(None)
    assert len(chain.rpc.asked) == 1
    chain.app_hashes[1] = here
    chain.decide()
    assert (await proven(chain, None)).header.height == 1


# Changes of validators.

CHANGES = [
    FOUR | {4: 10},
    FOUR | {4: 30},
    {1: 10, 2: 10, 3: 10, 4: 30},
]
"""A fifth validator comes, gets more power, and the first one goes."""


async def test_each_change_of_validators_is_a_step_once_its_votes_are_final(chain: SignedChain) -> None:
    work = asyncio.create_task(chain.steps.run())
    for number, powers in enumerate(CHANGES):
        changed = chain.decide(powers=powers)
        chain.decide()
        await asyncio.sleep(10 * RETRY_S)
        assert (chain.added, chain.steps.oldest_missing) == (number, changed)
        assert chain.rpc.asked.count(changed + 1) == 0
        chain.decide()
        await asyncio.sleep(RETRY_S)
        assert (chain.added, chain.steps.oldest_missing) == (number + 1, NONE_MISSING)
        block = await proven(chain, changed)
        assert (block.header.height, block.changes) == (changed, number)
        paid = chain.decide(signed(number))
        chain.decide()
        block = await proven(chain, paid)
        assert (block.header.height, block.changes, block.signed.total) == (paid, number + 1, sum(powers.values()))
    work.cancel()


async def test_changes_in_consecutive_blocks_and_one_that_is_taken_back(chain: SignedChain) -> None:
    for powers in [*CHANGES, *reversed(CHANGES), FOUR]:
        chain.decide(powers=powers)
    paid = chain.decide(signed(0))
    chain.decide()
    # Nobody had asked for the steps: the certificate needs them.
    block = await proven(chain, paid)
    assert (block.header.height, block.changes, block.signed.total) == (paid, 6, 40)


async def test_right_after_a_change_the_newest_certificate_is_of_the_new_validators(chain: SignedChain) -> None:
    chain.decide(signed(0))
    changed = chain.decide(powers=CHANGES[0])
    chain.decide()
    assert (await proven(chain, None)).changes == 0
    # Its header is the first that the new ones sign, and makes the votes of the old ones final.
    chain.certificates = type(chain.certificates)(chain.store, chain.steps, chain.rpc)
    chain.rpc.is_ahead = True
    block = await proven(chain, None)
    assert (block.header.height, block.changes, block.signed.height) == (changed, 1, changed + 2)


async def test_votes_that_are_not_final_make_no_step(chain: SignedChain) -> None:
    chain.decide(powers=CHANGES[0])
    chain.decide()
    await chain.steps.collect()
    assert not chain.added
    # Two of the four come late, and are not among the final ones.
    chain.rpc.absent = lambda height: [chain.validators_at(height)[0].key]
    chain.decide()
    await chain.steps.collect()
    [step] = chain.store.steps()
    assert (signed_height(step.signed), len(step.signed.signatures)) == (2, 3)


async def test_steps_are_found_again_after_a_restart_and_missing_ones_are_made_then(chain: SignedChain) -> None:
    chain.decide(powers=CHANGES[0])
    chain.decide()
    chain.decide()
    await chain.steps.collect()
    chain.decide(powers=CHANGES[1], is_known=False)
    second = chain.decide(powers=CHANGES[2], is_known=False)
    chain.reopen()
    assert chain.steps.oldest_missing == second - 1
    for nonce in range(3):
        paid = chain.decide(signed(nonce))
    chain.decide()
    chain.reopen()
    block = await proven(chain, paid)
    assert (block.changes, chain.added) == (3, 3)
    chain.reopen()
    assert chain.steps.oldest_missing == NONE_MISSING
    assert (await proven(chain, paid)).changes == 3


async def test_while_cometbft_is_away_a_step_is_asked_for_again(chain: SignedChain) -> None:
    chain.rpc.is_away = True
    work = asyncio.create_task(chain.steps.run())
    chain.decide(powers=CHANGES[0])
    chain.decide()
    chain.decide()
    await asyncio.sleep(3 * RETRY_S)
    assert not chain.store.steps()
    with pytest.raises(EngineUnavailable):
        await chain.certificates.certificate(1)
    chain.rpc.is_away = False
    await asyncio.sleep(2 * RETRY_S)
    assert len(chain.store.steps()) == 1
    work.cancel()


async def test_a_step_that_cometbft_has_pruned_is_named_and_nothing_else_ends(chain: SignedChain) -> None:
    paid = chain.decide(signed(0))
    chain.decide(powers=CHANGES[0])
    for _ in range(3):
        chain.decide()
    chain.rpc.base = 4
    work = asyncio.create_task(chain.steps.run())
    await asyncio.sleep(3 * RETRY_S)
    assert not work.done()
    with pytest.raises(EngineUnavailable, match="CometBFT does not have header 3 any more"):
        await chain.certificates.certificate(paid)
    work.cancel()


async def test_a_step_with_too_few_signatures_or_other_validators_is_not_stored(chain: SignedChain) -> None:
    chain.decide(powers=CHANGES[0])
    chain.decide()
    chain.decide()
    chain.rpc.absent = lambda height: [each.key for each in chain.validators_at(height)[:2]]
    with pytest.raises(EngineUnavailable, match="signed by 20 of 40"):
        await chain.certificates.certificate(None)
    chain.rpc.absent = lambda height: []
    chain._sets[1] = chain._sets[0]
    await asyncio.sleep(RETRY_S)
    with pytest.raises(EngineUnavailable, match="not those that CometBFT names"):
        await chain.certificates.certificate(None)
    assert not chain.store.steps()


async def test_a_store_without_one_of_its_steps_is_corrupt(chain: SignedChain) -> None:
    for powers in CHANGES:
        chain.decide(powers=powers)
    chain.decide()
    await chain.steps.collect()
    assert chain.added == len(CHANGES) - 1
    batch = WriteBatch(database_of(chain.store))
    batch.delete(keys.STEPS, keys.encode_height(2))
    database_of(chain.store).write(batch)
    with pytest.raises(Corrupt, match="changed 3 times, and the store has 1"):
        chain.steps.load()


async def test_an_update_that_changes_no_power_is_no_step(chain: SignedChain) -> None:
    chain.decide(powers=FOUR)
    chain.decide()
    chain.reopen()
    assert chain.steps.oldest_missing == NONE_MISSING
    assert (await proven(chain, 1)).changes == 0
