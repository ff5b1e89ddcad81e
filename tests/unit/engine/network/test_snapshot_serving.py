"""The four snapshot calls of ABCI, and what goes on beside the commits."""

import asyncio
import hashlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from cairn.domain.errors import Corrupt
from cairn.engine.abci.requests import (
    ApplySnapshotChunkRequest,
    ApplySnapshotChunkResponse,
    ApplySnapshotChunkResult,
    LoadSnapshotChunkRequest,
    OfferSnapshotRequest,
    OfferSnapshotResult,
    Snapshot,
)
from cairn.engine.network.state_sync import Snapshots, describe
from cairn.engine.network.steps import NONE_MISSING
from cairn.store import snapshot as store_snapshot
from cairn.store.chain import ChainStore
from cairn.store.directory import snapshots_path
from cairn.store.snapshot import FORMAT, SnapshotDirectory
from tests.support.audit import audit
from tests.support.blocks import head_of
from tests.support.disk import flip_byte
from tests.support.pace import PATIENCE_S
from tests.support.snapshots import Parcel, add_block, grow_signed, open_chain, take_snapshot

Result = ApplySnapshotChunkResult
_T = TypeVar("_T")


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChainStore]:
    monkeypatch.setattr(store_snapshot, "CHUNK_BYTES", 400)
    store = open_chain(tmp_path / "data")
    yield store
    store.close()


@pytest.fixture
def joining(tmp_path: Path) -> Iterator[ChainStore]:
    store = open_chain(tmp_path / "joining")
    yield store
    store.close()


class Taking:
    """A node that commits and takes snapshots."""

    def __init__(
        self,
        chain: ChainStore,
        interval: int = 0,
        retain_blocks: int = 0,
        oldest_missing: Callable[[], int] = lambda: NONE_MISSING,
    ) -> None:
        self.chain = chain
        self.path = snapshots_path(chain.directory)
        self.snapshots = Snapshots(chain, self.path, interval, retain_blocks, oldest_missing=oldest_missing)

    def commit(self, blocks: int = 1, empty: bool = False) -> int:
        retain = 0
        for _ in range(blocks):
            if empty:
                add_block(self.chain)
            else:
                grow_signed(self.chain, 1)
            retain = self.snapshots.after_commit()
        return retain

    def offered(self) -> list[int]:
        return [snapshot.height for snapshot in self.snapshots.list_snapshots()]

    def heights(self) -> list[int]:
        return SnapshotDirectory(self.path).heights()

    def wait_for(self, heights: list[int]) -> None:
        end = time.monotonic() + PATIENCE_S
        while self.heights() != heights:
            assert time.monotonic() < end, self.heights()
            time.sleep(0.001)

    def wait_for_draft(self, height: int) -> None:
        end = time.monotonic() + PATIENCE_S
        while not (self.path / f"{height}.new").exists():
            assert time.monotonic() < end, f"no snapshot of {height} is begun"
            time.sleep(0.001)

    def wait_for_base(self, base: int) -> None:
        end = time.monotonic() + PATIENCE_S
        while self.chain.base != base:
            assert time.monotonic() < end, self.chain.base
            time.sleep(0.001)


@pytest.fixture
def taking(chain: ChainStore) -> Iterator[Taking]:
    node = Taking(chain, interval=4)
    yield node
    node.snapshots.close()


def settled(answer: Awaitable[_T]) -> _T:
    async def wait() -> _T:
        return await answer

    return asyncio.run(wait())


def offer(snapshots: Snapshots, snapshot: Snapshot, parcel: Parcel) -> OfferSnapshotResult:
    return settled(snapshots.offer_snapshot(OfferSnapshotRequest(snapshot, parcel.trusted)))


def send(snapshots: Snapshots, index: int, chunk: bytes, sender: str = "peer") -> ApplySnapshotChunkResponse:
    return settled(snapshots.apply_snapshot_chunk(ApplySnapshotChunkRequest(index, chunk, sender)))


def test_every_interval_the_newest_block_that_changed_the_state(taking: Taking) -> None:
    taking.commit(3)
    assert taking.heights() == []
    taking.commit()
    taking.wait_for([4])
    taking.commit(2)
    taking.commit(2, empty=True)
    taking.wait_for([4, 6])
    taking.commit(4, empty=True)
    taking.commit(3)
    assert taking.heights() == [4, 6]
    taking.commit()
    taking.wait_for([6, 16])


def test_genesis_is_no_snapshot(taking: Taking) -> None:
    taking.commit(8, empty=True)
    taking.snapshots.close()
    assert taking.heights() == []


def test_without_an_interval_there_are_none(chain: ChainStore) -> None:
    node = Taking(chain)
    assert node.commit(5) == 0
    node.snapshots.close()
    assert node.heights() == []
    assert chain.base == 0


def test_a_node_joins_from_what_another_gives(taking: Taking, joining: ChainStore) -> None:
    taking.commit(4)
    taking.wait_for([4])
    head, state_block_hash = head_of(taking.chain), taking.chain.state_block_hash
    taking.commit(2, empty=True)
    [snapshot] = taking.snapshots.list_snapshots()
    jumps: list[int] = []
    taker = Snapshots(joining, snapshots_path(joining.directory), 0, 0, lambda: jumps.append(joining.visible))
    request = OfferSnapshotRequest(snapshot, state_block_hash)
    assert settled(taker.offer_snapshot(request)) == OfferSnapshotResult.ACCEPT
    for index in range(snapshot.chunks):
        assert jumps == []
        chunk = taking.snapshots.load_snapshot_chunk(LoadSnapshotChunkRequest(4, snapshot.format, index))
        assert send(taker, index, chunk) == ApplySnapshotChunkResponse(Result.ACCEPT)
    assert jumps == [4]
    assert head_of(joining) == head
    assert joining.state_block_hash == state_block_hash


def test_a_snapshot_is_offered_once_the_blocks_are_there_that_verify_it(taking: Taking) -> None:
    taking.commit(4)
    taking.wait_for([4])
    assert taking.offered() == []
    taking.commit()
    assert taking.offered() == []
    taking.commit()
    assert taking.offered() == [4]
    taking.commit(2)
    taking.wait_for([4, 8])
    assert taking.offered() == [4]


def test_an_unknown_snapshot_or_chunk_is_answered_empty(taking: Taking) -> None:
    taking.commit(4)
    taking.wait_for([4])
    load = taking.snapshots.load_snapshot_chunk
    assert load(LoadSnapshotChunkRequest(4, FORMAT, 0))
    assert load(LoadSnapshotChunkRequest(4, FORMAT - 1, 0)) == b""
    assert load(LoadSnapshotChunkRequest(4, FORMAT, 99)) == b""
    assert load(LoadSnapshotChunkRequest(5, FORMAT, 0)) == b""
    taking.commit(2)
    assert taking.offered() == [4]
    flip_byte(taking.path / "4" / "manifest", 0)
    assert taking.offered() == []


def test_a_bad_part_is_fetched_again_from_somebody_else(chain: ChainStore, joining: ChainStore) -> None:
    grow_signed(chain, 3)
    parcel = take_snapshot(chain)
    taker = Snapshots(joining, snapshots_path(joining.directory), 0)
    assert offer(taker, describe(3, parcel.manifest), parcel) == OfferSnapshotResult.ACCEPT
    for index, chunk in enumerate(parcel.chunks):
        assert send(taker, index, chunk[:-1] + b"?", "liar") == ApplySnapshotChunkResponse(
            Result.RETRY, [index], ["liar"]
        )
        assert send(taker, index, b"", "") == ApplySnapshotChunkResponse(Result.RETRY, [index], [])
        assert send(taker, index, chunk).result == Result.ACCEPT
    assert head_of(joining) == head_of(chain)


def test_a_false_snapshot_is_rejected_and_the_next_one_taken(chain: ChainStore, joining: ChainStore) -> None:
    grow_signed(chain, 3)
    parcel = take_snapshot(chain)
    *others, last = parcel.chunks
    false_chunks = [*others, last[:51] + bytes((last[51] ^ 1,)) + last[52:]]
    digests = tuple(hashlib.sha256(chunk).digest() for chunk in false_chunks)
    false = msgspec.structs.replace(parcel.manifest, chunks=digests)
    taker = Snapshots(joining, snapshots_path(joining.directory), 0)
    assert offer(taker, describe(3, false), parcel) == OfferSnapshotResult.ACCEPT
    answers = [send(taker, index, chunk) for index, chunk in enumerate(false_chunks)]
    assert {answer.result for answer in answers[:-1]} == {Result.ACCEPT}
    assert answers[-1] == ApplySnapshotChunkResponse(Result.REJECT_SNAPSHOT, reject_senders=["peer"])
    assert send(taker, 0, parcel.chunks[0]).result == Result.RETRY_SNAPSHOT
    # One that is left in the middle makes way for another.
    assert offer(taker, describe(3, parcel.manifest), parcel) == OfferSnapshotResult.ACCEPT
    send(taker, 0, parcel.chunks[0])
    assert offer(taker, describe(3, parcel.manifest), parcel) == OfferSnapshotResult.ACCEPT
    for index, chunk in enumerate(parcel.chunks):
        assert send(taker, index, chunk).result == Result.ACCEPT
    assert head_of(joining) == head_of(chain)


def test_offers_that_cannot_be_true_are_rejected(chain: ChainStore, joining: ChainStore) -> None:
    grow_signed(chain, 3)
    parcel = take_snapshot(chain)
    true = describe(3, parcel.manifest)
    taker = Snapshots(joining, snapshots_path(joining.directory), 0)
    replace = msgspec.structs.replace
    assert offer(taker, replace(true, format=FORMAT - 1), parcel) == OfferSnapshotResult.REJECT_FORMAT
    for false in (
        replace(true, height=4),
        replace(true, chunks=1),
        replace(true, hash=bytes(32)),
        replace(true, metadata=b""),
        describe(4, parcel.manifest),
        describe(3, replace(parcel.manifest, account_count=1)),
        describe(3, replace(parcel.manifest, account_count=10**9)),
    ):
        assert offer(taker, false, parcel) == OfferSnapshotResult.REJECT
    other = OfferSnapshotRequest(true, bytes(32))
    assert settled(taker.offer_snapshot(other)) == OfferSnapshotResult.REJECT
    assert joining.visible == 0


def test_a_directory_that_holds_blocks_takes_none(chain: ChainStore, joining: ChainStore) -> None:
    grow_signed(chain, 3)
    parcel = take_snapshot(chain)
    add_block(joining)
    taker = Snapshots(joining, snapshots_path(joining.directory), 0)
    assert offer(taker, describe(3, parcel.manifest), parcel) == OfferSnapshotResult.ABORT


def test_the_same_snapshot_again_costs_nothing(chain: ChainStore, joining: ChainStore) -> None:
    """CometBFT died before it noted that the snapshot was whole, and starts over."""
    grow_signed(chain, 3)
    parcel = take_snapshot(chain)
    for _ in range(2):
        taker = Snapshots(joining, snapshots_path(joining.directory), 0)
        assert offer(taker, describe(3, parcel.manifest), parcel) == OfferSnapshotResult.ACCEPT
        for index, chunk in enumerate(parcel.chunks):
            assert send(taker, index, chunk).result == Result.ACCEPT
        assert head_of(joining) == head_of(chain)


def test_old_blocks_go_while_new_ones_come(chain: ChainStore) -> None:
    node = Taking(chain, retain_blocks=3)
    assert node.commit(2) == 0
    assert node.commit() == 1
    assert node.commit(4) == 5
    node.wait_for_base(5)
    node.snapshots.close()
    assert audit(chain) == 5


def test_the_block_that_the_newest_signed_header_names_stays(chain: ChainStore) -> None:
    node = Taking(chain, retain_blocks=1)
    # A header names the newest change of the state before it.
    assert node.commit() == 0
    assert node.commit() == 1
    assert node.commit() == 2
    assert node.commit(3, empty=True) == 3
    assert node.commit() == 3
    assert node.commit() == 7
    node.snapshots.close()


def test_a_block_whose_step_is_missing_stays_and_no_snapshot_is_taken_without_it(chain: ChainStore) -> None:
    missing = 1
    node = Taking(chain, interval=4, retain_blocks=1, oldest_missing=lambda: missing)
    assert node.commit(3) == 0
    # CometBFT's header of block 2 names the validators after block 1. Both are needed: an export of block 2 and later
    # ones could not say which block the missing step is of.
    assert node.commit() == 1
    # The thread has looked for a snapshot to take before it removes blocks.
    node.wait_for_base(1)
    assert node.heights() == []
    missing = 4
    node.snapshots.look()
    node.wait_for([4])
    assert node.commit() == 4
    node.snapshots.close()


def test_without_snapshots_too_a_block_whose_step_is_missing_stays(chain: ChainStore) -> None:
    missing = 3
    node = Taking(chain, retain_blocks=1, oldest_missing=lambda: missing)
    assert node.commit(9) == 3
    missing = NONE_MISSING
    assert node.commit() == 9
    node.snapshots.close()


def test_blocks_that_a_newcomer_needs_stay(chain: ChainStore) -> None:
    node = Taking(chain, interval=4, retain_blocks=2)
    assert node.commit(3) == 0
    # Due, and not yet taken: it is what the next block is kept for.
    assert node.commit() == 3
    node.wait_for([4])
    assert node.commit(3) == 4
    node.commit()
    node.wait_for([4, 8])
    assert node.commit(3) == 4
    node.commit()
    node.wait_for([8, 12])
    assert node.commit() == 8
    node.wait_for_base(8)
    node.snapshots.close()
    assert audit(chain) == 8


def hold_in_the_making(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Each snapshot stops in its middle until the event is set."""
    rest, begun, goes_on = Snapshots._pause, threading.Event(), threading.Event()

    def pause(snapshots: Snapshots) -> None:
        # The first rest comes before the snapshot, the second in the middle of it.
        if begun.is_set():
            assert goes_on.wait(PATIENCE_S)
        begun.set()
        rest(snapshots)

    monkeypatch.setattr(Snapshots, "_pause", pause)
    return goes_on


def test_blocks_stay_for_a_snapshot_in_the_making_when_the_next_comes_due(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = hold_in_the_making(monkeypatch)
    node = Taking(chain, interval=4, retain_blocks=1)
    node.commit(4)
    node.wait_for_draft(4)
    assert node.commit(5) == 4
    goes_on.set()
    node.wait_for([4, 8])
    assert node.commit() == 4
    node.snapshots.close()
    assert audit(chain) <= 4


def test_blocks_stay_for_a_snapshot_that_is_finished_while_the_oldest_is_looked_for(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the looks at what is planned and at what there is, the first one moves from one to the other."""
    goes_on = hold_in_the_making(monkeypatch)
    node = Taking(chain, interval=4, retain_blocks=1)
    node.commit(4)
    node.wait_for_draft(4)
    # The next one is due, and the first one is not finished.
    node.commit(4)
    snapshots = node.snapshots
    shelf, planned = snapshots._shelf.heights, snapshots._planned
    looks = 0

    def look(heights: Callable[[], list[int]]) -> list[int]:
        nonlocal looks
        found = heights()
        looks += 1
        if looks == 1:
            goes_on.set()
            node.wait_for([4, 8])
        return found

    monkeypatch.setattr(snapshots._shelf, "heights", lambda: look(shelf))
    monkeypatch.setattr(snapshots, "_planned", lambda: look(planned))
    assert snapshots._oldest_needed() == 4
    monkeypatch.undo()
    snapshots.close()


def test_a_fatal_failure_of_the_thread_is_raised_by_the_next_commit(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> None:
        raise Corrupt("a block is damaged")

    monkeypatch.setattr("cairn.store.chain.remove_blocks", damaged)
    node = Taking(chain, retain_blocks=1)
    node.commit(2)
    # Ends with the thread.
    node.snapshots._thread.join(PATIENCE_S)  # type: ignore[union-attr]
    with pytest.raises(Corrupt, match="a block is damaged"):
        node.commit()
    node.snapshots.close()


def test_a_disk_without_room_for_snapshots_does_not_stop_the_chain(taking: Taking) -> None:
    taking.path.write_text("in the way")
    with pytest.raises(NotADirectoryError):
        list(taking.path.iterdir())
    taking.commit(9)
    taking.snapshots.close()
    assert taking.offered() == []
    assert taking.chain.visible == 9


@pytest.mark.parametrize("rests", [1, 2, 7])
def test_a_stop_does_not_wait_for_a_long_snapshot(
    chain: ChainStore, monkeypatch: pytest.MonkeyPatch, rests: int
) -> None:
    """It comes while the thread rests before the snapshot, or between two of its many slices; nothing follows."""
    monkeypatch.setattr(store_snapshot, "SLICE", 1)
    rest, rested = Snapshots._pause, 0
    is_in_the_middle = threading.Event()

    def pause(snapshots: Snapshots) -> None:
        nonlocal rested
        rested += 1
        if rested == rests:
            is_in_the_middle.set()
            end = time.monotonic() + PATIENCE_S
            while not snapshots._stopping and time.monotonic() < end:
                time.sleep(0.001)
        rest(snapshots)

    monkeypatch.setattr(Snapshots, "_pause", pause)
    node = Taking(chain, interval=10)
    node.commit(10)
    assert is_in_the_middle.wait(PATIENCE_S)
    node.snapshots.close()
    assert rested == rests
    assert node.heights() == []
