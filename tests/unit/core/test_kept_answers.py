"""A request with an idempotency key, answered by a core on a real directory: once, whatever happens in between."""

import asyncio
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from cairn.core import kept_answers
from cairn.core.gateway import Admission, KeyedRequest
from cairn.core.kept_answers import ANSWER_LIFETIME_S
from cairn.core.service import Core
from cairn.domain.errors import GasTooLow, IdempotencyKeyReused, StoreUnavailable
from cairn.domain.types import Draft
from tests.support.core_fixtures import ACCOUNTS, GWEI, make_block, open_core, opened_core, settings, signed

TRANSFER = Draft(ACCOUNTS[0], ACCOUNTS[1], 1, 21_000, GWEI, None)
FIRST = Admission(signed(0).hash)
HOUR_S = 3_600
HALTED = settings(block_time_s=1e9)


def keyed(key: str = "a", request: str = "pay") -> KeyedRequest:
    return KeyedRequest(key.encode().ljust(32), request.encode().ljust(32))


def vanish(core: Core) -> None:
    """As after SIGKILL: the kernel lets go of the lock and the files, and nothing else happens."""
    core._chain.close()


async def test_the_same_key_and_request_pays_once_and_gets_the_same_answer(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        assert await core.submit_draft(TRANSFER, keyed()) == FIRST
        assert await core.submit_draft(TRANSFER, keyed()) == FIRST
        make_block(core)
        assert await core.submit_draft(TRANSFER, keyed()) == FIRST, "also once it is confirmed"
        assert await core.submit_draft(TRANSFER, keyed("b")) == Admission(signed(1).hash)
        assert await core.submit_draft(TRANSFER) == Admission(signed(2).hash)


async def test_the_same_key_with_another_request_is_refused_and_does_nothing(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        await core.submit_draft(TRANSFER, keyed())
        for ask in (core.submit_draft(TRANSFER, keyed(request="other")), core.faucet(ACCOUNTS[1], 1, keyed("a", "f"))):
            with pytest.raises(IdempotencyKeyReused):
                await ask
        assert await core.next_nonce(ACCOUNTS[0]) == 1


async def test_a_list_has_its_key_alone_also_after_a_kill(tmp_path: Path) -> None:
    items = [replace(keyed(request="list"), item=place.ljust(32)) for place in (b"0", b"1", b"2")]
    core = open_core(tmp_path)
    assert await core.submit_draft(TRANSFER, items[1]) == FIRST
    vanish(core)
    async with opened_core(tmp_path) as core:
        for other in (keyed(), replace(items[1], request=bytes(32)), replace(items[2], request=bytes(32))):
            with pytest.raises(IdempotencyKeyReused):
                await core.submit_draft(TRANSFER, other)
        assert await core.submit_draft(TRANSFER, items[1]) == FIRST
        assert await core.submit_draft(TRANSFER, items[2]) == Admission(signed(1).hash)
        assert len(core.admissions.answers.all()) == 3


async def test_equal_requests_at_the_same_time_are_one_transaction(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        answers = await asyncio.gather(*(core.submit_draft(TRANSFER, keyed()) for _ in range(50)))
        assert set(answers) == {FIRST}
        assert (await core.status()).pending == 1


async def test_a_repetition_waits_until_the_first_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second asks before the sync of the first, which fails: neither may be told that it was accepted."""

    def broken(file: int) -> None:
        raise OSError(5, "broken")

    core = open_core(tmp_path)
    monkeypatch.setattr(os, "fdatasync", broken)
    both = await asyncio.gather(*(core.submit_draft(TRANSFER, keyed()) for _ in range(2)), return_exceptions=True)
    assert [type(each).__mro__[1] for each in both] == [StoreUnavailable] * 2
    core.failed.exception()
    core.close()


async def test_a_refusal_is_not_kept_so_that_the_request_may_succeed_later(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        poor = Draft(ACCOUNTS[0], ACCOUNTS[1], 1, 20_999, GWEI, None)
        with pytest.raises(GasTooLow):
            await core.submit_draft(poor, keyed())
        assert await core.submit_draft(TRANSFER, keyed()) == FIRST


async def test_an_answer_survives_a_kill_together_with_its_transaction(tmp_path: Path) -> None:
    core = open_core(tmp_path)
    assert await core.submit_draft(TRANSFER, keyed()) == FIRST
    vanish(core)
    async with opened_core(tmp_path) as core:
        assert await core.submit_draft(TRANSFER, keyed()) == FIRST
        make_block(core)
    async with opened_core(tmp_path) as core:
        # The transaction has left the journal by now.
        assert await core.submit_draft(TRANSFER, keyed()) == FIRST
        with pytest.raises(IdempotencyKeyReused):
            await core.submit_draft(TRANSFER, keyed(request="other"))
        assert (await core.status()).pending == 0


async def test_what_is_known_already_keeps_its_own_answer(tmp_path: Path) -> None:
    """With a nonce, the same transaction may come without a key first: pending, or confirmed."""
    async with opened_core(tmp_path) as core:
        numbered = Draft(ACCOUNTS[0], ACCOUNTS[1], 1, 21_000, GWEI, 0)
        await core.submit_draft(numbered)
        assert (await core.submit_draft(numbered, keyed("pending"))).confirmed is False
        make_block(core)
        assert await core.submit_draft(numbered, keyed("confirmed")) == Admission(signed(0).hash, confirmed=True)
        assert await core.submit_draft(numbered, keyed("pending")) == FIRST
    async with opened_core(tmp_path) as core:
        assert await core.submit_draft(numbered, keyed("confirmed")) == Admission(signed(0).hash, confirmed=True)


async def test_what_it_waits_for_is_told_as_of_now(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        second = Draft(ACCOUNTS[0], ACCOUNTS[1], 1, 21_000, GWEI, 1)
        queued = Admission(signed(1).hash, waits_for_nonce=0)
        assert await core.submit_draft(second, keyed()) == queued
        assert await core.submit_draft(second, keyed()) == queued
        await core.submit(signed(0))
        assert await core.submit_draft(second, keyed()) == Admission(signed(1).hash)


async def test_the_faucet_gives_once_for_a_key(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        first = await core.faucet(ACCOUNTS[1], None, keyed())
        # By now another account is the richest.
        make_block(core)
        assert await core.faucet(ACCOUNTS[1], None, keyed()) == first
        assert (await core.status()).pending == 0


async def test_a_reverted_chain_forgets_the_keys_that_came_after_the_snapshot(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        await core.submit_draft(TRANSFER, keyed("before"))
        number = await core.snapshot()
        await core.submit_draft(TRANSFER, keyed("after"))
        make_block(core)
        assert await core.revert(number)
    async with opened_core(tmp_path) as core:
        assert await core.submit_draft(TRANSFER, keyed("before")) == FIRST
        assert await core.submit_draft(TRANSFER, keyed("after", "other")) == Admission(signed(1).hash)


@pytest.mark.virtual_time
async def test_an_answer_is_kept_for_a_day_in_which_the_node_runs(tmp_path: Path) -> None:
    async with opened_core(tmp_path, HALTED) as core:
        await core.submit_draft(TRANSFER, keyed())
        await asyncio.sleep(ANSWER_LIFETIME_S - HOUR_S)
    async with opened_core(tmp_path, HALTED) as core:
        await asyncio.sleep(HOUR_S - 60)
        assert await core.submit_draft(TRANSFER, keyed()) == FIRST
        await asyncio.sleep(120)
        assert await core.submit_draft(TRANSFER, keyed()) == Admission(signed(1).hash)
        assert len(core.admissions.answers.all()) == 1


async def test_beyond_the_most_that_are_kept_the_oldest_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_answers, "MOST_ANSWERS", 3)
    for _ in range(2):
        async with opened_core(tmp_path) as core:
            for key in "abcd":
                await core.submit_draft(TRANSFER, keyed(key))
            # The second time "a" was forgotten, and then each for the one before it.
            assert [answer.key[:1] for answer in core.admissions.answers.all()] == [b"b", b"c", b"d"]
    async with opened_core(tmp_path) as core:
        assert (await core.status()).pending == 8
