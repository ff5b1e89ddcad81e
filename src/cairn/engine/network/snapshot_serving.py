"""State sync: takes snapshots of the chain and offers them to new nodes. `state_sync` is the other side.

What takes long (writing a snapshot, removing old blocks) happens in a thread that rests more than it works, so commits
do not wait for it. It reads only what cannot change any more, and removes only what nobody reads any more.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import structlog

from cairn.domain.errors import StoreUnavailable
from cairn.domain.genesis import genesis_digest
from cairn.domain.governance import encode_governance
from cairn.engine.abci.requests import BLOCKS_AFTER, LoadSnapshotChunkRequest, Snapshot
from cairn.engine.network.state_sync import StateSync, describe
from cairn.engine.upkeep import Upkeep
from cairn.store.chain import ChainStore
from cairn.store.snapshot import FORMAT, SnapshotDirectory

log = structlog.get_logger("cairn.snapshots")


class _Due(msgspec.Struct, frozen=True):
    """A snapshot to take: the state after one block."""

    height: int
    governance: bytes


class Snapshots(Upkeep):
    """Every `interval` blocks, a snapshot of the newest block that changed the state; 0 takes none.

    With `retain_blocks`, older blocks than the newest so many are removed, except those that a node needs that starts
    from a snapshot that is offered here; 0 keeps all. The owner calls `after_commit` after every block, and `close`
    before the chain is closed.
    """

    name = "snapshots"

    def __init__(
        self,
        chain: ChainStore,
        directory: Path,
        interval: int,
        retain_blocks: int = 0,
        on_restored: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_restored` is called when the chain has jumped to the height of a restored snapshot."""
        super().__init__(chain)
        self._shelf = SnapshotDirectory(directory)
        self._interval = interval
        self._retain_blocks = retain_blocks
        self._on_restored = on_restored
        self._intake = StateSync(chain, self._restored)
        self.offer_snapshot = self._intake.offer
        self.apply_snapshot_chunk = self._intake.apply
        self._due: _Due | None = None
        self._taken: _Due | None = None
        """The snapshot that is being taken; another may become due meanwhile."""
        self._base = chain.base

    # Giving.

    def list_snapshots(self) -> Sequence[Snapshot]:
        """The snapshots that can be verified. A new node asks once, and never retries one that it failed to verify."""
        listed = []
        for height in self._shelf.heights():
            verifiable = height + BLOCKS_AFTER <= self._chain.visible
            manifest = self._shelf.find_manifest(height) if verifiable else None
            if manifest is not None:
                listed.append(describe(height, manifest))
        return listed

    def load_snapshot_chunk(self, request: LoadSnapshotChunkRequest) -> bytes:
        """A part; empty if it is not here, which CometBFT reports to the peer."""
        chunk = self._shelf.find_chunk(request.height, request.chunk) if request.format == FORMAT else None
        return chunk or b""

    # Taking in: `offer_snapshot` and `apply_snapshot_chunk` are the intake's.

    def _restored(self) -> None:
        self._base = self._chain.base
        self._on_restored()

    # Taking, and removing what is old.

    def after_commit(self) -> int:
        """Start what is due. Returns the lowest height that CometBFT must keep; 0 keeps all.

        Raises a failure of the thread with which the node must not continue.
        """
        self.check()
        height = self._chain.visible
        if self._interval and height % self._interval == 0:
            self._plan_snapshot()
        if self._retain_blocks:
            self._base = max(self._base, min(height - self._retain_blocks + 1, self._oldest_needed()))
        if self._is_due():
            self._wake()
        return self._base if self._retain_blocks else 0

    def _plan_snapshot(self) -> None:
        chain = self._chain
        height = chain.find_height(chain.state_block_hash)
        # No snapshot of genesis: every node has it.
        if not height or height in self._planned() or height in self._shelf.heights():
            return
        governance = b"" if chain.governance is None else encode_governance(chain.governance)
        with self._work:
            self._due = _Due(height, governance)

    def _oldest_needed(self) -> int:
        """A node that starts from a snapshot fetches all blocks after it."""
        if not self._interval:
            return self._chain.visible
        # In this order: one that is finished in between is then in the list.
        planned = self._planned()
        return min([*planned, *self._shelf.heights()], default=0)

    def _planned(self) -> list[int]:
        with self._work:
            return [due.height for due in (self._taken, self._due) if due is not None]

    def close(self) -> None:
        """Return once the threads are done with the store."""
        self._intake.close()
        super().close()

    def _is_due(self) -> bool:
        return self._due is not None or self._base > self._chain.base

    def _do(self) -> None:
        self._take()
        self._chain.prune(self._base, self._pause)

    def _take(self) -> None:
        with self._work:
            due, self._due = self._due, None
            self._taken = due
        if due is None:
            return
        chain, begun_at = self._chain, time.monotonic()
        try:
            manifest = self._shelf.take(chain, due.height, genesis_digest(chain.genesis), due.governance, self._pause)
            log.info(
                "took a snapshot",
                height=due.height,
                accounts=manifest.account_count,
                seconds=round(time.monotonic() - begun_at, 3),
            )
        except StoreUnavailable as failure:
            # Not fatal: other nodes have snapshots, too, and this node must continue with its blocks.
            log.error("could not take a snapshot", height=due.height, reason=failure.detail)
        finally:
            with self._work:
                self._taken = None
