"""The application that CometBFT drives: each of its calls in terms of the chain's own rules.

Height H of CometBFT is block H of the chain, empty ones too. The app hash is the hash of the newest block that changed
the state, so validators sign public block hashes, and a block without transactions changes nothing.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

import structlog

from cairn import __version__
from cairn.domain.errors import (
    Fatal,
    InvalidBlock,
    MempoolFull,
    NonceTooHigh,
    NonceTooLow,
    Rejected,
    TxRejected,
    UpdateRefused,
    WrongGenesis,
)
from cairn.domain.genesis import genesis_digest, parse_genesis
from cairn.domain.governance import Governance, ValidatorUpdate, apply_update, encode_governance
from cairn.domain.rules import validate_tx
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import TRANSFER_GAS, ZERO_ADDRESS, Address, BlockHash, DropReason, Tx, TxHash
from cairn.engine.abci import messages as m
from cairn.engine.application import Application, Chain
from cairn.engine.network.bundle import Bundle
from cairn.engine.network.codes import CODESPACE, REFUSED, code_of
from cairn.engine.network.overlay import Overlay
from cairn.engine.network.proposal import propose, read_offer, read_strictly, sift
from cairn.engine.network.senders import Parsed, Senders
from cairn.mempool.entry import WAITING
from cairn.mempool.pool import Mempool

APP_VERSION = 1
"""Of the rules: nodes with different ones cannot agree on blocks."""
CHECKED_AT_ONCE_BYTES = 64 * 1024
"""Some hundred transfers, however they are bundled."""
NS_PER_S = 1_000_000_000

_Proposal = m.PrepareProposalRequest | m.BlockRequest

_ACCEPTED = m.TxResult(gas_wanted=TRANSFER_GAS)
_SENT_AGAIN = "it is sent again"

log = structlog.get_logger("cairn.network")


class NetworkChain(Chain, Protocol):
    @property
    def governance(self) -> Governance | None: ...

    @property
    def state_block_hash(self) -> BlockHash: ...


class SnapshotShelf(Protocol):
    """The snapshots that new nodes can start from, given and taken."""

    def list_snapshots(self) -> Sequence[m.Snapshot]: ...

    def offer_snapshot(self, request: m.OfferSnapshotRequest) -> Awaitable[m.OfferSnapshotResult]: ...

    def load_snapshot_chunk(self, request: m.LoadSnapshotChunkRequest) -> bytes: ...

    def apply_snapshot_chunk(self, request: m.ApplySnapshotChunkRequest) -> Awaitable[m.ApplySnapshotChunkResponse]: ...


class Events(Protocol):
    """Who must hear what CometBFT brings about. Called on the event loop, between two ABCI calls."""

    def deciding(self) -> None:
        """A proposed block was found good."""

    def committing(self) -> None:
        """The state is about to move on by a block: the last moment at which the pool and the state agree."""

    def committed(self, outcome: BlockOutcome) -> int:
        """The block is on disk. Returns the lowest height that CometBFT must keep; 0 keeps all."""

    def dropped(self, drops: Sequence[tuple[TxHash, DropReason]]) -> None:
        """The pool let these go."""

    def refused(self, tx: Tx) -> None:
        """CometBFT's mempool does not have it, or no longer."""

    def must_go_round_again(self, tx: Tx) -> bool:
        """Whether CometBFT must forget `tx`, so that it can be sent anew and is offered to its peers once more."""


class NetworkApplication:
    def __init__(
        self,
        application: Application,
        chain: NetworkChain,
        pool: Mempool,
        overlay: Overlay,
        senders: Senders,
        events: Events,
        clock: Callable[[], float],
        snapshots: SnapshotShelf | None = None,
    ) -> None:
        """`clock` gives Unix time; only the time at which a transaction arrived here comes from it."""
        self._application = application
        self._chain = chain
        self._pool = pool
        self._overlay = overlay
        self._senders = senders
        self._events = events
        self._clock = clock
        self._snapshots = snapshots
        self._rules = chain.genesis.rules
        self._checks: deque[tuple[m.CheckTxRequest, asyncio.Future[m.TxResult]]] = deque()
        """Checks whose senders are being recovered, and all that came after them."""
        self._checking: asyncio.Task[None] | None = None
        self._judged: _Judged | None = None
        """The proposal that was made or judged last: judging it and deciding it need not compute it again."""

    # Start.

    def info(self, request: m.InfoRequest) -> m.InfoResponse:
        height = self._chain.head_header.height
        # Before the first block CometBFT takes the app hash from InitChain.
        app_hash = self._chain.state_block_hash if height else b""
        return m.InfoResponse(height, app_hash, APP_VERSION, __version__, "cairn")

    def init_chain(self, request: m.InitChainRequest) -> m.InitChainResponse:
        """Start the chain. Raises `WrongGenesis` when CometBFT's genesis is of another one than ours."""
        chain = self._chain
        ours = genesis_digest(chain.genesis)
        theirs = _stated_digest(request.app_state)
        if theirs != ours:
            raise WrongGenesis(f"app_state in CometBFT's genesis is of genesis 0x{theirs.hex()}, not 0x{ours.hex()}")
        if request.initial_height != 1:
            raise WrongGenesis(f"initial_height in CometBFT's genesis is {request.initial_height}, not 1")
        self._check_validators(request.validators)
        if chain.head_header.height:
            raise Fatal(
                f"CometBFT starts a new chain, but the store is at block {chain.head_header.height}: "
                "its data directory is gone or another's"
            )
        return m.InitChainResponse(chain.state_block_hash)

    def _check_validators(self, given: Sequence[m.ValidatorUpdate]) -> None:
        governance = self._chain.governance
        if governance is None:
            return
        ours = {validator.public_key: validator.power for validator in governance.validators}
        if {validator.public_key: validator.power for validator in given} != ours:
            raise WrongGenesis("the validators in CometBFT's genesis are not those of the chain's genesis")

    def query(self, request: m.QueryRequest) -> m.QueryResponse:
        """The governance, and the heights of the snapshots; all else has its place in the public interface."""
        height = self._chain.head_header.height
        governance = self._chain.governance
        if request.path == "snapshots":
            offered = json.dumps([snapshot.height for snapshot in self.list_snapshots()])
            return m.QueryResponse(value=offered.encode(), height=height)
        if request.path != "governance" or governance is None:
            return m.QueryResponse(REFUSED, "no such path", height=height, codespace=CODESPACE)
        return m.QueryResponse(value=encode_governance(governance), height=height)

    # The mempool.

    def check_tx(self, request: m.CheckTxRequest) -> m.TxResult | Awaitable[m.TxResult]:
        if not self._checks:
            known = self._senders.find(request.tx)
            if known is not None:
                return self._check(request, known)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[m.TxResult] = loop.create_future()
        self._checks.append((request, answer))
        if self._checking is None:
            self._checking = loop.create_task(self._check_waiting())
        return answer

    async def _check_waiting(self) -> None:
        """Check what waits, in the order of arrival: nonces depend on it."""
        checks = self._checks
        while checks:
            batch = self._next_checks()
            parsed = await self._senders.resolve([request.tx for request, _ in batch])
            for (request, answer), item in zip(batch, parsed, strict=True):
                checks.popleft()
                # It is cancelled when the connection is gone, and CometBFT's mempool with it.
                if answer.cancelled():
                    continue
                try:
                    answer.set_result(self._check(request, item))
                except Exception as failure:
                    answer.set_exception(failure)
        self._checking = None

    def _next_checks(self) -> list[tuple[m.CheckTxRequest, asyncio.Future[m.TxResult]]]:
        batch, size_bytes = [], 0
        for check in self._checks:
            batch.append(check)
            size_bytes += len(check[0].tx)
            if size_bytes >= CHECKED_AT_ONCE_BYTES:
                break
        return batch

    def _check(self, request: m.CheckTxRequest, parsed: Parsed) -> m.TxResult:
        try:
            if isinstance(parsed, Rejected):
                raise parsed
            if isinstance(parsed, ValidatorUpdate):
                self._check_update(parsed)
            elif isinstance(parsed, Bundle):
                self._check_bundle(parsed, request.recheck)
            else:
                self._check_transfer(parsed, request.recheck)
        except (Rejected, MempoolFull) as refusal:
            return _refusal(refusal)
        return _ACCEPTED

    def _check_update(self, update: ValidatorUpdate) -> None:
        self._overlay.check_update(update)
        self._apply_update(update)
        self._overlay.add_update(update)

    def _check_bundle(self, bundle: Bundle, recheck: bool) -> None:
        if recheck:
            self._recheck_bundle(bundle.txs)
        else:
            self._take_bundle(bundle.txs)

    def _recheck_bundle(self, txs: Sequence[Tx]) -> None:
        """It stays as long as it brings one that can be mined. Raises the last one's refusal when it does not."""
        if any(self._events.must_go_round_again(tx) for tx in txs):
            for tx in txs:
                if not self._overlay.is_past(tx):
                    self._return(tx)
            raise TxRejected(_SENT_AGAIN)
        taken, refused = self._overlay.take(txs, self._rules)
        for tx, why in refused:
            self._give_up(tx, why)
        if not taken:
            raise (
                refused[-1][1] if refused else NonceTooLow("its transactions have had their turn, or come with others")
            )

    def _take_bundle(self, txs: Sequence[Tx]) -> None:
        """One that brings more that cannot be mined than what can is refused whole, and has no effect.

        Whoever makes bundles looks at each transfer first; few of them can have lost their place on the way. What is
        here already does not count: else one transfer that pays would carry any number of bundles in.
        """
        trial = self._overlay.branch()
        taken, refused = trial.take(txs, self._rules)
        for tx, why in refused:
            self._give_up(tx, why)
        if not taken or len(refused) > len(taken):
            for tx in taken:
                self._return(tx)
            raise refused[-1][1] if refused else TxRejected("it brings nothing new")
        self._overlay.merge(trial)
        # Others took them in, but for our own, which are here; they keep them and send them again, so we need not.
        now = int(self._clock())
        for tx in taken:
            self._tell_dropped(self._pool.note(tx, now))

    def _check_transfer(self, tx: Tx, recheck: bool) -> None:
        try:
            self._overlay.check(tx)
            if recheck:
                if self._events.must_go_round_again(tx):
                    raise TxRejected(_SENT_AGAIN)
            else:
                validate_tx(tx, self._rules)
                self._tell_dropped(self._pool.admit(tx, int(self._clock()), local=False).dropped)
        except (Rejected, MempoolFull) as refusal:
            self._give_up(tx, refusal)
            raise
        self._overlay.add(tx)

    def _tell_dropped(self, drops: Sequence[tuple[TxHash, DropReason]]) -> None:
        if drops:
            self._events.dropped(drops)

    def _return(self, tx: Tx) -> None:
        self._overlay.let_go(tx)
        self._events.refused(tx)

    def _give_up(self, tx: Tx, refusal: Rejected | MempoolFull) -> None:
        """CometBFT lets `tx` go; one of another node's leaves the pool too, unless it only came out of turn."""
        self._return(tx)
        entry = self._pool.find(tx.hash)
        if entry is None or entry.local:
            return
        if entry.lead == WAITING or not isinstance(refusal, NonceTooHigh):
            self._events.dropped(self._pool.remove(tx.hash))

    # Blocks.

    def prepare_proposal(self, request: m.PrepareProposalRequest) -> Sequence[bytes] | Awaitable[Sequence[bytes]]:
        parsed = self._senders.find_all(request.txs)
        return self._prepare_later(request) if parsed is None else self._prepare(request, parsed)

    async def _prepare_later(self, request: m.PrepareProposalRequest) -> Sequence[bytes]:
        return self._prepare(request, await self._senders.resolve(request.txs, for_block=True))

    def _prepare(self, request: m.PrepareProposalRequest, parsed: Sequence[Parsed]) -> Sequence[bytes]:
        offered = read_offer(request.txs, parsed, request.max_tx_bytes)
        if offered is not None:
            try:
                self._judge(request, parsed, offered, None)
            except InvalidBlock:
                log.debug("the offer does not make a block as it is", height=request.height)
            else:
                return request.txs
        return propose(request.txs, parsed, self._chain, self._rules, request.max_tx_bytes, self._apply_update)

    def process_proposal(self, request: m.ProcessProposalRequest) -> bool | Awaitable[bool]:
        self._check_height(request)
        if self._find_judged(request) is not None:
            self._events.deciding()
            return True
        parsed = self._senders.find_all(request.txs)
        return self._process_later(request) if parsed is None else self._process(request, parsed)

    async def _process_later(self, request: m.ProcessProposalRequest) -> bool:
        return self._process(request, await self._senders.resolve(request.txs, for_block=True))

    def _process(self, request: m.ProcessProposalRequest, parsed: Sequence[Parsed]) -> bool:
        try:
            self._judge(request, parsed, *read_strictly(parsed, self._apply_update))
        except (Rejected, InvalidBlock) as refusal:
            log.warning("refused a proposed block", height=request.height, reason=refusal.detail)
            return False
        self._events.deciding()
        return True

    def _judge(
        self, request: _Proposal, parsed: Sequence[Parsed], txs: Sequence[Tx], governance: Governance | None
    ) -> None:
        """Keep what the block comes to. Raises `InvalidBlock`."""
        outcome = self._build(request, txs, governance)
        self._judged = _Judged(
            tuple(request.txs), request.time_ns, request.proposer_address, list(map(_done, parsed)), outcome
        )

    def finalize_block(
        self, request: m.FinalizeBlockRequest
    ) -> m.FinalizeBlockResponse | Awaitable[m.FinalizeBlockResponse]:
        self._check_height(request)
        judged = self._find_judged(request)
        if judged is not None:
            return self._hold(judged.outcome, judged.results)
        parsed = self._senders.find_all(request.txs)
        return self._finalize_later(request) if parsed is None else self._finalize(request, parsed)

    async def _finalize_later(self, request: m.FinalizeBlockRequest) -> m.FinalizeBlockResponse:
        return self._finalize(request, await self._senders.resolve(request.txs, for_block=True))

    def _finalize(self, request: m.FinalizeBlockRequest, parsed: Sequence[Parsed]) -> m.FinalizeBlockResponse:
        return self._hold(*self._apply(request, parsed))

    def _hold(self, outcome: BlockOutcome, results: Sequence[m.TxResult]) -> m.FinalizeBlockResponse:
        self._application.hold(outcome)
        app_hash = outcome.block.hash if outcome.changes_state else self._chain.state_block_hash
        return m.FinalizeBlockResponse(results, app_hash, self._validator_updates(outcome.governance))

    def _find_judged(self, request: m.BlockRequest) -> "_Judged | None":
        judged = self._judged
        if judged is None or judged.outcome.block.header.previous_hash != self._chain.head_hash:
            return None
        same = (judged.time_ns, judged.proposer_address) == (request.time_ns, request.proposer_address)
        return judged if same and judged.raws == tuple(request.txs) else None

    def _apply(self, request: m.BlockRequest, parsed: Sequence[Parsed]) -> tuple[BlockOutcome, list[m.TxResult]]:
        """Whatever was decided is applied; what breaks a rule in it is left out, on every node alike."""
        content = sift(parsed, self._chain, self._rules, self._apply_update)
        results = []
        for item, refusal in zip(parsed, content.refusals, strict=True):
            if refusal is not None:
                log.error("a decided block holds what breaks a rule", height=request.height, reason=refusal.detail)
                results.append(_refusal(refusal))
            else:
                results.append(_done(item))
        return self._build(request, content.txs, content.governance), results

    def commit(self) -> int:
        self._events.committing()
        outcome = self._application.commit()
        self._judged = None
        self._overlay.reset()
        return self._events.committed(outcome)

    def _check_height(self, request: m.BlockRequest) -> None:
        head = self._chain.head_header.height
        if request.height != head + 1:
            raise Fatal(
                f"CometBFT is at block {request.height}, but the store ends at {head}: they do not fit together"
            )

    def _build(self, request: _Proposal, txs: Sequence[Tx], governance: Governance | None) -> BlockOutcome:
        before = self._chain.governance
        change = None if before is None or governance is None else (before, governance)
        proposer: Address | None = None if before is None else before.proposer_of(request.proposer_address)
        return self._application.build(txs, request.time_ns // NS_PER_S, proposer or ZERO_ADDRESS, change)

    def _apply_update(self, update: ValidatorUpdate) -> Governance:
        governance, admins = self._chain.governance, self._chain.genesis.admins
        if governance is None or admins is None:
            raise UpdateRefused("this chain's genesis names nobody who may change the validators")
        return apply_update(governance, admins, update, self._rules.chain_id)

    def _validator_updates(self, after: Governance | None) -> list[m.ValidatorUpdate]:
        before = self._chain.governance
        if before is None or after is None:
            return []
        old = {validator.public_key: validator.power for validator in before.validators}
        new = {validator.public_key: validator.power for validator in after.validators}
        return [
            m.ValidatorUpdate(public_key, new.get(public_key, 0))
            for public_key in sorted(old.keys() | new.keys())
            if old.get(public_key) != new.get(public_key)
        ]

    def extend_vote(self, request: m.ExtendVoteRequest) -> bytes:
        return b""

    def verify_vote_extension(self, request: m.VerifyVoteExtensionRequest) -> bool:
        return not request.vote_extension

    # Snapshots.

    def list_snapshots(self) -> Sequence[m.Snapshot]:
        return () if self._snapshots is None else self._snapshots.list_snapshots()

    def offer_snapshot(
        self, request: m.OfferSnapshotRequest
    ) -> m.OfferSnapshotResult | Awaitable[m.OfferSnapshotResult]:
        if self._snapshots is None:
            return m.OfferSnapshotResult.ABORT
        return self._snapshots.offer_snapshot(request)

    def load_snapshot_chunk(self, request: m.LoadSnapshotChunkRequest) -> bytes:
        return b"" if self._snapshots is None else self._snapshots.load_snapshot_chunk(request)

    def apply_snapshot_chunk(
        self, request: m.ApplySnapshotChunkRequest
    ) -> m.ApplySnapshotChunkResponse | Awaitable[m.ApplySnapshotChunkResponse]:
        if self._snapshots is None:
            return m.ApplySnapshotChunkResponse(m.ApplySnapshotChunkResult.ABORT)
        return self._snapshots.apply_snapshot_chunk(request)

    def close(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
        self._senders.close()


class _Judged(NamedTuple):
    """A proposal that was found good."""

    raws: Sequence[bytes]
    time_ns: int
    proposer_address: bytes
    results: Sequence[m.TxResult]
    outcome: BlockOutcome


def _done(item: Parsed) -> m.TxResult:
    """The result of an item of a block that was applied."""
    count = len(item.txs) if isinstance(item, Bundle) else isinstance(item, Tx)
    return m.TxResult(gas_wanted=count * TRANSFER_GAS, gas_used=count * TRANSFER_GAS)


def _refusal(refusal: Rejected | MempoolFull | InvalidBlock) -> m.TxResult:
    return m.TxResult(code_of(refusal), log=refusal.detail, codespace=CODESPACE)


def _stated_digest(app_state: bytes) -> bytes:
    """The digest of the genesis that CometBFT's own genesis carries: whole, or as the digest in hex."""
    try:
        stated = json.loads(app_state or b"null")
        if isinstance(stated, str):
            return bytes.fromhex(stated.removeprefix("0x"))
        return genesis_digest(parse_genesis(app_state))
    except (ValueError, Rejected) as error:
        raise WrongGenesis(f"app_state in CometBFT's genesis is not the chain's genesis: {error}") from None
