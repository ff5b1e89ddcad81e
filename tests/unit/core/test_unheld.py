"""On a network, what left the mempool of one node is pending until its nonce is in a block."""

import asyncio
import os
from pathlib import Path

import pytest

from cairn.core.gateway import Admission, ConfirmedTx, DroppedTx, PendingTx
from cairn.core.service import Core
from cairn.domain.errors import MempoolFull, ReplacementUnderpriced, StoreUnavailable
from cairn.domain.types import DropReason, Tx
from cairn.engine.network.engine import NetworkEngine
from cairn.store.directory import journal_path
from cairn.store.journal import Journal
from tests.support.core_fixtures import ACCOUNTS, GWEI, Told, make_block, opened_core, signed
from tests.support.member_core import decide, open_member, opened_member
from tests.support.signing import commit_signed

ORIGINAL = signed(0)
REPLACEMENT = signed(0, gas_price=2 * GWEI)
THIRD = signed(0, gas_price=3 * GWEI)


def no_longer_held(tx: Tx, reason: DropReason, replacement: Tx | None = None) -> tuple[object, ...]:
    return tx, reason, None if replacement is None else replacement.hash


async def look(core: Core, tx: Tx) -> tuple[object, ...]:
    found = await core.find_tx(tx.hash)
    assert isinstance(found, PendingTx)
    return found.tx, found.not_held, found.replaced_by


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def test_a_replaced_transaction_is_pending_until_its_nonce_is_in_a_block(data: Path) -> None:
    told = Told()
    async with opened_member(data, told) as core:
        await core.submit(ORIGINAL)
        await core.submit(REPLACEMENT)
        assert await look(core, ORIGINAL) == no_longer_held(ORIGINAL, "replaced", REPLACEMENT)
        await decide(core, signed(0, sender=1))
        assert await look(core, ORIGINAL) == no_longer_held(ORIGINAL, "replaced", REPLACEMENT)
        assert told.dropped == []
        await decide(core, REPLACEMENT)
        assert await core.find_tx(ORIGINAL.hash) == DroppedTx("nonce used")
        assert told.dropped == [(ORIGINAL.hash, "nonce used")]


async def test_a_replaced_transaction_in_a_block_is_confirmed_and_its_replacement_dropped(
    data: Path,
) -> None:
    told = Told()
    async with opened_member(data, told) as core:
        await core.submit(ORIGINAL)
        await core.submit(REPLACEMENT)
        await decide(core, ORIGINAL)
        assert await core.find_tx(ORIGINAL.hash) == ConfirmedTx(1)
        assert await core.find_tx(REPLACEMENT.hash) == DroppedTx("nonce used")
        assert told.dropped == [(REPLACEMENT.hash, "nonce used")]


async def test_each_of_several_replaced_transactions_names_the_one_in_the_mempool(data: Path) -> None:
    told = Told()
    async with opened_member(data, told) as core:
        for tx in (ORIGINAL, REPLACEMENT, THIRD):
            await core.submit(tx)
        assert await look(core, ORIGINAL) == no_longer_held(ORIGINAL, "replaced", THIRD)
        assert await look(core, REPLACEMENT) == no_longer_held(REPLACEMENT, "replaced", THIRD)
        assert [item.tx for item in (await core.list_pending(10, None, None)).items] == [THIRD]
        await decide(core, REPLACEMENT)
        assert sorted(told.dropped) == sorted([(ORIGINAL.hash, "nonce used"), (THIRD.hash, "nonce used")])


def test_a_replaced_transaction_is_pending_after_a_crash_and_dropped_after_the_next(data: Path) -> None:
    async def accept_and_vanish() -> None:
        core = open_member(data)
        await asyncio.gather(core.submit(ORIGINAL), core.submit(REPLACEMENT))
        core._chain.close()

    async def end_and_vanish() -> None:
        core = open_member(data)
        assert await look(core, ORIGINAL) == no_longer_held(ORIGINAL, "replaced", REPLACEMENT)
        assert await look(core, REPLACEMENT) == (REPLACEMENT, None, None)
        await decide(core, REPLACEMENT)
        core._chain.close()

    async def look_again() -> None:
        async with opened_member(data) as core:
            assert await core.find_tx(REPLACEMENT.hash) == ConfirmedTx(1)
            assert await core.find_tx(ORIGINAL.hash) == DroppedTx("nonce used")

    for life in (accept_and_vanish, end_and_vanish, look_again):
        asyncio.run(life())


async def test_a_transaction_whose_nonce_was_used_while_the_node_was_away_is_dropped_at_the_start(data: Path) -> None:
    async with opened_member(data) as core:
        await core.submit(ORIGINAL)
        await core.submit(REPLACEMENT)
        # The block is on disk, and the node ends before it settles anything.
        engine = core.engine
        assert isinstance(engine, NetworkEngine)
        engine._blocks.finalize([REPLACEMENT], 0, ACCOUNTS[9])
        engine._blocks.commit()
    async with opened_member(data) as core:
        assert await core.find_tx(ORIGINAL.hash) == DroppedTx("nonce used")


async def test_a_replaced_transaction_submitted_again_is_known_and_changes_nothing(data: Path) -> None:
    async with opened_member(data) as core:
        await core.submit(ORIGINAL)
        await core.submit(REPLACEMENT)
        assert await core.submit(ORIGINAL) == Admission(ORIGINAL.hash, known=True)
        assert await look(core, ORIGINAL) == no_longer_held(ORIGINAL, "replaced", REPLACEMENT)
        assert await look(core, REPLACEMENT) == (REPLACEMENT, None, None)
        assert (await core.status()).pending == 1
        # What this node never accepted is refused, as by a node alone.
        with pytest.raises(ReplacementUnderpriced):
            await core.submit(signed(0, value=2))


async def test_a_replaced_transaction_submitted_again_is_answered_after_its_first_sync(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int) -> None:
        raise OSError(5, "Input/output error")

    core = open_member(data)
    monkeypatch.setattr(os, "fdatasync", refuse)
    submitted = [core.submit(tx) for tx in (ORIGINAL, REPLACEMENT, ORIGINAL)]
    answers = await asyncio.gather(*submitted, return_exceptions=True)
    assert [isinstance(answer, StoreUnavailable) for answer in answers] == [True] * 3
    with pytest.raises(StoreUnavailable):
        await core.find_tx(ORIGINAL.hash)
    assert isinstance(core.failed.exception(), StoreUnavailable)
    monkeypatch.undo()
    await core.stop()


async def test_a_replaced_transaction_of_another_node_is_pending_and_refused_when_submitted_here(data: Path) -> None:
    async with opened_member(data) as core:
        core._pool.admit(ORIGINAL, 0, local=False)
        await core.submit(REPLACEMENT)
        assert await look(core, ORIGINAL) == no_longer_held(ORIGINAL, "replaced", REPLACEMENT)
        with pytest.raises(ReplacementUnderpriced):
            await core.submit(ORIGINAL)


def test_a_transaction_of_another_node_submitted_here_is_journaled(data: Path) -> None:
    async def accept_and_vanish() -> None:
        core = open_member(data)
        core._pool.admit(ORIGINAL, 0, local=False)
        assert await core.submit(ORIGINAL) == Admission(ORIGINAL.hash, known=True)
        core._chain.close()

    async def look_again() -> None:
        async with opened_member(data) as core:
            assert await look(core, ORIGINAL) == (ORIGINAL, None, None)

    asyncio.run(accept_and_vanish())
    asyncio.run(look_again())


async def test_an_evicted_transaction_is_pending_after_a_restart_and_held_once_accepted_again(
    data: Path,
) -> None:
    told = Told()
    async with opened_member(data, told, mempool_size=1) as core:
        await core.submit(ORIGINAL)
        await core.submit(signed(0, sender=1, gas_price=2 * GWEI))
        assert await look(core, ORIGINAL) == no_longer_held(ORIGINAL, "evicted")
        with pytest.raises(MempoolFull):
            await core.submit(ORIGINAL)
    async with opened_member(data, told, mempool_size=2) as core:
        assert await look(core, ORIGINAL) == no_longer_held(ORIGINAL, "evicted")
        assert await core.submit(ORIGINAL) == Admission(ORIGINAL.hash)
        assert await look(core, ORIGINAL) == (ORIGINAL, None, None)
    async with opened_member(data, told, mempool_size=2) as core:
        assert await look(core, ORIGINAL) == (ORIGINAL, None, None)
    assert told.dropped == []


@pytest.mark.virtual_time
async def test_an_expired_transaction_is_pending_until_its_nonce_is_used(data: Path) -> None:
    told = Told()
    queued = signed(1)
    async with opened_member(data, told, mempool_lifetime_s=10) as core:
        await core.submit(queued)
        await asyncio.sleep(11)
        core.admissions.expire()
        assert await look(core, queued) == no_longer_held(queued, "expired")
        await decide(core, signed(0))
        assert told.dropped == []
        await decide(core, signed(1, value=5))
        assert told.dropped == [(queued.hash, "nonce used")]


async def test_lowered_limits_leave_a_transaction_pending_at_the_restore(data: Path) -> None:
    async with opened_member(data) as core:
        await asyncio.gather(*[core.submit(signed(nonce)) for nonce in range(3)])
    for _ in range(2):
        async with opened_member(data, mempool_per_sender=2) as core:
            assert (await core.status()).pending == 2
            assert await look(core, signed(2)) == no_longer_held(signed(2), "evicted")


async def test_a_failed_sync_of_a_replacement_leaves_the_original_pending(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()

    def refuse(file: int) -> None:
        raise OSError(5, "Input/output error")

    async with opened_member(data, told) as core:
        await core.submit(ORIGINAL)
        monkeypatch.setattr(os, "fdatasync", refuse)
        with pytest.raises(StoreUnavailable):
            await core.submit(REPLACEMENT)
        monkeypatch.undo()
        assert await look(core, ORIGINAL) == no_longer_held(ORIGINAL, "replaced")
        with pytest.raises(StoreUnavailable):
            await core.find_tx(REPLACEMENT.hash)
        assert isinstance(core.failed.exception(), StoreUnavailable)
    assert told.dropped == []


async def test_after_a_state_sync_no_transaction_is_announced_as_dropped(data: Path) -> None:
    """The skipped blocks may hold them: that is unknown here, and the journal keeps nothing of them."""
    told = Told()
    async with opened_member(data, told) as core:
        await core.submit(ORIGINAL)
        await core.submit(REPLACEMENT)
        await core.submit(signed(1))
        # As a snapshot does it: the state of a later block, without that block.
        engine = core.engine
        assert isinstance(engine, NetworkEngine)
        commit_signed(core._chain, engine._blocks.build([ORIGINAL], 0, ACCOUNTS[9]))
        engine._restored()
        await asyncio.sleep(0.01)
        assert told.dropped == []
        assert core._pool.drops == {}
        assert await core.find_tx(REPLACEMENT.hash) is None
        assert await look(core, signed(1)) == (signed(1), None, None)
        assert list(core._journal._alive) == [signed(1).hash]


@pytest.mark.parametrize("engine", ["embedded", "cometbft"])
async def test_a_transaction_that_a_pruned_block_may_hold_is_not_announced_as_dropped(data: Path, engine: str) -> None:
    """The journal still has it after its block is gone."""
    if engine == "embedded":
        async with opened_core(data) as core:
            await core.submit(ORIGINAL)
            make_block(core)
            make_block(core)
            core._chain.prune(2, lambda: None)
        async with opened_core(data) as core:
            assert await core.find_tx(ORIGINAL.hash) is None
    else:
        async with opened_member(data) as core:
            await core.submit(ORIGINAL)
            await decide(core, ORIGINAL)
            await decide(core)
            core._chain.prune(2, lambda: None)
        async with opened_member(data) as core:
            assert await core.find_tx(ORIGINAL.hash) is None


async def test_a_drop_that_an_earlier_version_wrote_is_told_only_if_the_nonce_was_used(data: Path) -> None:
    async with opened_member(data) as core:
        for nonce, reason in enumerate(("replaced", "nonce used")):
            core._journal.append_drop(signed(nonce).hash, reason)  # type: ignore[arg-type]
        core._journal.sync()
    async with opened_member(data) as core:
        assert await core.find_tx(signed(0).hash) is None
        assert await core.find_tx(signed(1).hash) == DroppedTx("nonce used")


async def test_the_journal_keeps_unheld_transactions_only_while_they_are_remembered(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cairn.mempool.unheld.MOST_OF_SENDER", 2)
    txs = [signed(0, gas_price=price * GWEI) for price in range(1, 6)]
    async with opened_member(data) as core:
        for tx in txs:
            await core.submit(tx)
        assert [await core.find_tx(tx.hash) for tx in txs[:2]] == [None, None]
        assert await look(core, txs[2]) == no_longer_held(txs[2], "replaced", txs[4])
        assert set(core._journal._alive) == {tx.hash for tx in txs[2:]}


async def test_a_replacement_and_its_original_are_in_one_journal_frame(data: Path) -> None:
    core = open_member(data)
    await core.submit(ORIGINAL)
    before = core._journal._sequence
    await core.submit(REPLACEMENT)
    assert core._journal._sequence == before + 1
    journal = Journal.open(journal_path(data), core._chain.watermark)
    journal.close()
    assert [(entry.tx, entry.left) for entry in journal.recovered] == [(ORIGINAL, "replaced"), (REPLACEMENT, None)]
    core._journal.close()
    core._chain.close()
