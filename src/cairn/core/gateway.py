"""What the API needs from the core, and the values that pass between them.

A call is declared here and answered by a part of the core; the code in between is the same for all calls. `Core`
answers in process, `LinkClient` over the unix socket.
"""

# A declared call has no body: `call` gives it one.
# mypy: disable-error-code="empty-body"

from abc import ABC, abstractmethod
from asyncio import Future
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol

import msgspec

from cairn.core.calls import Calls, call
from cairn.domain.answers import Checks
from cairn.domain.certificates import Certificate
from cairn.domain.errors import NodeError, NotADevChain
from cairn.domain.genesis import COIN
from cairn.domain.governance import ChainIdentity, Governance, Update
from cairn.domain.types import Address, Draft, DropReason, Phase, SealedBlock, Tx, TxHash
from cairn.store.hot_copy import CopiedStore

STEPS_AT_ONCE = 16
"""Most steps in one answer. With a hundred validators each has about 30 kB."""
MOST_BLOCKS_AT_ONCE = 100
"""Most blocks that one call makes. Each is synced, and a worker gives up after ten seconds without an answer."""
FAUCET_DEFAULT = 100 * COIN
FAUCET_MOST = 1_000 * COIN


class Admission(msgspec.Struct, frozen=True, gc=False):
    """The answer to a submission; it is given only once the transaction is on disk."""

    tx_hash: TxHash
    confirmed: bool = False
    """True if the same transaction was already confirmed."""
    known: bool = False
    """True if the same transaction was already in the mempool."""
    waits_for_nonce: int | None = None
    """If it is queued: the first nonce of its sender that is missing."""


Reply = Callable[[Admission | NodeError], None]
"""Called with the answer to a submission, or with its refusal."""


class KeyedRequest(msgspec.Struct, frozen=True, gc=False):
    """A request that has an idempotency key: whoever repeats it gets the answer to the first."""

    key: bytes
    """Digest of the key."""
    request: bytes
    """Digest of all that the request asks for."""
    item: bytes | None = None
    """Of one transaction in a list: digest of the key and its place."""


class PendingTx(msgspec.Struct, frozen=True, omit_defaults=True, tag="pending"):
    tx: Tx
    received_at: int
    """Unix time in whole seconds."""
    not_held: DropReason | None = None
    """Why it is no longer in the mempool of this node; None if it is. Another node may still confirm it."""
    replaced_by: TxHash | None = None
    """If it is not: what the mempool has instead, of the same sender and nonce."""
    waits_for_nonce: int | None = None
    """If it is queued: the first nonce of its sender that is missing."""
    changes: int = -1
    """Those of its sender on the board, unless in a list. While they and the chain are the same, so is all this."""


class DroppedTx(msgspec.Struct, frozen=True, tag="dropped"):
    reason: DropReason


class ConfirmedTx(msgspec.Struct, frozen=True, tag="confirmed"):
    height: int


TxStatus = PendingTx | DroppedTx | ConfirmedTx


class PendingPage(msgspec.Struct, frozen=True):
    items: list[PendingTx]
    """In mining order; queued ones come last."""
    total: int
    """How many there are on all pages."""
    next: str | None
    """The cursor of the next page. It stays valid when the last item has been mined since."""
    pending: int = 0
    """How many in the whole mempool can be mined now."""


FilterKind = Literal["blocks", "transactions", "logs"]


class FilterChanges(msgspec.Struct, frozen=True):
    """What is new since the last poll of a filter."""

    kind: FilterKind
    first_height: int = 0
    last_height: int = -1
    """The newest new block; below `first_height` if there is none."""
    tx_hashes: list[TxHash] = []
    """The new transactions in the mempool."""


class ChainInfo(msgspec.Struct, frozen=True):
    """What a worker must know of the chain; fixed while the core runs."""

    chain_id: int
    gas_price: int
    block_gas_limit: int
    max_data_bytes: int
    engine: str
    store_path: str
    """Empty during a revert: nothing may be read until the next `ChainInfo`."""
    signs_for: list[Address]
    """The accounts whose keys the node holds: the ten of a dev chain, none elsewhere."""
    reverts: int = 0
    """How often a dev chain was reverted. What was read before the last revert is void."""
    reverted_to: int = 0
    """The latest height right after the last revert."""
    generation: int = 0
    """The board's, while it shows this chain."""
    mempool_limit: int = 0
    """How many transactions the mempool holds at most."""
    first_supply: int = 0
    """The sum of all balances in genesis."""
    block_time_s: float = 0.0
    """What `GET /chain` says of it."""
    can_set_balances: bool = False
    """Whether a block may set balances: on a dev chain, even where the node that serves it holds no keys."""


class Status(msgspec.Struct, frozen=True):
    phase: Phase
    reason: str
    """Why the phase is not `ready`; empty when it is."""
    head: int
    """The height of the newest committed block."""
    pending: int
    """Transactions that can be mined now."""
    queued: int
    """Transactions that wait for a missing nonce."""
    limit: int
    now: int
    """Unix time by the chain's clock, which on a dev chain may be ahead of the machine's."""
    peers: int = 0
    """Nodes of the network that this one is connected to."""


class MiningMode(msgspec.Struct, frozen=True):
    """When a dev chain makes blocks, in seconds between two of them; None means never."""

    automine: float | None
    """For transactions; 0 means at once."""
    interval: float | None
    """In any case, empty or not."""


class ValidatorSet(msgspec.Struct, frozen=True):
    """The validators of a network, and who may change them."""

    chain: ChainIdentity
    height: int
    """The block after which these are the validators."""
    governance: Governance
    voted_blocks: int
    """How many of the latest blocks this node has the votes of."""
    missed: list[int]
    """In how many of those each validator has no vote, in the order of `governance.validators`."""


class StateProof(msgspec.Struct, frozen=True):
    """An account after the newest signed block; or the account whose leaf shows that there is none."""

    certificate: Certificate
    """Of that block, under whose state root the leaf is."""
    leaf: bytes
    number: int
    size: int
    path: list[bytes]
    """The siblings from the leaf up to the root, lowest first."""


class SubmissionCalls(Calls):
    @call("ready")
    async def submit_draft(self, draft: Draft, keyed: KeyedRequest | None = None) -> Admission:
        """Sign with a key that the node holds, and submit. Raises `InvalidField` if it holds none.

        With `keyed`, only once: a repetition gets the same answer. Raises `IdempotencyKeyReused`.
        """

    @call("ready", is_question=True)
    async def sign_draft(self, draft: Draft) -> Tx:
        """Sign with a key that the node holds, and do not submit. Raises `InvalidField` if it holds none."""

    @call("ready", is_question=True)
    async def make_signature(self, account: Address, digest: bytes) -> bytes:
        """Sign a digest for an account. Raises `InvalidField` if the node does not hold its key."""


class MempoolCalls(Calls):
    @call("memory", is_question=True)
    async def next_nonce(self, sender: Address) -> int:
        """The nonce after the sender's confirmed and pending transactions."""

    @call("memory", is_question=True)
    async def find_tx(self, tx_hash: TxHash) -> TxStatus | None:
        """The status of a transaction that the caller's store does not show as confirmed."""

    @call("memory", is_question=True)
    async def list_pending(self, limit: int, after: str | None, sender: Address | None) -> PendingPage:
        """A page of the mempool. Raises `InvalidQuery` when `after` is not a cursor of ours."""


class FilterCalls(Calls):
    @call("open")
    async def create_filter(self, kind: FilterKind, client: str) -> str | None:
        """Create a filter, which remembers what is new until the client polls.

        Returns the filter's name; None when there are too many, or too many of this client.
        """

    @call("open", is_question=True)
    async def find_changes(self, filter_name: str, shown: int) -> FilterChanges | None:
        """What is new since the last poll; None if there is no such filter.

        Blocks above `shown`, which the caller cannot read yet, are left for the next time.
        """

    @call("open")
    async def remove_filter(self, filter_name: str) -> bool:
        """False when there is no such filter."""


class ChainCalls(Calls):
    @call("memory", is_question=True)
    async def status(self) -> Status: ...

    @call("open")
    async def check(self) -> Checks:
        """Write to and read from the store and the journal."""

    @call("open", is_question=True)
    async def validators(self) -> ValidatorSet:
        """The validators and the administrators. Raises `NotFound` on a chain that has none."""

    @call("open", is_question=True)
    async def certificate(self, height: int | None, known_steps: int | None = None) -> Certificate:
        """Who signed the block at `height`; or, if no signature names it, the newest block that one names.

        None asks for the newest one. Raises `NotSignedYet` when that is older, and `EngineUnavailable`.
        With `known_steps`, it has only the steps after so many, and at most `STEPS_AT_ONCE`: all certificates begin
        with the same steps, so nobody needs to be sent them twice.
        """

    @call("open", is_question=True)
    async def state_proof(self, address: Address, known_steps: int | None = None) -> StateProof:
        """Prove what an account holds. Raises as `certificate(None)` does; `known_steps` as there."""

    @call("ready")
    async def copy_store(self) -> CopiedStore:
        """Give the files of the chain and the journal, as of now, further names in `COPY_DIRECTORY`.

        For a backup, which has made that directory, and copies them from there.
        """

    @call("ready")
    async def submit_update(self, update: Update) -> None:
        """Check an update and pass it to the engine. It is not stored: look whether it was applied.

        Raises `NotFound` on a chain without validators, and `UpdateRefused` or `InvalidSignature` as a block would.
        """


class DevCalls(Calls):
    """What the developer of a dev chain may do. Every call raises `NotADevChain` on any other chain."""

    @call("ready")
    async def mine(self, blocks: int = 1, interval_s: int = 0, timestamp: int | None = None) -> int:
        """Make blocks now, `interval_s` of the chain's time apart; the first one at `timestamp`.

        At most `MOST_BLOCKS_AT_ONCE`. Returns the new head's height. Raises `InvalidField`.
        """

    @call("ready")
    async def snapshot(self) -> int:
        """Keep the chain, its clock and its mempool as they are now. Returns the snapshot's number."""

    @call("ready")
    async def revert(self, snapshot: int) -> bool:
        """Revert to a snapshot, and remove it and all later ones. False if there is no such snapshot."""

    @call("ready")
    async def set_balance(self, address: Address, balance: int) -> int:
        """Set a balance by a block of its own. Returns that block's height. Raises `InvalidField`."""

    @call("ready")
    async def increase_time(self, seconds: int) -> int:
        """Move the chain's clock ahead. Returns how far ahead it is in all. Raises `InvalidField`."""

    @call("ready")
    async def set_next_timestamp(self, timestamp: int) -> None:
        """Set the time of the next block; the clock continues from it. Raises `InvalidField`."""

    @call("ready")
    async def set_automine(self, on: bool, alone: bool) -> None:
        """Whether a new transaction makes a block at once. With `alone`, switching it on ends the interval."""

    @call("ready")
    async def set_mining_interval(self, seconds: float, alone: bool) -> None:
        """Make a block, empty or not, at this interval; 0 means never. With `alone`, it also ends automine."""

    @call("ready", is_question=True)
    async def mining_mode(self) -> MiningMode:
        """When blocks are made now."""

    @call("ready")
    async def set_mining_mode(self, mode: MiningMode) -> None:
        """Make blocks again as when `mining_mode` told this."""

    @call("ready", is_question=True)
    async def note_refusal(self, code: str, reason: str) -> None:
        """Tell the observer of the chain that a worker refused a submission."""

    @call("ready")
    async def faucet(self, address: Address, amount: int | None, keyed: KeyedRequest | None = None) -> Admission:
        """Submit a transfer of `amount` wei, or 100 coins, from an account of the node. Raises `InvalidField`.

        `keyed` as for `submit_draft`.
        """


def not_dev_chain() -> NotADevChain:
    return NotADevChain("this is not a dev chain: here blocks, time and money follow the chain's rules alone")


class CoreCalls(SubmissionCalls, MempoolCalls, FilterCalls, ChainCalls, DevCalls):
    """Every call may raise `Unavailable`."""


class CoreGateway(CoreCalls, ABC):
    """All calls, and the methods that are too frequent or too simple to be calls."""

    @abstractmethod
    def submit(self, tx: Tx) -> "Future[Admission]":
        """Admit a checked transaction and put it on disk. Raises `Unavailable`; the future may raise `Rejected`."""

    @abstractmethod
    def watch_arrivals(self, on: bool) -> None:
        """Start or stop announcing new pending transactions to this caller, even by the next core."""


class MempoolListener(Protocol):
    """Listens to the core's mempool."""

    def on_dropped(self, tx_hash: TxHash, reason: DropReason) -> None: ...

    def on_arrived(self, txs: Sequence[Tx]) -> None:
        """New pending transactions; called only while they are watched."""


class CoreListener(MempoolListener, Protocol):
    """Listens to the core's notices, which arrive in order with its answers."""

    def on_info(self, info: ChainInfo) -> None:
        """The store is open, so a reader may open it, too."""

    def on_phase(self, phase: Phase, reason: str) -> None: ...

    def on_commit(self, height: int, block: SealedBlock | None = None) -> None:
        """The block at `height`, and all before it, are on disk. `block` is there if it is new and small."""


class ChainObserver(Protocol):
    """Told in the core's process what happens on the chain. Each call must return at once: the core waits for it."""

    def saw_block(self, block: SealedBlock) -> None:
        """The block is on disk."""

    def saw_drop(self, tx_hash: TxHash, reason: DropReason) -> None:
        """The transaction has left the mempool, and no block holds it."""

    def saw_queued(self, tx: Tx, missing_nonce: int) -> None:
        """The transaction was accepted, and no block can include it before the missing nonce is sent."""

    def saw_refusal(self, code: str, reason: str, tx: Tx | None) -> None:
        """A submission was refused. Without `tx`, it did not hold a valid transaction."""

    def saw_revert(self, height: int) -> None:
        """A dev chain is back at this block."""


Observing = AbstractContextManager[ChainObserver | None]
"""Entered in the core's process, once that runs."""
UNOBSERVED: Observing = nullcontext()
