"""A request with an idempotency key, answered by a core: it is paid once while the node runs, whatever happens."""

import asyncio
import os
from pathlib import Path

import pytest

from cairn.core.admission import BUSY_BATCH
from cairn.core.gateway import Admission, KeyedRequest
from cairn.core.idempotency_keys import IdempotencyKeys
from cairn.core.link import LinkClient
from cairn.domain.errors import GasTooLow, IdempotencyKeyReused, StoreUnavailable
from cairn.domain.types import Draft
from cairn.store import journal
from tests.support.core_fixtures import ACCOUNTS, GWEI, make_block, opened_core, settings, signed
from tests.support.linked_core import Heard, linked
from tests.support.pace import PATIENCE_S

TRANSFER = Draft(ACCOUNTS[0], ACCOUNTS[1], 1, 21_000, GWEI, None)
QUEUED = Draft(ACCOUNTS[5], ACCOUNTS[1], 1, 21_000, GWEI, 9)
FIRST = Admission(signed(0).hash)


def keyed(key: str = "a", request: str = "pay") -> KeyedRequest:
    return KeyedRequest(key.encode().ljust(32), request.encode().ljust(32))


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


async def test_equal_requests_at_the_same_time_are_one_transaction(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        answers = await asyncio.gather(*(core.submit_draft(TRANSFER, keyed()) for _ in range(50)))
        assert set(answers) == {FIRST}
        assert (await core.status()).pending == 1


async def test_a_refusal_is_not_kept_so_that_the_request_may_succeed_later(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        poor = Draft(ACCOUNTS[0], ACCOUNTS[1], 1, 20_999, GWEI, None)
        with pytest.raises(GasTooLow):
            await core.submit_draft(poor, keyed())
        assert await core.submit_draft(TRANSFER, keyed()) == FIRST


@pytest.mark.parametrize("failing", ["_sign", "_look_at_clocks", "_flush_soon"])
async def test_after_an_unexpected_failure_a_repetition_is_paid_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Whether it fails before the transaction is in the mempool, or behind that."""

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    async with opened_core(tmp_path) as core:
        with monkeypatch.context() as patched:
            patched.setattr(core.admissions, failing, fail)
            with pytest.raises(RuntimeError, match="a bug"):
                await core.submit_draft(TRANSFER, keyed())
        async with asyncio.timeout(PATIENCE_S):
            assert (await core.submit_draft(TRANSFER, keyed())).tx_hash == FIRST.tx_hash
            assert (await core.submit_draft(TRANSFER, keyed())).tx_hash == FIRST.tx_hash
        assert await core.next_nonce(ACCOUNTS[0]) == 1


async def test_what_is_known_already_keeps_its_own_answer(tmp_path: Path) -> None:
    """With a nonce, the same transaction may come without a key first: pending, or confirmed."""
    async with opened_core(tmp_path) as core:
        numbered = Draft(ACCOUNTS[0], ACCOUNTS[1], 1, 21_000, GWEI, 0)
        await core.submit_draft(numbered)
        pending = Admission(signed(0).hash, known=True)
        assert await core.submit_draft(numbered, keyed("pending")) == pending
        make_block(core)
        assert await core.submit_draft(numbered, keyed("confirmed")) == Admission(signed(0).hash, confirmed=True)
        assert await core.submit_draft(numbered, keyed("pending")) == pending


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


def refuse(*_: object) -> None:
    raise OSError(28, "No space left on device")


async def fail_once(client: LinkClient, heard: Heard, monkeypatch: pytest.MonkeyPatch, *, is_mined: bool) -> None:
    """Pay while the journal cannot be written; with `is_mined` the payment is in a block before that shows."""
    # After a busy sync the next one waits a moment, in which a block can be made.
    await asyncio.gather(*(client.submit(signed(nonce, sender=3)) for nonce in range(BUSY_BATCH)))
    heard.notices.clear()
    with monkeypatch.context() as broken:
        broken.setattr(journal, "write_at", refuse)
        # What waits for a nonce is in no block, so the journal must write it.
        asked = [client.submit_draft(TRANSFER, keyed()), client.submit_draft(QUEUED)]
        answers = await asyncio.gather(*asked, *([client.mine()] if is_mined else []), return_exceptions=True)
        assert isinstance(answers[0], StoreUnavailable)
        await heard.until("phase", "unavailable")
    await heard.until("phase", "ready")


@pytest.mark.virtual_time
@pytest.mark.parametrize("block_time_s", [0.0, 3600.0])
@pytest.mark.parametrize("is_mined", [True, False])
async def test_a_key_is_paid_once_where_the_journal_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_time_s: float, is_mined: bool
) -> None:
    async with linked(tmp_path, block_time_s=block_time_s) as (client, heard, _):
        await fail_once(client, heard, monkeypatch, is_mined=is_mined)
        paid = await client.next_nonce(ACCOUNTS[0])
        assert paid == (is_mined or block_time_s == 0), "the failure is told before or after the payment is in a block"
        answers = []
        for _ in range(2):
            answers.append(await client.submit_draft(TRANSFER, keyed()))
            await client.mine()
        assert await client.next_nonce(ACCOUNTS[0]) == 1
        assert answers == [Admission(signed(0).hash, confirmed=bool(paid))] * 2


@pytest.mark.virtual_time
async def test_all_who_wait_for_a_payment_are_told_that_its_sync_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with linked(tmp_path) as (client, heard, _):
        monkeypatch.setattr(os, "fdatasync", refuse)
        both = await asyncio.gather(*(client.submit_draft(TRANSFER, keyed()) for _ in range(2)), return_exceptions=True)
        assert [type(each) for each in both] == [StoreUnavailable] * 2
        await heard.until("phase", "unavailable")
        monkeypatch.undo()
        heard.notices.clear()
        await heard.until("phase", "ready")
        with pytest.raises(IdempotencyKeyReused):
            await client.submit_draft(TRANSFER, keyed(request="other"))
        assert await client.submit_draft(TRANSFER, keyed()) == FIRST, "the journal has it after all"


@pytest.mark.virtual_time
async def test_a_key_whose_payment_is_not_on_disk_is_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with linked(tmp_path) as (client, heard, _):
        await fail_once(client, heard, monkeypatch, is_mined=False)
        assert (await client.submit_draft(TRANSFER, keyed(request="other"))).tx_hash == signed(0).hash


@pytest.mark.virtual_time
async def test_a_revert_frees_the_keys_of_the_payments_that_it_takes_back(tmp_path: Path) -> None:
    async with linked(tmp_path) as (client, _heard, _):
        await client.submit_draft(TRANSFER, keyed("mined"))
        await client.mine()
        await client.submit_draft(TRANSFER, keyed("pending"))
        number = await client.snapshot()
        await client.submit_draft(TRANSFER, keyed("after"))
        await client.mine()
        assert await client.revert(number)
        assert await client.submit_draft(TRANSFER, keyed("mined")) == FIRST
        assert await client.submit_draft(TRANSFER, keyed("pending")) == Admission(signed(1).hash)
        assert await client.submit_draft(TRANSFER, keyed("after", "other")) == Admission(signed(2).hash)
        assert await client.next_nonce(ACCOUNTS[0]) == 3


@pytest.mark.virtual_time
async def test_a_payment_in_a_block_that_was_removed_is_not_made_again(tmp_path: Path) -> None:
    keys = IdempotencyKeys()
    async with opened_core(tmp_path, settings(retain_blocks=2), idempotency_keys=keys) as core:
        await core.submit_draft(TRANSFER, keyed())
        for _ in range(5):
            make_block(core)
        while not core._chain.base:
            await asyncio.sleep(0.01)
        assert core._chain.find_location(signed(0).hash) is None
    async with opened_core(tmp_path, idempotency_keys=keys) as core:
        assert await core.submit_draft(TRANSFER, keyed()) == FIRST


async def test_the_next_core_process_knows_no_keys(tmp_path: Path) -> None:
    for nonce in range(2):
        async with opened_core(tmp_path) as core:
            assert await core.submit_draft(TRANSFER, keyed()) == Admission(signed(nonce).hash)
