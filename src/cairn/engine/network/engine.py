"""The network engine: starts and stops the ABCI server, the broadcaster and the watch over CometBFT."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from cairn import metrics
from cairn.board import Part
from cairn.domain.certificates import Certificate
from cairn.domain.errors import EngineUnavailable, NotFound
from cairn.domain.governance import Update, ValidatorRecord, decode_update, encode_update
from cairn.domain.steps import Steps, finish
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import DropReason, Tx, TxHash
from cairn.domain.updates import apply_update
from cairn.engine.abci.server import AbciServer
from cairn.engine.application import NO_VALIDATORS, Application
from cairn.engine.network.abci_application import NetworkApplication
from cairn.engine.network.certificates import Certificates
from cairn.engine.network.checks import Refusals
from cairn.engine.network.halt import Halt
from cairn.engine.network.outbox import Broadcaster, Outbox
from cairn.engine.network.overlay import Overlay
from cairn.engine.network.parsed_txs import ParsedTxs
from cairn.engine.network.rpc import IN_CACHE, RPC_TIMEOUT_S, Rpc, RpcAway
from cairn.engine.network.state_sync import Snapshots
from cairn.engine.network.steps import ValidatorSteps
from cairn.engine.network.watch import CometBftWatch
from cairn.mempool.pool import Mempool
from cairn.store.chain import ChainStore
from cairn.store.directory import snapshots_path
from cairn.store.rules_file import settle_rules

STATUS_TIMEOUT_S = 2.0


class NetworkEngine:
    """The engine of a validator or a full node. The supervisor starts CometBFT, so it may restart at any time."""

    name = "cometbft"

    def __init__(
        self,
        application: Application,
        chain: ChainStore,
        pool: Mempool,
        on_committing: Callable[[], None],
        on_committed: Callable[[BlockOutcome], Steps[None]],
        on_dropped: Callable[[Sequence[tuple[TxHash, DropReason]]], None],
        *,
        abci_socket: Path,
        rpc_address: str,
        halt_after_s: float,
        snapshot_interval: int,
        retain_blocks: int,
        block_pause_s: float = 0.0,
        halt_height: int = 0,
    ) -> None:
        """`on_committed` must remove the block's transactions from the pool; `on_dropped` is called with what was
        dropped.

        `on_committing` is called before the state changes. CometBFT proposes no block earlier than `block_pause_s`
        after the one before it. Raises `AnotherVersionNeeded`.
        """
        rules_since = settle_rules(chain.directory, chain.head_header.height, halt_height, chain.base).height
        # With it, the halt is past: from there on this version makes the blocks.
        self._halt = Halt(0 if rules_since == halt_height + 1 else halt_height)
        rules = chain.genesis.rules
        self._chain = chain
        self._pool = pool
        self._rpc_address = rpc_address
        self.committing = on_committing
        self._on_committed = on_committed
        self.dropped = on_dropped
        self._abci_socket = abci_socket
        self._overlay = Overlay(chain)
        self._parsed_txs = ParsedTxs(rules.chain_id, rules.gas_price)
        timeouts_s = RPC_TIMEOUT_S, STATUS_TIMEOUT_S, STATUS_TIMEOUT_S, STATUS_TIMEOUT_S
        self._calls = [Rpc(rpc_address, timeout_s) for timeout_s in timeouts_s]
        wait_is_over = asyncio.Event()
        self._outbox = Outbox(
            pool, self._overlay, wait_is_over.set, time.monotonic, time.thread_time, block_pause_s=block_pause_s
        )
        self.wake = self._outbox.wake
        self.deciding = self._outbox.deciding
        self._broadcaster = Broadcaster(self._outbox, wait_is_over, self._parsed_txs, self._calls[0], rules.chain_id)
        self._watch = CometBftWatch(
            self._calls[1],
            lambda: chain.head_header,
            lambda: () if chain.governance is None else chain.governance.validators,
            halt_after_s,
            time.monotonic,
            time.time,
            self._show_votes,
        )
        self._blocks = application
        self._steps = ValidatorSteps(chain, self._calls[2], self._step_added)
        self._certificates = Certificates(chain, self._steps, self._calls[3])
        self._snapshots = Snapshots(
            chain,
            snapshots_path(chain.directory),
            snapshot_interval,
            retain_blocks,
            self._restored,
            lambda: self._steps.oldest_missing,
        )
        self._refusals = Refusals(time.monotonic)
        self._application = NetworkApplication(
            application,
            chain,
            pool,
            self._overlay,
            self._parsed_txs,
            self,
            self._refusals,
            time.time,
            self._snapshots,
            self._halt,
            rules_since,
        )
        self._stopped = asyncio.Event()

    # What the core drives.

    async def run(self) -> None:
        """Serve CometBFT until `stop`. Raises what ended it: `StoreUnavailable`, or a bug."""
        server = AbciServer(self._application, on_connected=self._connected)
        await server.listen(self._abci_socket)
        work = self._broadcaster.run(), self._watch.run(), self._steps.run(), self._halt.run(), self._ended(server)
        parts = [asyncio.create_task(part) for part in work]
        try:
            # The first that ends, ends all; only the last may end without a failure.
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            outcomes = await asyncio.gather(*parts, return_exceptions=True)
            await server.close()
            self._close()
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def _ended(self, server: AbciServer) -> None:
        """Until `stop`, or until our own application fails CometBFT: that failure is raised."""
        server.failed.add_done_callback(lambda _: self._stopped.set())
        await self._stopped.wait()
        if server.failed.done():
            raise server.failed.result()

    def _close(self) -> None:
        self._snapshots.close()
        self._application.close()
        for rpc in self._calls:
            rpc.close()

    def stop(self) -> None:
        self._broadcaster.stop()
        self._stopped.set()

    def make_block_at_once(self) -> None:
        """CometBFT decides when there is a block."""

    def condition(self) -> str:
        return self._halt.reason or self._watch.condition()

    @property
    def peers(self) -> int:
        return self._watch.peers

    @property
    def part_at_fault(self) -> Part:
        return "engine" if self._halt.reason else self._watch.part_at_fault

    def adopt(self, tx_hash: TxHash) -> bool:
        entry = self._pool.find(tx_hash)
        if entry is None or entry.local:
            return False
        entry.local = True
        return True

    async def submit_update(self, update: Update) -> None:
        chain = self._chain
        if chain.governance is None:
            raise NotFound(NO_VALIDATORS)
        apply_update(chain.governance, update, chain.identity)
        raw = encode_update(update)
        # So that it is checked even while peers flood the node. It is parsed as on every other node, because the result
        # is used for blocks, too.
        self._parsed_txs.remember(raw, decode_update(raw))
        rpc = Rpc(self._rpc_address, RPC_TIMEOUT_S)
        try:
            error = await rpc.broadcast(raw)
        except (RpcAway, TimeoutError) as away:
            raise EngineUnavailable(f"CometBFT does not answer: {str(away) or 'it takes too long'}") from None
        finally:
            rpc.close()
        if error is not None and IN_CACHE not in error.data:
            raise EngineUnavailable(f"CometBFT does not take it: {error}")

    async def certificate(self, height: int | None) -> Certificate:
        return await self._certificates.certificate(height)

    # What CometBFT brings about.

    def _connected(self) -> None:
        self._overlay.clear()
        self._outbox.restarted()
        self._watch.restarted()

    def committed(self, outcome: BlockOutcome) -> int:
        finish(self._on_committed(outcome))
        self._outbox.committed(outcome.block.txs)
        self._watch.committed()
        self._halt.committed(outcome.block.header.height)
        # First: CometBFT must keep the blocks that the steps are made from.
        self._steps.committed(outcome)
        return self._snapshots.after_commit()

    def _show_votes(self) -> None:
        metrics.PEERS.set(self._watch.peers)
        governance, votes = self._chain.governance, self._chain.missed_votes
        if governance is None:
            return
        metrics.VALIDATORS.set(len(governance.validators))
        metrics.ABSENT_VALIDATORS.set(votes.latest)
        metrics.EVIDENCE.set(governance.evidence_count)
        missed = votes.by_validator()
        names = label_names(governance.validators)
        metrics.MISSED_BLOCKS.set_all(
            {name: missed[each.engine_address] for name, each in zip(names, governance.validators, strict=True)}
        )

    def _step_added(self) -> None:
        self._snapshots.look()

    def _restored(self) -> None:
        """The chain starts from a snapshot: remove what is not valid in its state."""
        self._overlay.clear()
        self._steps.load()
        self.dropped(self._pool.settle_after_unseen_blocks())
        self._blocks.jump()
        self._watch.committed()

    def is_any_stale(self, txs: Iterable[Tx]) -> bool:
        # A validator will propose its own transactions.
        return not self._watch.is_validator and self._outbox.is_any_stale(txs)


def label_names(validators: Sequence[ValidatorRecord]) -> list[str]:
    """What each is called in the metrics: its name; its address in CometBFT if that is empty, or not its own alone."""
    taken = Counter(each.name for each in validators)
    return [
        each.name if each.name and taken[each.name] == 1 else each.engine_address.hex().upper() for each in validators
    ]
