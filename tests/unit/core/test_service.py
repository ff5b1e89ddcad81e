"""The core on a real directory: admission, durability, and what happens when the disk refuses."""

import asyncio
import gc
import os
import weakref
from pathlib import Path

import pytest

from cairn.core import opening
from cairn.core.admission import BUSY_BATCH, GATHER_S
from cairn.core.calls import methods_of
from cairn.core.gateway import Admission, ConfirmedTx, CoreCalls, DroppedTx, PendingTx
from cairn.core.service import read_block_time_s
from cairn.domain.errors import (
    InsufficientFunds,
    InvalidField,
    JournalUnavailable,
    NonceTooLow,
    ReplacementUnderpriced,
    Reverting,
    StoreUnavailable,
)
from cairn.domain.genesis import dev_genesis
from cairn.domain.transactions import decode_record, encode_record
from cairn.domain.types import Draft, DropReason, SealedBlock, Tx, TxHash
from cairn.engine.embedded import MOST_AT_ONCE
from tests.support.core_fixtures import (
    ACCOUNTS,
    GWEI,
    KEYS,
    MIXED_PRICES,
    Told,
    make_block,
    open_core,
    opened_core,
    settings,
    signed,
    signed_of_each_type,
)
from tests.support.tx_data import data_by_number, gas_of
from tests.support.virtual_time import run_virtual


def test_accepted_survives_a_core_that_never_closed(tmp_path: Path) -> None:
    """What `submit` answered is in the journal already: nothing is flushed on the way out."""

    async def accept_and_vanish() -> None:
        core = open_core(tmp_path)
        await core.submit(signed(0))
        await core.submit(signed(5))
        # As after SIGKILL: the kernel lets go of the lock and the files, and nothing else happens.
        core._chain.close()

    async def look() -> None:
        async with opened_core(tmp_path) as core:
            assert isinstance(await core.find_tx(signed(0).hash), PendingTx)
            status = await core.status()
            assert (status.pending, status.queued) == (1, 1)
            queued = await core.find_tx(signed(5).hash)
            assert isinstance(queued, PendingTx)
            assert queued.waits_for_nonce == 1

    asyncio.run(accept_and_vanish())
    asyncio.run(look())


class Watcher:
    """What an observer was told, in order."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def saw_block(self, block: SealedBlock) -> None:
        self.seen.append((block.header.height, [tx.hash for tx in block.txs]))

    def saw_drop(self, tx_hash: TxHash, reason: DropReason) -> None:
        self.seen.append((tx_hash, reason))

    def saw_queued(self, tx: Tx, missing_nonce: int) -> None:
        self.seen.append(("queued", tx.hash, missing_nonce))

    def saw_refusal(self, code: str, reason: str, tx: Tx | None) -> None:
        self.seen.append((code, None if tx is None else tx.hash))

    def saw_revert(self, height: int) -> None:
        self.seen.append(height)


async def test_an_observer_sees_what_is_queued_or_refused(tmp_path: Path) -> None:
    watcher = Watcher()
    core = opening.open_core(dev_genesis(), tmp_path, settings(), KEYS, Told(), observer=watcher)
    await core.submit(signed(2))
    await core.submit(signed(2))
    await core.submit(signed(0))
    with pytest.raises(ReplacementUnderpriced):
        await core.submit(signed(0, value=2))
    make_block(core)
    with pytest.raises(NonceTooLow):
        await core.submit(signed(0, value=2))
    await core.submit(signed(0))
    await core.note_refusal("INVALID_SIGNATURE", "it is not valid")
    await core.stop()
    other = signed(0, value=2).hash
    assert watcher.seen == [
        ("queued", signed(2).hash, 0),
        ("REPLACEMENT_UNDERPRICED", other),
        (1, [signed(0).hash]),
        ("NONCE_TOO_LOW", other),
        ("INVALID_SIGNATURE", None),
    ]


async def test_an_observer_sees_blocks_and_drops(tmp_path: Path) -> None:
    watcher = Watcher()
    core = opening.open_core(dev_genesis(), tmp_path, settings(), KEYS, Told(), observer=watcher)
    dearer = signed(0, gas_price=2 * GWEI)
    await core.submit(signed(0))
    await core.submit(dearer)
    make_block(core)
    make_block(core)
    await core.stop()
    assert watcher.seen == [(signed(0).hash, "replaced"), (1, [dearer.hash]), (2, [])]


def test_every_type_is_restored_and_pays_what_it_did_before(tmp_path: Path) -> None:
    txs = signed_of_each_type()

    async def accept_and_vanish() -> None:
        core = open_core(tmp_path)
        for tx in txs:
            await core.submit(tx)
        core._chain.close()

    async def mine() -> None:
        async with opened_core(tmp_path) as core:
            before = core._chain.account(ACCOUNTS[0]).balance
            for tx in txs:
                found = await core.find_tx(tx.hash)
                assert isinstance(found, PendingTx)
                assert found.tx == tx
            # A legacy price is both caps: it must be above the greater one.
            with pytest.raises(ReplacementUnderpriced):
                await core.submit(signed(2, gas_price=2 * GWEI))
            make_block(core)
            assert list(map(decode_record, core._chain.records(1))) == txs
            assert before - core._chain.account(ACCOUNTS[0]).balance == 4 + 21_000 * sum(MIXED_PRICES)

    asyncio.run(accept_and_vanish())
    asyncio.run(mine())


def test_data_is_restored_and_mined_with_its_gas(tmp_path: Path) -> None:
    txs = [signed(nonce, data=data_by_number(nonce)) for nonce in range(20)]

    async def accept_and_vanish() -> None:
        core = open_core(tmp_path)
        for tx in txs:
            await core.submit(tx)
        core._chain.close()

    async def mine() -> None:
        async with opened_core(tmp_path) as core:
            before = core._chain.account(ACCOUNTS[0]).balance
            make_block(core)
            assert list(map(decode_record, core._chain.records(1))) == txs
            used = sum(gas_of(tx.data) for tx in txs)
            assert (core._chain.head_header.gas_used, core._chain.head_header.tx_count) == (used, 20)
            assert before - core._chain.account(ACCOUNTS[0]).balance == 20 + GWEI * used
            assert not core._journal._tails

    asyncio.run(accept_and_vanish())
    asyncio.run(mine())


def test_the_block_time_is_the_setting_or_the_pause_of_the_network(tmp_path: Path) -> None:
    assert read_block_time_s(settings(block_time_s=0.25)) == 0.25
    network = settings(engine="cometbft", cometbft_home=str(tmp_path), block_time_s=0.25)
    assert read_block_time_s(network) == 0, "not known"
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text('[consensus]\ntimeout_commit = "5s"\n')
    assert read_block_time_s(network) == 5.0


async def test_transactions_of_other_nodes_count_as_pending(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        core._pool.admit(signed(0), received_at=0, local=False)
        core._pool.admit(signed(0, sender=1), received_at=0, local=False)
        assert (await core.list_pending(1, None, ACCOUNTS[1])).pending == 2
        core._pool.admit(signed(0, sender=2), received_at=0, local=False)
        assert (await core.status()).pending == 3


async def test_a_core_that_was_stopped_does_not_touch_its_journal_again(tmp_path: Path) -> None:
    """A sync was due at the stop; after it nobody is left to hear that the journal is closed."""
    core = open_core(tmp_path)
    await asyncio.gather(*[core.submit(signed(nonce)) for nonce in range(BUSY_BATCH)])
    answer = core.submit(signed(BUSY_BATCH))
    await core.stop()
    assert not (await answer).confirmed
    await asyncio.sleep(2 * GATHER_S)
    assert not core.failed.done()


def test_submissions_of_one_turn_share_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = 0
    real = os.fdatasync

    def counted(file: int) -> None:
        nonlocal syncs
        syncs += 1
        real(file)

    async def run() -> None:
        async with opened_core(tmp_path) as core:
            monkeypatch.setattr(os, "fdatasync", counted)
            answers = await asyncio.gather(*[core.submit(signed(nonce)) for nonce in range(50)])
            monkeypatch.undo()
            assert [answer.confirmed for answer in answers] == [False] * 50

    asyncio.run(run())
    assert syncs == 1


async def test_a_repeated_submission_is_answered_as_known_then_as_confirmed(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        tx = signed(0)
        twice = await asyncio.gather(core.submit(tx), core.submit(tx))
        assert list(twice) == [Admission(tx.hash), Admission(tx.hash, known=True)]
        assert (await core.status()).pending == 1
        make_block(core)
        assert await core.submit(tx) == Admission(tx.hash, confirmed=True)
        assert await core.find_tx(tx.hash) == ConfirmedTx(1)
        with pytest.raises(NonceTooLow):
            await core.submit(signed(0, value=2))


async def test_a_repeated_submission_is_answered_after_the_first_one_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    note_syncs(order, monkeypatch)
    async with opened_core(tmp_path) as core:
        order.clear()
        record = encode_record(signed(0))
        core.admissions.enqueue(signed(0), record, lambda _: order.append("first"))
        core.admissions.enqueue(signed(0), record, lambda _: order.append("again"))
        assert order == []
        await asyncio.sleep(0.01)
        assert order == ["synced", "first", "again"]


async def test_a_used_nonce_whose_transaction_cannot_be_read_is_answered_and_ends_the_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(tx_hash: TxHash) -> None:
        raise StoreUnavailable("the disk does not read")

    async with opened_core(tmp_path) as core:
        await core.submit(signed(0))
        make_block(core)
        monkeypatch.setattr(core._chain, "find_location", unreadable)
        with pytest.raises(StoreUnavailable, match="does not read"):
            await core.submit(signed(0))
        assert isinstance(core.failed.exception(), StoreUnavailable)


async def test_a_refused_submission_is_freed_without_the_garbage_collector(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        refused = core.submit(signed(0, value=2**255))
        left = weakref.ref(refused)
        gc.disable()
        try:
            await asyncio.wait([refused])
            assert isinstance(refused.exception(), InsufficientFunds)
            del refused
            assert left() is None, "the future, its error and the frame that raised it keep each other"
        finally:
            gc.enable()


async def test_a_failed_sync_refuses_a_repeated_submission_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: int) -> None:
        raise OSError(5, "Input/output error")

    core = open_core(tmp_path)
    monkeypatch.setattr(os, "fdatasync", refuse)
    answers = await asyncio.gather(core.submit(signed(0)), core.submit(signed(0)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [JournalUnavailable] * 2
    assert isinstance(core.failed.exception(), StoreUnavailable)
    monkeypatch.undo()
    await core.stop()


def note_syncs(order: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fdatasync

    def synced(file: int) -> None:
        real(file)
        order.append("synced")

    monkeypatch.setattr(os, "fdatasync", synced)


class Ordered(Told, Watcher):
    """Notes in the given list when it is told of a drop, as a worker and as an observer."""

    def __init__(self, order: list[str]) -> None:
        Told.__init__(self)
        Watcher.__init__(self)
        self.order = order

    def on_dropped(self, tx_hash: TxHash, reason: DropReason) -> None:
        self.order.append("told")

    def saw_drop(self, tx_hash: TxHash, reason: DropReason) -> None:
        self.order.append("seen")


@pytest.mark.virtual_time
async def test_every_drop_is_told_after_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever drops it: a replacement, a mempool without room, or time."""
    order: list[str] = []
    note_syncs(order, monkeypatch)
    ordered = Ordered(order)
    limits = settings(mempool_size=2, mempool_lifetime_s=10)
    core = opening.open_core(dev_genesis(), tmp_path, limits, KEYS, ordered, observer=ordered)
    await core.submit(signed(0))
    await core.submit(signed(5))
    for better in (signed(0, gas_price=2 * GWEI), signed(0, sender=1)):
        order.clear()
        await core.submit(better)
        await asyncio.sleep(0)
        assert order == ["synced", "told", "seen"]
    core._pool.remove(signed(0, sender=1).hash)
    await core.submit(signed(5))
    await asyncio.sleep(11)
    order.clear()
    core.admissions.expire()
    assert order == []
    await asyncio.sleep(0.01)
    assert order == ["synced", "told", "seen"]
    await core.stop()


async def test_nobody_is_told_of_a_drop_that_the_disk_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither followers nor readers: after a kill the old one would be pending again, and mined."""
    told = Told()

    def refuse(file: int) -> None:
        raise OSError(5, "Input/output error")

    core = open_core(tmp_path, listener=told)
    await core.submit(signed(0))
    monkeypatch.setattr(os, "fdatasync", refuse)
    replacing = core.submit(signed(0, gas_price=2 * GWEI))
    # Before the sync, and after it failed.
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await core.find_tx(signed(0).hash)
    with pytest.raises(StoreUnavailable):
        await replacing
    assert isinstance(core.failed.exception(), StoreUnavailable)
    monkeypatch.undo()
    await core.stop()
    assert told.dropped == []


async def test_a_reader_is_told_of_a_drop_after_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    note_syncs(order, monkeypatch)
    async with opened_core(tmp_path) as core:
        await core.submit(signed(0))
        order.clear()
        core.submit(signed(0, gas_price=2 * GWEI))
        assert await core.find_tx(signed(0).hash) == DroppedTx("replaced")
        assert order == ["synced"]


async def test_a_replacement_and_the_drop_that_it_caused_are_known_after_a_restart(tmp_path: Path) -> None:
    told = Told()
    old, new = signed(0), signed(0, gas_price=2 * GWEI)
    async with opened_core(tmp_path, listener=told) as core:
        await core.submit(old)
        with pytest.raises(ReplacementUnderpriced):
            await core.submit(signed(0, gas_price=GWEI + 1))
        await core.submit(new)
        assert await core.find_tx(old.hash) == DroppedTx("replaced")
    assert told.dropped == [(old.hash, "replaced")]
    async with opened_core(tmp_path) as core:
        assert await core.find_tx(old.hash) == DroppedTx("replaced")
        assert isinstance(await core.find_tx(new.hash), PendingTx)


async def test_drafts_are_signed_with_the_next_nonce_and_only_for_held_keys(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        draft = Draft(ACCOUNTS[0], ACCOUNTS[1], 1, 21_000, GWEI, None)
        first, second = await asyncio.gather(core.submit_draft(draft), core.submit_draft(draft))
        assert first.tx_hash == signed(0).hash
        assert second.tx_hash == signed(1).hash
        assert await core.next_nonce(ACCOUNTS[0]) == 2
        with pytest.raises(InvalidField, match="no key"):
            await core.submit_draft(Draft(ACCOUNTS[0][::-1], ACCOUNTS[1], 1, 21_000, GWEI, None))  # type: ignore[arg-type]


async def test_confirmed_leaves_the_journal_and_is_not_restored(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        await asyncio.gather(*[core.submit(signed(nonce)) for nonce in range(3)])
        make_block(core)
        await core.submit(signed(3))
    async with opened_core(tmp_path) as core:
        status = await core.status()
        assert (status.head, status.pending) == (1, 1)
        assert isinstance(await core.find_tx(signed(3).hash), PendingTx)
        assert await core.find_tx(signed(1).hash) == ConfirmedTx(1)


async def test_the_journal_keeps_nothing_of_what_a_block_confirmed(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        await asyncio.gather(*[core.submit(signed(nonce)) for nonce in (0, 1, 5)])
        make_block(core)
        assert list(core._journal._alive) == [signed(5).hash]


async def test_a_transaction_dropped_at_the_restore_stays_dropped_after_a_kill(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        await asyncio.gather(*[core.submit(signed(nonce)) for nonce in range(3)])
    core = open_core(tmp_path, settings(mempool_per_sender=2))
    core._journal.close()
    core._chain.close()
    async with opened_core(tmp_path) as core:
        assert await core.find_tx(signed(2).hash) == DroppedTx("evicted")


async def test_lowered_limits_drop_with_a_reason_at_the_restore(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        await asyncio.gather(*[core.submit(signed(nonce)) for nonce in range(3)])
    async with opened_core(tmp_path, settings(mempool_per_sender=2)) as core:
        assert (await core.status()).pending == 2
        assert await core.find_tx(signed(2).hash) == DroppedTx("evicted")


async def test_a_failed_sync_refuses_what_waits_and_ends_the_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int) -> None:
        raise OSError(5, "Input/output error")

    core = open_core(tmp_path)
    core.start()
    await core.submit(signed(0))
    monkeypatch.setattr(os, "fdatasync", refuse)
    with pytest.raises(StoreUnavailable, match="Input/output error"):
        await core.submit(signed(1))
    monkeypatch.undo()
    assert isinstance(core.failed.exception(), StoreUnavailable)
    with pytest.raises(StoreUnavailable, match="reopened"):
        # It may be on disk all the same: nobody may hear that it was dropped.
        await core.find_tx(signed(1).hash)
    await core.stop()
    async with opened_core(tmp_path) as reopened:
        assert isinstance(await reopened.find_tx(signed(0).hash), PendingTx)
        await reopened.submit(signed(1))


async def test_a_submission_after_a_failure_is_refused_when_the_core_closes(tmp_path: Path) -> None:
    """The workers have not heard of the failure yet."""
    core = open_core(tmp_path)
    core.admissions.fail(StoreUnavailable("a block could not be written"))
    answer = core.submit(signed(0))
    await asyncio.sleep(0.01)
    assert not answer.done()
    await core.stop()
    assert isinstance(answer.exception(), StoreUnavailable)
    assert isinstance(core.failed.exception(), StoreUnavailable)
    async with opened_core(tmp_path) as reopened:
        assert await reopened.find_tx(signed(0).hash) is None


async def test_a_check_writes_to_and_reads_from_store_and_journal(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        checks = await core.check()
        assert (checks.store, checks.mempool) == ("ok", "ok")


def test_no_block_is_made_once_a_revert_is_decided(tmp_path: Path) -> None:
    announced: list[int] = []

    async def main() -> None:
        async with opened_core(tmp_path, settings(block_time_s=0.0)) as core:
            await asyncio.sleep(1)
            snapshot = await core.snapshot()
            core.feed.subscribe(announced.append)
            # Answered in the very turn of the loop that wakes the engine: fewer would be in a block by then.
            await [core.submit(signed(nonce)) for nonce in range(MOST_AT_ONCE + 1)][0]
            assert await core.revert(snapshot)
            await asyncio.sleep(1)

    run_virtual(main())
    assert announced == []


@pytest.mark.virtual_time
async def test_a_revert_forgets_the_drops_after_the_snapshot_and_no_others(tmp_path: Path) -> None:
    before, kept, after, late = signed(0), signed(0, gas_price=2 * GWEI), signed(0, gas_price=3 * GWEI), signed(1)
    async with opened_core(tmp_path) as core:
        await core.submit(before)
        await core.submit(kept)
        snapshot = await core.snapshot()
        await core.submit(after)
        await core.submit(late)
        await core.submit(signed(1, gas_price=2 * GWEI))
        assert [await core.find_tx(tx.hash) for tx in (before, kept, late)] == 3 * [DroppedTx("replaced")]
        assert await core.revert(snapshot)
        assert isinstance(core.failed.exception(), Reverting)
    async with opened_core(tmp_path) as core:
        assert await core.find_tx(before.hash) == DroppedTx("replaced")
        # It was pending when the snapshot was taken, and those that came later never were.
        assert isinstance(await core.find_tx(kept.hash), PendingTx)
        assert [await core.find_tx(tx.hash) for tx in (after, late)] == [None, None]


async def test_every_call_is_answered_by_one_part(tmp_path: Path) -> None:
    async with opened_core(tmp_path) as core:
        parts = {core, *core._answering.values()}
        for method in methods_of(CoreCalls):
            declared = getattr(CoreCalls, method.name)
            answering = [part for part in parts if getattr(type(part), method.name, declared) is not declared]
            assert len(answering) == 1, method.name
            assert answering[0] in (core, core._answering.get(method.name))
