"""The application that CometBFT drives: each of its calls in terms of the chain's own rules.

Height H of CometBFT is block H of the chain, empty ones too. The app hash is the hash of the newest block that changed
the state, so validators sign public block hashes, and a block without transactions changes nothing.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import structlog

from cairn import __version__
from cairn.domain.errors import (
    AnotherVersionNeeded,
    Fatal,
    InvalidBlock,
    NodeError,
    Rejected,
    WrongGenesis,
    reason_of,
)
from cairn.domain.genesis import genesis_digest, parse_genesis
from cairn.domain.governance import encode_governance
from cairn.domain.rules import RULES_VERSION
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import Tx, TxHash
from cairn.engine.abci import requests as m
from cairn.engine.application import Application
from cairn.engine.network.block_builder import BlockBuilder, tell_evidence
from cairn.engine.network.checks import CheckQueue, Refusals
from cairn.engine.network.halt import Halt
from cairn.engine.network.mempool_admission import MempoolAdmission, MempoolEvents
from cairn.engine.network.network_log import name_of, tell_validator_changes
from cairn.engine.network.overlay import Overlay
from cairn.engine.network.parsed_txs import Parsed, ParsedTxs
from cairn.engine.network.proposal import propose, read_offer, read_strictly
from cairn.engine.network.state_sync import Snapshots
from cairn.mempool.pool import Mempool
from cairn.store.chain import ChainStore

_A = TypeVar("_A")
_Block = TypeVar("_Block", bound=m.BlockRequest)
log = structlog.get_logger("cairn.network")


class Events(MempoolEvents, Protocol):
    """Listens to CometBFT's blocks. Called on the event loop, between two ABCI calls."""

    def deciding(self) -> None:
        """A proposed block was found valid."""

    def committing(self) -> None:
        """The state is about to change by a block: the last moment at which pool and state agree."""

    def committed(self, outcome: BlockOutcome) -> int:
        """The block is on disk. Returns the lowest height that CometBFT must keep; 0 keeps all."""


class NetworkApplication:
    def __init__(
        self,
        application: Application,
        chain: ChainStore,
        pool: Mempool,
        overlay: Overlay,
        parsed_txs: ParsedTxs,
        events: Events,
        refusals: Refusals,
        clock: Callable[[], float],
        snapshots: Snapshots,
        halt: Halt,
        rules_since: int,
    ) -> None:
        """`clock` gives Unix time, used only for the arrival time of transactions.

        `rules_since` is the first height with the rules of this program; 0 if the chain was begun with them.
        """
        self._halt = halt
        self._rules_since = rules_since
        self._application = application
        self._blocks = BlockBuilder(application, chain)
        self._chain = chain
        self._overlay = overlay
        self._parsed_txs = parsed_txs
        self._events = events
        self._rules = chain.genesis.rules
        self._unfit: set[TxHash] = set()
        """Transfers with which no block can be made, though they break no rule. It takes a defect to have any."""
        admission = MempoolAdmission(overlay, pool, self._rules, events, self._blocks.apply_update, clock)
        self._checks = CheckQueue(parsed_txs, admission, refusals)
        self.list_snapshots = snapshots.list_snapshots
        self.offer_snapshot = snapshots.offer_snapshot
        self.load_snapshot_chunk = snapshots.load_snapshot_chunk
        self.apply_snapshot_chunk = snapshots.apply_snapshot_chunk

    # Start.

    def info(self) -> m.InfoResponse:
        height = self._chain.head_header.height
        # Before the first block, CometBFT uses the app hash of InitChain.
        app_hash = self._chain.state_block_hash if height else b""
        return m.InfoResponse(height, app_hash, RULES_VERSION, __version__, "cairn")

    def init_chain(self, request: m.InitChainRequest) -> bytes:
        """Start the chain. Raises `WrongGenesis` if CometBFT's genesis is of another chain."""
        chain = self._chain
        ours = genesis_digest(chain.genesis)
        theirs = _stated_digest(request.app_state)
        if theirs != ours:
            raise WrongGenesis(f"app_state in CometBFT's genesis is of genesis 0x{theirs.hex()}, not 0x{ours.hex()}")
        if request.initial_height != 1:
            raise WrongGenesis(f"initial_height in CometBFT's genesis is {request.initial_height}, not 1")
        # CometBFT takes ours where its genesis says nothing.
        if request.app_version not in (0, RULES_VERSION):
            raise AnotherVersionNeeded(
                f"the network was begun with rules of version {request.app_version}, as CometBFT's genesis says; this "
                f"program has version {RULES_VERSION}: see docs/upgrades.md"
            )
        self._check_validators(request.validators)
        if chain.head_header.height:
            raise Fatal(
                f"CometBFT starts a new chain, but the store is at block {chain.head_header.height}: "
                "its data directory is gone or another's"
            )
        return chain.state_block_hash

    def _check_validators(self, given: Sequence[m.ValidatorPower]) -> None:
        governance = self._chain.governance
        if governance is None:
            return
        ours = {validator.public_key: validator.power for validator in governance.validators}
        if {validator.public_key: validator.power for validator in given} != ours:
            raise WrongGenesis("the validators in CometBFT's genesis are not those of the chain's genesis")

    def query(self, path: str) -> m.QueryResponse:
        """The governance, and the heights of the snapshots; everything else is in the public API."""
        height = self._chain.head_header.height
        governance = self._chain.governance
        if path == "snapshots":
            offered = json.dumps([snapshot.height for snapshot in self.list_snapshots()])
            return m.QueryResponse(value=offered.encode(), height=height)
        if path != "governance" or governance is None:
            return m.QueryResponse(NodeError.abci_code, "no such path", height=height, codespace=m.CODESPACE)
        return m.QueryResponse(value=encode_governance(governance), height=height)

    # The mempool.

    def check_tx(self, request: m.CheckTxRequest) -> m.TxResult | Awaitable[m.TxResult]:
        return self._checks.check(request)

    # Blocks.

    def _answer(self, request: _Block, answer: Callable[[_Block, Sequence[Parsed]], _A]) -> _A | Awaitable[_A]:
        """Parse the block's items for `answer`; at once, if none needs a recovery."""
        parsed = self._parsed_txs.find_all(request.txs)
        return self._answer_later(request, answer) if parsed is None else answer(request, parsed)

    async def _answer_later(self, request: _Block, answer: Callable[[_Block, Sequence[Parsed]], _A]) -> _A:
        with self._checks.hold():
            parsed = await self._parsed_txs.resolve(request.txs)
        return answer(request, parsed)

    def prepare_proposal(self, request: m.PrepareProposalRequest) -> Sequence[bytes] | Awaitable[Sequence[bytes]]:
        if self._halt.is_before(request):
            return self._halt.hold()
        return self._answer(request, self._prepare)

    def _prepare(self, request: m.PrepareProposalRequest, parsed: Sequence[Parsed]) -> Sequence[bytes]:
        offered = read_offer(request.txs, parsed, self._rules, request.max_tx_bytes)
        if offered is not None and not (self._unfit and any(tx.hash in self._unfit for tx in offered)):
            try:
                self._blocks.judge(request, parsed, offered, None)
            except InvalidBlock:
                log.debug("the offer does not make a block as it is", height=request.height)
            except NodeError:
                raise
            except Exception as failure:
                self._note_unfit(request, offered, failure)
            else:
                return request.txs
        return propose(
            request.txs,
            parsed,
            self._chain,
            self._rules,
            request.max_tx_bytes,
            self._blocks.apply_update,
            self._unfit,
        )

    def _note_unfit(self, request: _Block, txs: Sequence[Tx], failure: Exception) -> None:
        """A defect, ours or of another version. Such a proposal is refused, and the transfer at fault not proposed."""
        unfit = self._blocks.find_unfit(request, txs)
        if unfit is not None:
            self._unfit.add(unfit.hash)
        name = None if unfit is None else "0x" + unfit.hash.hex()
        log.error("a block cannot be made", height=request.height, tx=name, reason=repr(failure), exc_info=failure)

    def process_proposal(self, request: m.ProcessProposalRequest) -> bool | Awaitable[bool]:
        self._blocks.check_height(request)
        if self._halt.is_before(request):
            return self._halt.hold()
        if self._blocks.find_judged(request) is not None:
            self._events.deciding()
            return True
        return self._answer(request, self._process)

    def _process(self, request: m.ProcessProposalRequest, parsed: Sequence[Parsed]) -> bool:
        txs: Sequence[Tx] = ()
        try:
            txs, governance = read_strictly(parsed, self._blocks.apply_update)
            self._blocks.judge(request, parsed, txs, governance)
        except (Rejected, InvalidBlock) as refusal:
            log.warning(
                "refused a proposed block",
                height=request.height,
                proposer=self._name_of(request.proposer_address),
                reason=refusal.detail,
            )
            return False
        except NodeError:
            raise
        except Exception as failure:
            self._note_unfit(request, txs, failure)
            return False
        self._events.deciding()
        return True

    def _name_of(self, engine_address: bytes) -> str:
        governance = self._chain.governance
        validator = None if governance is None else governance.find_engine(engine_address)
        return engine_address.hex().upper() if validator is None else name_of(validator)

    def finalize_block(
        self, request: m.FinalizeBlockRequest
    ) -> m.FinalizeBlockResponse | Awaitable[m.FinalizeBlockResponse]:
        self._blocks.check_height(request)
        if self._halt.is_before(request):
            return self._halt.hold()
        judged = self._blocks.find_judged(request)
        if judged is not None:
            return self._hold(request, judged.outcome, judged.results)
        return self._answer(request, self._finalize)

    def _finalize(self, request: m.FinalizeBlockRequest, parsed: Sequence[Parsed]) -> m.FinalizeBlockResponse:
        return self._hold(request, *self._blocks.apply(request, parsed))

    def _hold(
        self, request: m.FinalizeBlockRequest, outcome: BlockOutcome, results: Sequence[m.TxResult]
    ) -> m.FinalizeBlockResponse:
        self._application.hold(outcome, request.absent)
        self._checks.block_waits()
        app_hash = outcome.block.hash if outcome.changes_state else self._chain.state_block_hash
        # So every node that goes on by other rules finds that CometBFT refuses the next header, even if the state is
        # the same by chance.
        app_version = RULES_VERSION if request.height == self._rules_since else None
        validators = self._blocks.validator_updates(outcome.governance)
        return m.FinalizeBlockResponse(results, app_hash, validators, app_version)

    def commit(self) -> int:
        self._events.committing()
        before = self._chain.governance
        outcome = self._application.commit()
        if before is not None and outcome.governance is not None:
            tell_evidence(before, outcome.governance, outcome.block.header.height)
            tell_validator_changes(before, outcome.governance, outcome.block.header.height)
        self._blocks.forget_judged()
        self._overlay.reset()
        self._checks.block_committed()
        return self._events.committed(outcome)

    def extend_vote(self) -> bytes:
        return b""

    def verify_vote_extension(self, extension: bytes) -> bool:
        return not extension

    def close(self) -> None:
        self._checks.close()
        self._parsed_txs.close()


def _stated_digest(app_state: bytes) -> bytes:
    """The digest of the genesis that CometBFT's own genesis carries: whole, or as the digest in hex."""
    try:
        stated = json.loads(app_state or b"null")
        if isinstance(stated, str):
            return bytes.fromhex(stated.removeprefix("0x"))
        return genesis_digest(parse_genesis(app_state))
    except (ValueError, Rejected) as error:
        raise WrongGenesis(f"app_state in CometBFT's genesis is not the chain's genesis: {reason_of(error)}") from None
