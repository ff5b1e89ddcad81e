"""Taking in a snapshot of many accounts: the node answers meanwhile, and may stop. test_snapshots.py has the calls."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from cairn.domain.types import Address
from cairn.engine.abci.messages import (
    ApplySnapshotChunkRequest,
    ApplySnapshotChunkResult,
    OfferSnapshotRequest,
    OfferSnapshotResult,
)
from cairn.engine.network.intake import Intake, describe
from cairn.store.chain import ChainStore
from tests.support.snapshots import Parcel, grow_signed, network_genesis, take_snapshot

ACCOUNTS = 40_000
LEAST_TURNS = 5

CROWD = [Address(b"\x77" * 16 + number.to_bytes(4, "big")) for number in range(ACCOUNTS)]
GENESIS = msgspec.structs.replace(network_genesis(), alloc=network_genesis().alloc | dict.fromkeys(CROWD, 7))


@pytest.fixture(scope="module")
def parcel(tmp_path_factory: pytest.TempPathFactory) -> Parcel:
    chain = ChainStore.open(tmp_path_factory.mktemp("given") / "data", GENESIS)
    grow_signed(chain, 1)
    taken = take_snapshot(chain)
    chain.close()
    assert len(taken.chunks) == 4
    return taken


@pytest.fixture
def joining(tmp_path: Path) -> Iterator[ChainStore]:
    store = ChainStore.open(tmp_path / "data", GENESIS)
    yield store
    store.close()


class Turns:
    """How often the event loop came round."""

    def __init__(self) -> None:
        self.count = 0

    async def take(self) -> None:
        while True:
            await asyncio.sleep(0.001)
            self.count += 1


@asynccontextmanager
async def turning() -> AsyncIterator[Turns]:
    turns = Turns()
    task = asyncio.create_task(turns.take())
    yield turns
    task.cancel()


def test_the_event_loop_turns_while_a_large_snapshot_is_taken_in(parcel: Parcel, joining: ChainStore) -> None:
    jumps: list[int] = []
    intake = Intake(joining, lambda: jumps.append(joining.visible))

    async def scenario() -> list[int]:
        taken = []
        async with turning() as turns:
            offer = OfferSnapshotRequest(describe(1, parcel.manifest), parcel.trusted)
            assert await intake.offer(offer) == OfferSnapshotResult.ACCEPT
            for index, chunk in enumerate(parcel.chunks):
                before = turns.count
                answer = await intake.apply(ApplySnapshotChunkRequest(index, chunk, "peer"))
                assert answer.result == ApplySnapshotChunkResult.ACCEPT
                taken.append(turns.count - before)
        return taken

    transactions, *accounts = asyncio.run(scenario())
    # The last part is small; what takes time there is the sweep of all that was before.
    assert min(accounts) >= LEAST_TURNS, (transactions, accounts)
    assert jumps == [1]
    assert joining.account(CROWD[0]).balance == 7
    assert joining.audit() == 1
    intake.close()


def test_a_stop_does_not_wait_for_the_sweep(parcel: Parcel, tmp_path: Path) -> None:
    joining = ChainStore.open(tmp_path / "data", GENESIS)
    intake = Intake(joining, lambda: None)

    async def scenario() -> None:
        await intake.offer(OfferSnapshotRequest(describe(1, parcel.manifest), parcel.trusted))
        for index, chunk in enumerate(parcel.chunks[:-1]):
            await intake.apply(ApplySnapshotChunkRequest(index, chunk, "peer"))
        last = len(parcel.chunks) - 1
        applying = asyncio.create_task(intake.apply(ApplySnapshotChunkRequest(last, parcel.chunks[last], "peer")))
        while joining.visible == 0:
            await asyncio.sleep(0)
        # CometBFT is gone: nobody waits for the answer.
        applying.cancel()
        await asyncio.gather(applying, return_exceptions=True)

    asyncio.run(scenario())
    intake.close()
    joining.close()
    again = ChainStore.open(tmp_path / "data", GENESIS)
    assert (again.visible, again.base, again.audit()) == (1, 1, 1)
    again.close()
