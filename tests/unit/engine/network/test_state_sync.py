"""Taking in a snapshot of many accounts: the node answers meanwhile, and may stop. test_snapshots.py has the calls."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from cairn.domain.types import Address
from cairn.engine.abci.requests import (
    ApplySnapshotChunkRequest,
    ApplySnapshotChunkResult,
    OfferSnapshotRequest,
    OfferSnapshotResult,
)
from cairn.engine.network.state_sync import StateSync, describe
from cairn.store import prune
from cairn.store import snapshot as store_snapshot
from cairn.store.chain import ChainStore
from cairn.store.prune import keep_only
from cairn.store.rocks import Database
from cairn.store.snapshot import ACCOUNT_SIZE, Pause, Restore
from tests.support.audit import audit
from tests.support.pace import PATIENCE_S
from tests.support.snapshots import Parcel, grow_signed, network_genesis, take_snapshot

PART, PARTS = 500, 3
SLICE = 100
"""So many accounts are swept between two looks whether to stop."""

CROWD = [Address(b"\x77" * 16 + number.to_bytes(4, "big")) for number in range(PART * PARTS - PART // 2)]
GENESIS = msgspec.structs.replace(network_genesis(), alloc=network_genesis().alloc | dict.fromkeys(CROWD, 7))


@pytest.fixture(scope="module", autouse=True)
def _small_parts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store_snapshot, "CHUNK_BYTES", PART * ACCOUNT_SIZE)
        patched.setattr(prune, "SWEEP_KEYS", SLICE)
        yield


@pytest.fixture(scope="module")
def parcel(tmp_path_factory: pytest.TempPathFactory) -> Parcel:
    chain = ChainStore.open(tmp_path_factory.mktemp("given") / "data", GENESIS)
    grow_signed(chain, 1)
    taken = take_snapshot(chain)
    chain.close()
    # The transactions come first.
    assert len(taken.chunks) == 1 + PARTS
    return taken


@pytest.fixture
def joining(tmp_path: Path) -> Iterator[ChainStore]:
    store = ChainStore.open(tmp_path / "data", GENESIS)
    yield store
    store.close()


def around_sweeps(monkeypatch: pytest.MonkeyPatch, before: Pause) -> None:
    """Call `before` each time when a sweep looks whether to stop."""

    def sweep(database: Database, height: int, pause: Pause) -> None:
        def both() -> None:
            before()
            pause()

        keep_only(database, height, both)

    monkeypatch.setattr("cairn.store.chain.keep_only", sweep)


class Turns:
    """How often the event loop came round in the middle of work."""

    def __init__(self) -> None:
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.current_thread()

    def wait_for_one(self) -> None:
        """Work goes on only when the loop has come round: on the loop itself that would be never."""
        assert threading.current_thread() is not self._loop_thread, "the event loop waits for this"
        came_round = threading.Event()
        self._loop.call_soon_threadsafe(came_round.set)
        assert came_round.wait(PATIENCE_S)
        self.count += 1


def around_parts(monkeypatch: pytest.MonkeyPatch, before: Callable[[], None]) -> None:
    """Call `before` each time when a part's accounts are about to be added."""
    add_accounts = Restore._add_accounts

    def add(restore: Restore, index: int, chunk: bytes) -> None:
        before()
        add_accounts(restore, index, chunk)

    monkeypatch.setattr(Restore, "_add_accounts", add)


def test_the_event_loop_turns_while_a_large_snapshot_is_taken_in(
    parcel: Parcel, joining: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    jumps: list[int] = []
    intake = StateSync(joining, lambda: jumps.append(joining.visible))

    async def scenario() -> list[int]:
        turns = Turns()
        around_parts(monkeypatch, turns.wait_for_one)
        around_sweeps(monkeypatch, turns.wait_for_one)
        taken = []
        offer = OfferSnapshotRequest(describe(1, parcel.manifest), parcel.trusted)
        assert await intake.offer(offer) == OfferSnapshotResult.ACCEPT
        for index, chunk in enumerate(parcel.chunks):
            before = turns.count
            answer = await intake.apply(ApplySnapshotChunkRequest(index, chunk, "peer"))
            assert answer.result == ApplySnapshotChunkResult.ACCEPT
            taken.append(turns.count - before)
        return taken

    transactions, *accounts, last = asyncio.run(scenario())
    assert (transactions, accounts) == (0, [1] * (PARTS - 1))
    # The last part is small; what takes time there is the sweep of all that was before.
    assert last > len(CROWD) // SLICE
    assert jumps == [1]
    assert joining.account(CROWD[0]).balance == 7
    assert audit(joining) == 1
    intake.close()


def test_a_stop_does_not_wait_for_the_sweep(parcel: Parcel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joining = ChainStore.open(tmp_path / "data", GENESIS)
    intake = StateSync(joining, lambda: None)
    looks = 0

    async def scenario() -> None:
        loop, in_the_middle = asyncio.get_running_loop(), asyncio.Event()

        def look() -> None:
            nonlocal looks
            looks += 1
            if looks == 2:
                loop.call_soon_threadsafe(in_the_middle.set)
                end = time.monotonic() + PATIENCE_S
                while not intake._stopping and time.monotonic() < end:
                    time.sleep(0.001)

        around_sweeps(monkeypatch, look)
        await intake.offer(OfferSnapshotRequest(describe(1, parcel.manifest), parcel.trusted))
        for index, chunk in enumerate(parcel.chunks[:-1]):
            await intake.apply(ApplySnapshotChunkRequest(index, chunk, "peer"))
        last = len(parcel.chunks) - 1
        applying = asyncio.create_task(intake.apply(ApplySnapshotChunkRequest(last, parcel.chunks[last], "peer")))
        await in_the_middle.wait()
        assert joining.visible == 1
        # CometBFT is gone: nobody waits for the answer.
        applying.cancel()
        await asyncio.gather(applying, return_exceptions=True)

    asyncio.run(scenario())
    intake.close()
    assert looks == 2, "the sweep went on"
    joining.close()
    again = ChainStore.open(tmp_path / "data", GENESIS)
    assert (again.visible, again.base, audit(again)) == (1, 1, 1)
    again.close()
