"""The core at block time zero: each submission is in a block before it is answered, or in the journal."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from cairn.core.gateway import Admission, ConfirmedTx, PendingTx
from cairn.engine.application import Application
from tests.support.core_fixtures import (
    open_core,
    opened_core,
    settings,
    signed,
)


@pytest.mark.virtual_time
async def test_block_time_zero_confirms_at_once(tmp_path: Path) -> None:
    async with opened_core(tmp_path, settings(block_time_s=0.0)) as core:
        await core.submit(signed(0))
        await asyncio.sleep(0.01)
        assert await core.find_tx(signed(0).hash) == ConfirmedTx(1)


def test_at_block_time_zero_a_submission_shares_the_syncs_of_its_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has nothing to write: a kill right behind the answer loses nothing."""
    syncs: list[str] = []
    real = os.fdatasync

    def counted(file: int) -> None:
        syncs.append(Path(os.readlink(f"/proc/self/fd/{file}")).name)
        real(file)

    async def submit_and_vanish() -> None:
        core = open_core(tmp_path, settings(block_time_s=0.0))
        core.start()
        await asyncio.sleep(0)
        monkeypatch.setattr(os, "fdatasync", counted)
        assert await core.submit(signed(0)) == Admission(signed(0).hash), "as at any other pace"
        assert await core.find_tx(signed(0).hash) == ConfirmedTx(1)
        # RocksDB's own is not seen here.
        assert syncs == ["watermark"]
        await asyncio.gather(*[core.submit(signed(nonce)) for nonce in range(1, 9)])
        assert syncs == ["watermark"] * 2
        assert core.head == 2
        # One that must wait for another is not in the block.
        await core.submit(signed(10))
        assert syncs[2:] == ["0000000000000001.seg"]
        monkeypatch.undo()
        core.engine.stop()
        await asyncio.sleep(0)
        core.close()

    async def reopen() -> None:
        async with opened_core(tmp_path) as core:
            assert await core.find_tx(signed(0).hash) == ConfirmedTx(1)
            assert await core.find_tx(signed(8).hash) == ConfirmedTx(2)
            assert isinstance(await core.find_tx(signed(10).hash), PendingTx)

    asyncio.run(submit_and_vanish())
    asyncio.run(reopen())


async def test_at_block_time_zero_what_no_block_can_hold_yet_is_in_the_journal_before_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*anything: object) -> None:
        raise RuntimeError("no block today")

    monkeypatch.setattr(Application, "_build", refuse)
    core = open_core(tmp_path / "killed", settings(block_time_s=0.0))
    core.start()
    await asyncio.sleep(0)
    assert await core.submit(signed(0)) == Admission(signed(0).hash)
    shutil.copytree(tmp_path / "killed", tmp_path / "left")
    await core.stop()
    monkeypatch.undo()
    async with opened_core(tmp_path / "left") as left:
        assert isinstance(await left.find_tx(signed(0).hash), PendingTx)
