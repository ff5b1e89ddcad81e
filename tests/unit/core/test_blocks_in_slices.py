"""A large block is made in steps, and others are served in between: what they are told is right at every moment.

Here it is left after each step, until the test says that it goes on.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from cairn.core import admission
from cairn.core.dev_controls import DevControls
from cairn.core.gateway import Admission, ConfirmedTx, DroppedTx, KeyedRequest, PendingTx
from cairn.core.service import Core
from cairn.domain import steps, transition
from cairn.domain.errors import EngineUnavailable, IdempotencyKeyReused, NonceTooLow, Reverting, StoreUnavailable
from cairn.domain.types import Draft, Tx
from cairn.engine import application, embedded
from cairn.engine.embedded import EmbeddedEngine
from cairn.mempool import pool as pool_module
from tests.support.core_fixtures import ACCOUNTS, GWEI, Told, open_core, opened_core, settings, signed

BLOCK = [signed(nonce, sender=sender) for nonce in range(2) for sender in range(4)]
"""Two transfers of each of four senders."""


class Slices:
    """What the engine finds as `in_slices`."""

    def __init__(self) -> None:
        self._goes_on = asyncio.Event()
        self.is_open = False

    async def __call__(self, items: Iterable[Any]) -> AsyncIterator[Any]:
        for item in items:
            yield item
            if not self.is_open:
                await self._goes_on.wait()
                self._goes_on.clear()

    async def step(self) -> None:
        self._goes_on.set()
        await asyncio.sleep(0)

    def open(self) -> None:
        self.is_open = True
        self._goes_on.set()


class Making:
    """A core that makes a block."""

    def __init__(self, core: Core, slices: Slices) -> None:
        assert isinstance(core.engine, EmbeddedEngine)
        assert isinstance(core._controls, DevControls)
        self.core, self.engine, self.controls = core, core.engine, core._controls
        self.pool, self._slices = core._pool, slices
        self.task = asyncio.ensure_future(core.engine._make_block())

    async def until(self, reached: Callable[[], bool]) -> None:
        """Take steps until something is so."""
        while not reached():
            assert not self.task.done(), "it never is so"
            await self._slices.step()

    async def until_taken(self) -> None:
        """It is known which transactions are in the block, and nothing else."""
        await self.until(lambda: list(self.pool._taken.values()) == [2] * 4)
        await self._slices.step()

    async def until_written(self) -> None:
        """It is on disk, and not all that it confirms is removed yet."""
        await self.until(lambda: self.core.head == 1)
        assert self.pool._unsettled

    async def end(self) -> None:
        self._slices.open()
        await self.task


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(steps, "STEP_ITEMS", 2)
    monkeypatch.setattr(pool_module, "TAKEN_AT_ONCE", 1)
    monkeypatch.setattr(embedded, "SMALL_BLOCK", 2)
    with capture_logs():
        yield


@asynccontextmanager
async def making(
    directory: Path, monkeypatch: pytest.MonkeyPatch, told: Told | None = None, **changes: Any
) -> AsyncIterator[Making]:
    """A core with the transfers in its mempool, which begins to make a block."""
    slices = Slices()
    monkeypatch.setattr(embedded, "in_slices", slices)
    async with opened_core(directory, settings(**changes), told) as core:
        await asyncio.gather(*map(core.submit, BLOCK))
        made = Making(core, slices)
        try:
            yield made
        finally:
            await asyncio.wait([made.task], timeout=0)
            slices.open()
            await asyncio.gather(made.task, return_exceptions=True)


def hashes(txs: Iterable[Tx]) -> list[bytes]:
    return [tx.hash for tx in txs]


def block_hashes(core: Core, height: int) -> list[bytes]:
    joined = core._chain.tx_hashes(height)
    return [joined[at : at + 32] for at in range(0, len(joined), 32)]


async def test_nothing_of_a_block_shows_before_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with making(tmp_path, monkeypatch) as made:
        seen = 0
        while not made.task.done() and made.core.head == 0:
            assert (await made.core.status()).pending == len(BLOCK)
            assert isinstance(await made.core.find_tx(BLOCK[0].hash), PendingTx)
            assert made.core._chain.account(ACCOUNTS[0]).nonce == 0
            seen += 1
            await made._slices.step()
        assert seen > 10
        await made.end()
        assert block_hashes(made.core, 1) == hashes(BLOCK)


async def test_a_key_is_taken_while_its_payment_waits_for_a_block_in_the_making(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with making(tmp_path, monkeypatch, mempool_size=len(BLOCK)) as made:
        await made.until_taken()
        # The mempool is full of what is in the block.
        one, two = (Draft(ACCOUNTS[5], ACCOUNTS[1], value, 21_000, 2 * GWEI, None) for value in (1, 2))
        asked = [
            asyncio.ensure_future(made.core.submit_draft(draft, KeyedRequest(b"key", b"%d" % draft.value)))
            for draft in (one, two, one)
        ]
        await made._slices.step()
        assert [each.done() for each in asked] == [False, True, False]
        await made.end()
        first, reused, again = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(first, Admission)
        assert again == first
        assert isinstance(reused, IdempotencyKeyReused)
        assert await made.core.next_nonce(ACCOUNTS[5]) == 1


async def test_a_key_is_free_again_once_the_payment_that_waited_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with making(tmp_path, monkeypatch) as made:
        await made.until_taken()
        # It would replace one of the block, and so it comes too late.
        late = Draft(ACCOUNTS[0], ACCOUNTS[1], 1, 21_000, 2 * GWEI, 0)
        both = [asyncio.ensure_future(made.core.submit_draft(late, KeyedRequest(b"key", b"late"))) for _ in range(2)]
        await made._slices.step()
        await made.end()
        for each in both:
            with pytest.raises(NonceTooLow):
                await each
        other = Draft(ACCOUNTS[0], ACCOUNTS[1], 1, 21_000, GWEI, None)
        assert await made.core.submit_draft(other, KeyedRequest(b"key", b"other")) == Admission(signed(2).hash)


async def test_the_block_is_the_same_in_slices_and_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with making(tmp_path / "sliced", monkeypatch) as made:
        await made.end()
        sliced = made.core._chain.head_header
    monkeypatch.setattr(steps, "STEP_ITEMS", 64)
    async with opened_core(tmp_path / "whole") as core:
        await asyncio.gather(*map(core.submit, BLOCK))
        assert isinstance(core.engine, EmbeddedEngine)
        header = core.engine.produce().block.header
    assert (header.tx_root, header.state_root, header.changes_root) == (
        sliced.tx_root,
        sliced.state_root,
        sliced.changes_root,
    )


async def test_a_replacement_of_what_is_in_the_block_waits_and_is_then_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    async with making(tmp_path, monkeypatch, told) as made:
        await made.until_taken()
        late = signed(0, gas_price=2 * GWEI)
        answer = made.core.submit(late)
        await made._slices.step()
        assert not answer.done()
        await made.until_written()
        with pytest.raises(NonceTooLow):
            await answer
        await made.end()
        assert await made.core.find_tx(BLOCK[0].hash) == ConfirmedTx(1)
        assert await made.core.find_tx(late.hash) is None
    assert told.dropped == []


@pytest.mark.parametrize("fails", [False, True])
async def test_many_replacements_that_waited_for_a_block_are_taken_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(admission, "HELD_BACK_AT_ONCE", 2)
    async with making(tmp_path, monkeypatch) as made:
        await made.until_taken()
        better = [signed(nonce, sender=sender, gas_price=2 * GWEI) for nonce in range(2) for sender in range(4)]
        answers = list(map(made.core.submit, better))
        made.engine.finish_block()
        assert [answer.done() for answer in answers] == [True] * 2 + [False] * 6
        await asyncio.sleep(0)
        assert [answer.done() for answer in answers] == [True] * 4 + [False] * 4
        if fails:
            made.core.admissions.fail(StoreUnavailable("the disk is gone"))
        refused = await asyncio.gather(*answers, return_exceptions=True)
        expected = [NonceTooLow] * 4 + [StoreUnavailable if fails else NonceTooLow] * 4
        assert [type(each) for each in refused] == expected


async def test_a_stop_loses_no_submission_that_waited_for_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "HELD_BACK_AT_ONCE", 1)
    async with making(tmp_path, monkeypatch) as made:
        await made.until_taken()
        better = [signed(0, sender=sender, gas_price=2 * GWEI) for sender in range(4)]
        answers = list(map(made.core.submit, better))
        assert made.engine._making is not None
        made.engine._making.close()
        made.core.admissions.finish()
        assert [answer.result() for answer in answers] == [Admission(tx.hash) for tx in better]


async def test_a_replacement_of_what_is_not_in_the_block_is_made_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with making(tmp_path, monkeypatch) as made:
        await made.until_taken()
        later = signed(2)
        assert await made.core.submit(later) == Admission(later.hash)
        better = signed(2, gas_price=2 * GWEI)
        assert await made.core.submit(better) == Admission(better.hash)
        assert await made.core.find_tx(later.hash) == DroppedTx("replaced")
        await made.end()
        assert block_hashes(made.core, 1) == hashes(BLOCK)
        assert isinstance(await made.core.find_tx(better.hash), PendingTx)


async def test_one_that_becomes_better_than_what_was_taken_leaves_no_gap_in_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of a sender is taken only after the first, whatever became of that between two steps."""
    async with making(tmp_path, monkeypatch) as made:
        await made.until(lambda: bool(made.pool._taken))
        other = next(number for number in range(4) if ACCOUNTS[number] not in made.pool._taken)
        better = signed(0, sender=other, gas_price=9 * GWEI)
        assert await made.core.submit(better) == Admission(better.hash)
        await made.end()
        found = block_hashes(made.core, 1)
        assert better.hash not in found
        assert signed(1, sender=other).hash not in found
        assert len(found) == len(BLOCK) - 2
        made.engine.produce()
        assert block_hashes(made.core, 2) == [better.hash, signed(1, sender=other).hash]


async def test_one_that_is_in_the_block_is_known_when_it_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with making(tmp_path, monkeypatch) as made:
        await made.until_taken()
        assert await made.core.submit(BLOCK[0]) == Admission(BLOCK[0].hash, known=True)
        await made.until_written()
        for tx in BLOCK:
            assert await made.core.submit(tx) == Admission(tx.hash, confirmed=True)


async def test_a_full_mempool_evicts_nothing_that_is_in_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    async with making(tmp_path, monkeypatch, told, mempool_size=len(BLOCK)) as made:
        await made.until_taken()
        newcomer = signed(0, sender=7, gas_price=5 * GWEI)
        answer = made.core.submit(newcomer)
        await made._slices.step()
        assert not answer.done()
        await made.until_written()
        assert await answer == Admission(newcomer.hash)
        await made.end()
        assert block_hashes(made.core, 1) == hashes(BLOCK)
    assert told.dropped == []


async def test_a_written_block_is_confirmed_for_whoever_asks_though_not_all_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with making(tmp_path, monkeypatch) as made:
        await made.until_taken()
        after = signed(2, sender=3)
        await made.core.submit(after)
        await made.until_written()
        status = await made.core.status()
        assert (status.head, status.pending, status.queued) == (1, 1, 0)
        assert made.core._chain.board.counts == (1, 0)
        page = await made.core._lookups.list_pending(10, None, None)
        assert ([item.tx for item in page.items], page.total, page.pending) == ([after], 1, 1)
        assert made.pool._unsettled, "a page removes nothing"
        assert await made.core._lookups.next_nonce(ACCOUNTS[3]) == 3
        of_sender = await made.core._lookups.list_pending(10, None, ACCOUNTS[3])
        assert [item.tx for item in of_sender.items] == [after]
        for tx in BLOCK:
            assert await made.core.find_tx(tx.hash) == ConfirmedTx(1)
        await made.end()
        assert made.core._chain.board.counts == (1, 0)
        assert not made.core._journal._alive.keys() & set(hashes(BLOCK))


async def test_what_a_block_has_paid_is_not_counted_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last sender's transfers are confirmed and not removed yet when it spends all that is left."""
    async with making(tmp_path, monkeypatch) as made:
        await made.until_written()
        (sender,) = (number for number in range(4) if ACCOUNTS[number] == list(made.pool._unsettled)[-1])
        balance = made.core._chain.account(ACCOUNTS[sender]).balance
        everything = signed(2, sender=sender, value=balance - 21_000 * GWEI)
        assert await made.core.submit(everything) == Admission(everything.hash)


async def test_mining_in_the_middle_completes_the_block_and_makes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with making(tmp_path, monkeypatch) as made:
        await made.until_taken()
        await made.core.submit(signed(2))
        assert await made.controls.mine() == 2
        assert (block_hashes(made.core, 1), block_hashes(made.core, 2)) == (hashes(BLOCK), [signed(2).hash])
        await made.end()
        assert made.core.head == 2


async def test_a_balance_set_in_the_middle_comes_after_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with making(tmp_path, monkeypatch) as made:
        await made.until_taken()
        assert await made.controls.set_balance(ACCOUNTS[9], 5) == 2
        assert made.core._chain.account(ACCOUNTS[9]).balance == 5
        assert block_hashes(made.core, 1) == hashes(BLOCK)


@pytest.mark.parametrize("written", [False, True])
async def test_a_snapshot_in_the_middle_holds_the_block_and_nothing_of_it_as_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    async with making(tmp_path, monkeypatch) as made:
        await (made.until_written() if written else made.until_taken())
        number = await made.controls.snapshot()
        assert made.controls._kept.state.snapshots[number].height == 1
        assert made.pool.pending_count == 0


async def test_a_time_set_in_the_middle_is_that_of_the_next_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with making(tmp_path, monkeypatch) as made:
        await made.until_taken()
        await made.controls.set_next_timestamp(4_000_000_000)
        assert made.core._chain.head_header.timestamp < 4_000_000_000
        await made.controls.mine()
        assert made.core._chain.head_header.timestamp == 4_000_000_000


async def test_a_revert_gives_the_block_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    announced: list[int] = []
    async with making(tmp_path, monkeypatch) as made:
        await made.until_taken()
        number = await made.controls.snapshot()
        await made.end()
        made._slices.is_open = False
        made.core.feed.subscribe(announced.append)
        await asyncio.gather(*(made.core.submit(signed(nonce)) for nonce in (2, 3)))
        again = Making(made.core, made._slices)
        await again.until(lambda: bool(made.pool._taken))
        late = made.core.submit(signed(2, gas_price=2 * GWEI))
        assert await made.controls.revert(number)
        with pytest.raises(Reverting):
            await late
        await again.end()
        assert (made.core.head, announced) == (1, [])


async def test_a_stop_before_the_write_gives_the_block_up_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with making(tmp_path, monkeypatch) as made:
        await made.until_taken()
        better = signed(0, gas_price=2 * GWEI)
        answer = made.core.submit(better)
        made.engine.stop()
        await made.end()
        assert made.core.head == 0
        # It is then as if no block had been begun.
        assert await answer == Admission(better.hash)
    again = open_core(tmp_path)
    assert (again.head, again._pool.pending_count) == (0, len(BLOCK))
    assert isinstance(await again.find_tx(better.hash), PendingTx)
    await again.stop()


async def test_a_stop_at_any_moment_before_the_write_is_followed_by_no_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for steps_before in itertools.count():
        async with making(tmp_path / str(steps_before), monkeypatch) as made:
            for _ in range(steps_before):
                await made._slices.step()
            if made.core.head == 1:
                break
            made.engine.stop()
            await made.end()
            assert made.core.head == 0, steps_before
    assert steps_before > 10


async def test_a_stop_after_the_write_completes_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with making(tmp_path, monkeypatch) as made:
        await made.until_written()
        made.engine.stop()
        await made.end()
        assert (made.core.head, made.pool.pending_count, made.pool._unsettled) == (1, 0, {})


async def test_a_failure_of_the_store_gives_the_block_up_and_answers_what_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with making(tmp_path, monkeypatch) as made:
        await made.until_taken()
        answer = made.core.submit(signed(0, gas_price=2 * GWEI))
        made.core.admissions.fail(StoreUnavailable("the disk is gone"))
        with pytest.raises(StoreUnavailable, match="the disk is gone"):
            await answer
        await made.end()
        assert made.core.head == 0


async def test_a_write_that_fails_ends_the_maker_and_keeps_the_mempool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise StoreUnavailable("the disk is full")

    async with making(tmp_path, monkeypatch) as made:
        await made.until_taken()
        better = signed(0, gas_price=2 * GWEI)
        answer = made.core.submit(better)
        with monkeypatch.context() as patched:
            patched.setattr(made.core._chain, "commit", refuse)
            with pytest.raises(StoreUnavailable, match="the disk is full"):
                await made.end()
        assert await answer == Admission(better.hash)
        assert (made.core.head, made.pool.pending_count) == (0, len(BLOCK))


async def test_a_block_that_cannot_be_made_frees_what_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("a defect")

    async with making(tmp_path, monkeypatch) as made:
        await made.until(lambda: len(made.pool._taken) == 3)
        better = signed(0, gas_price=2 * GWEI)
        answer = made.core.submit(better)
        with monkeypatch.context() as patched:
            patched.setattr(application, "block_steps", fail)
            with pytest.raises(EngineUnavailable):
                await made.end()
        assert await answer == Admission(better.hash)
        made.engine.produce()
        assert made.core.head == 1


async def test_one_that_cannot_be_applied_is_set_aside_in_slices_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    bad = signed(1, sender=2)

    def fail_for_one(*arguments: Any) -> Any:
        if bad in arguments[3]:
            raise ZeroDivisionError("a defect")
        return transition.block_steps(*arguments)

    monkeypatch.setattr(application, "block_steps", fail_for_one)
    async with making(tmp_path, monkeypatch, told) as made:
        await made.end()
        while made.pool.pending_count:
            await made.engine._make_block()
        assert isinstance(await made.core.find_tx(bad.hash), DroppedTx)
        confirmed = [tx for height in range(1, made.core.head + 1) for tx in block_hashes(made.core, height)]
        assert sorted(confirmed) == sorted(hashes(tx for tx in BLOCK if tx != bad))
    assert told.dropped == [(bad.hash, "cannot be applied")]


async def test_arrivals_between_two_steps_are_announced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    async with making(tmp_path, monkeypatch, told) as made:
        made.core.watch_arrivals(True)
        await made.until_taken()
        first, second = signed(2), signed(3)
        await made.core.submit(first)
        await made.until_written()
        await made.core.submit(second)
        await made.end()
        await made.core.submit(signed(4))
    assert told.arrived == [first, second, signed(4)]


async def test_the_journal_is_compacted_while_a_block_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with making(tmp_path, monkeypatch) as made:
        journal = made.core._journal
        journal._segment_bytes, journal._max_segments = 512, 2
        await made.until_taken()
        for nonce in range(6):
            await made.core.submit(signed(nonce, sender=8))
        await made.until_written()
        for nonce in range(6, 12):
            await made.core.submit(signed(nonce, sender=8))
        await made.end()
        await made.core.submit(signed(12, sender=8))
    again = open_core(tmp_path)
    assert (again.head, again._pool.pending_count) == (1, 13)
    await again.stop()
