"""A core whose chain cannot apply what it has accepted: it drops that by name, at once and after a restart."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from cairn.core.gateway import DroppedTx, PendingTx
from cairn.core.opening import open_core
from cairn.core.service import Core
from cairn.domain.answers import Checks
from cairn.domain.errors import EngineUnavailable
from cairn.domain.genesis import dev_genesis
from cairn.domain.types import MAX_UINT256, DropReason, Tx, TxHash
from cairn.engine import application
from cairn.mempool.pool import Mempool
from tests.support.core_fixtures import ACCOUNTS, KEYS, Told, opened_core, produce, settings, signed

REASON: DropReason = "cannot be applied"
OVERFULL = msgspec.structs.replace(dev_genesis(), alloc=dev_genesis().alloc | {ACCOUNTS[1]: MAX_UINT256})
"""Whoever pays the second account a wei overflows its balance."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Unless a node sets up its log, tracebacks show all variables, which takes seconds."""
    with capture_logs():
        yield


def open_overfull(directory: Path, told: Told) -> Core:
    return open_core(OVERFULL, directory, settings(), KEYS, told)


async def test_a_transfer_that_overflows_a_balance_is_dropped_and_the_core_goes_on(tmp_path: Path) -> None:
    told = Told()
    core = open_overfull(tmp_path, told)
    bad, good = signed(0), signed(0, sender=2)
    await core.submit(bad)
    await core.submit(good)
    assert [tx.hash for tx in produce(core).block.txs] == [good.hash]
    await asyncio.sleep(0.05)
    assert told.dropped == [(bad.hash, REASON)]
    await core.stop()
    again = open_overfull(tmp_path, told)
    assert await again.find_tx(bad.hash) == DroppedTx(REASON)
    assert (await again.status()).pending == 0
    await again.stop()


async def test_a_chain_that_an_earlier_version_could_not_start_again_starts(tmp_path: Path) -> None:
    """Its journal holds the transfer that no block can."""
    core = open_overfull(tmp_path, Told())
    await core.submit(signed(0))
    # As after the crash that the block used to be.
    core._chain.close()
    told = Told()
    again = open_overfull(tmp_path, told)
    assert isinstance(await again.find_tx(signed(0).hash), PendingTx)
    again.start()
    assert produce(again).block.txs == ()
    assert await again.find_tx(signed(0).hash) == DroppedTx(REASON)
    assert not again.failed.done()
    await again.stop()


async def test_a_journaled_transaction_that_the_mempool_fails_on_does_not_fail_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = Mempool.restore

    def fail_on_second(pool: Mempool, tx: Tx, *arguments: int) -> object:
        if tx.hash == signed(1).hash:
            raise ZeroDivisionError("a defect")
        return restore(pool, tx, *arguments)

    async def state_of(core: Core, tx_hash: TxHash) -> object:
        return await core.find_tx(tx_hash)

    async with opened_core(tmp_path) as core:
        for nonce in range(3):
            await core.submit(signed(nonce))
    monkeypatch.setattr(Mempool, "restore", fail_on_second)
    async with opened_core(tmp_path) as core:
        assert isinstance(await state_of(core, signed(0).hash), PendingTx)
        assert await state_of(core, signed(1).hash) == DroppedTx(REASON)
    monkeypatch.undo()
    async with opened_core(tmp_path) as core:
        assert await state_of(core, signed(1).hash) == DroppedTx(REASON)


async def test_readiness_says_why_no_block_can_be_made_until_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    async with opened_core(tmp_path) as core:
        await core.submit(signed(0))
        with monkeypatch.context() as patched:
            patched.setattr(application, "block_steps", fail)
            with pytest.raises(EngineUnavailable):
                produce(core)
        why = "not even an empty block can be made: ZeroDivisionError('a defect')"
        assert await core.check() == Checks(store="ok", mempool="ok", engine=why)
        assert isinstance(await core.find_tx(signed(0).hash), PendingTx)
        assert len(produce(core).block.txs) == 1
        assert await core.check() == Checks(store="ok", mempool="ok")
