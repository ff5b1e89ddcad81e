"""What the API needs from the core, and the values that pass between them.

`Core` answers these calls in process; `LinkClient` answers them over the unix socket.
"""

from asyncio import Future
from typing import Literal, Protocol

import msgspec

from cairn.domain.governance import Admins, Governance, ValidatorUpdate
from cairn.domain.types import Address, Draft, DropReason, Tx, TxHash

Phase = Literal["starting", "ready", "unavailable", "draining"]


class Admission(msgspec.Struct, frozen=True, gc=False):
    """The answer to a submission; it is given only once the transaction is on disk."""

    tx_hash: TxHash
    confirmed: bool = False
    """True when the very same transaction was confirmed before."""


class PendingTx(msgspec.Struct, frozen=True, tag="pending"):
    tx: Tx
    received_at: int
    """Unix time in whole seconds."""


class DroppedTx(msgspec.Struct, frozen=True, tag="dropped"):
    reason: DropReason


class ConfirmedTx(msgspec.Struct, frozen=True, tag="confirmed"):
    height: int


Standing = PendingTx | DroppedTx | ConfirmedTx


class PendingPage(msgspec.Struct, frozen=True):
    items: list[PendingTx]
    """In the order in which they will be mined; those that wait for a nonce come last."""
    total: int
    """How many match in all, on every page together."""
    next: str | None
    """The cursor that continues after the last item; it holds even when that item has been mined since."""


class ChainInfo(msgspec.Struct, frozen=True):
    """What a worker must know of the chain; fixed while the core runs."""

    chain_id: int
    gas_price: int
    block_gas_limit: int
    engine: str
    store_path: str
    signs_for: list[Address]
    """The accounts whose keys the node holds: the ten of a dev chain, none elsewhere."""


class Status(msgspec.Struct, frozen=True):
    phase: Phase
    reason: str
    """Why the phase is not `ready`; empty when it is."""
    head: int
    """The height of the newest committed block."""
    pending: int
    """Transactions that the next blocks can take."""
    queued: int
    """Transactions that wait for a missing nonce."""
    limit: int


class Checks(msgspec.Struct, frozen=True):
    """The outcome of a real write and read of each part: `ok`, or what went wrong."""

    store: str
    mempool: str


class ValidatorSet(msgspec.Struct, frozen=True):
    """Who makes the blocks of a network, and who may change that."""

    chain_id: int
    height: int
    """The block as of which this is so."""
    governance: Governance
    admins: Admins | None


class CoreGateway(Protocol):
    """Every call may raise `Unavailable`."""

    def submit(self, tx: Tx) -> "Future[Admission]":
        """Admit a checked transaction and put it on disk. The future may raise `TxRejected`."""

    async def submit_draft(self, draft: Draft) -> Admission:
        """Sign with a key that the node holds, and submit. Raises `InvalidField` if it holds none."""

    async def next_nonce(self, sender: Address) -> int:
        """The nonce after the sender's confirmed and pending transactions."""

    async def find_tx(self, tx_hash: TxHash) -> Standing | None:
        """Where a transaction stands, for one that the caller's store does not show as confirmed."""

    async def list_pending(self, limit: int, after: str | None, sender: Address | None) -> PendingPage:
        """A page of the mempool. Raises `InvalidQuery` when `after` is not a cursor of ours."""

    async def status(self) -> Status: ...

    async def check(self) -> Checks:
        """Try the store and the mempool's journal for real."""

    async def validators(self) -> ValidatorSet:
        """Raises `NotFound` on a chain that has none."""

    async def submit_update(self, update: ValidatorUpdate) -> None:
        """Check an update and hand it to the engine. Raises `NotFound`, `UpdateRefused`, `InvalidSignature`."""


class CoreListener(Protocol):
    """What the core tells a worker without being asked, in order with its answers."""

    def on_info(self, info: ChainInfo) -> None:
        """The store is open: a reader may open it too."""

    def on_phase(self, phase: Phase, reason: str) -> None: ...

    def on_commit(self, height: int) -> None:
        """The block at `height`, and all before it, are on disk."""

    def on_dropped(self, tx_hash: TxHash, reason: DropReason) -> None: ...
