"""How long an accepted transaction is kept: by what it waits for, and by the time that the node was up."""

import asyncio
import time
from pathlib import Path

import pytest

from cairn.core.gateway import DroppedTx, PendingTx
from cairn.core.service import HOUSEKEEPING_INTERVAL_S, Core
from cairn.domain.errors import NonceTooHigh, Reverting
from tests.support.core_fixtures import open_core, opened_core, settings, signed

pytestmark = pytest.mark.virtual_time

HOUR_S = 3600
MINABLE, BEHIND_A_GAP = signed(0), signed(5)
HALTED = settings(block_time_s=1e9)
"""No block is made: what can be mined is not."""


async def is_kept(core: Core) -> tuple[bool, bool]:
    """Whether the mempool holds the one that can be mined, and the one that waits for a nonce."""
    found = [await core.find_tx(tx.hash) for tx in (MINABLE, BEHIND_A_GAP)]
    assert all(isinstance(each, PendingTx) or each == DroppedTx("expired") for each in found)
    return isinstance(found[0], PendingTx), isinstance(found[1], PendingTx)


async def submit_both(core: Core) -> None:
    await asyncio.gather(core.submit(MINABLE), core.submit(BEHIND_A_GAP))


def vanish(core: Core) -> None:
    """Let go of the loop, as a process does that is killed."""
    for pending in (core._housekeeping, core._engine_task):
        assert pending is not None
        pending.cancel()


def step_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + seconds)


async def test_a_stepped_clock_drops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened_core(tmp_path, HALTED) as core:
        await submit_both(core)
        step_clock(monkeypatch, 365 * 24 * HOUR_S)
        await asyncio.sleep(3 * HOUSEKEEPING_INTERVAL_S)
        assert await is_kept(core) == (True, True)


async def test_each_is_received_when_it_came_whatever_was_refused_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_core(tmp_path, HALTED) as core:
        # No sync follows it, so nothing that comes later shares one with it.
        with pytest.raises(NonceTooHigh):
            await core.submit(signed(500))
        await asyncio.sleep(HOUSEKEEPING_INTERVAL_S - 1)
        step_clock(monkeypatch, HOUR_S)
        await core.submit(BEHIND_A_GAP)
        entry = core._pool.find(BEHIND_A_GAP.hash)
        assert entry is not None
        assert entry.received_at == pytest.approx(time.time(), abs=60)
        assert entry.queued_since == HOUSEKEEPING_INTERVAL_S - 1


async def test_an_outage_drops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened_core(tmp_path, HALTED) as core:
        await submit_both(core)
    step_clock(monkeypatch, 4 * HOUR_S)
    async with opened_core(tmp_path, HALTED) as core:
        await asyncio.sleep(3 * HOUSEKEEPING_INTERVAL_S)
        assert await is_kept(core) == (True, True)


async def test_only_queued_transactions_expire_after_three_hours_of_uptime(tmp_path: Path) -> None:
    async with opened_core(tmp_path, HALTED) as core:
        await submit_both(core)
        await asyncio.sleep(3 * HOUR_S - 60)
        assert await is_kept(core) == (True, True)
        await asyncio.sleep(120)
        assert await is_kept(core) == (True, False)
        await asyncio.sleep(24 * HOUR_S)
        assert await is_kept(core) == (True, False)


async def test_the_time_in_the_queue_survives_a_restart(tmp_path: Path) -> None:
    async with opened_core(tmp_path, HALTED) as core:
        await submit_both(core)
        await asyncio.sleep(2 * HOUR_S)
    async with opened_core(tmp_path, HALTED) as core:
        await asyncio.sleep(HOUR_S - 60)
        assert await is_kept(core) == (True, True)
        await asyncio.sleep(120)
        assert await is_kept(core) == (True, False)
    async with opened_core(tmp_path, HALTED) as core:
        assert await is_kept(core) == (True, False)


async def test_a_kill_loses_at_most_a_minute_of_the_time_in_the_queue(tmp_path: Path) -> None:
    core = open_core(tmp_path, HALTED)
    core.start()
    await submit_both(core)
    await asyncio.sleep(2 * HOUR_S)
    # As after SIGKILL: the kernel lets go of the lock and the files, and nothing else happens.
    core._chain.close()
    vanish(core)
    # Its timers still run here, and fail.
    core.failed.add_done_callback(asyncio.Future.exception)
    async with opened_core(tmp_path, HALTED) as reopened:
        await asyncio.sleep(HOUR_S - 60)
        assert await is_kept(reopened) == (True, True)
        await asyncio.sleep(3 * 60)
        assert await is_kept(reopened) == (True, False)


async def test_a_snapshot_keeps_the_time_in_the_queue(tmp_path: Path) -> None:
    async with opened_core(tmp_path, HALTED) as core:
        await submit_both(core)
        await asyncio.sleep(HOUR_S)
        snapshot = await core.snapshot()
        await asyncio.sleep(HOUR_S)
        assert await core.revert(snapshot)
        assert isinstance(core.failed.exception(), Reverting)
    async with opened_core(tmp_path, HALTED) as core:
        await asyncio.sleep(2 * HOUR_S - 60)
        assert await is_kept(core) == (True, True)
        await asyncio.sleep(120)
        assert await is_kept(core) == (True, False)
