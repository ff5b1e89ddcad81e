"""The application, which makes transactions into a block on disk, and the interface of the engines, which use it."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from cairn import metrics
from cairn.board import Part
from cairn.domain.certificates import Certificate
from cairn.domain.governance import Update
from cairn.domain.steps import Steps, finish
from cairn.domain.transition import BlockOutcome, GovernanceChange, block_steps
from cairn.domain.types import Address, BlockHeader, Rules, SealedBlock, Tx, TxHash
from cairn.engine.signing import BlockSigner
from cairn.store.chain import ChainStore, PreparedBlock

# The feed announces that a block is on disk. Subscribers get it, or read it from the store, now or later.
#
# So replay and live events are the same, and no events are kept for slow or disconnected subscribers.

Listener = Callable[[int], None]
BlockListener = Callable[[int, SealedBlock | None], None]
"""Called with a height and the new block there; None after a jump, or if the height was announced before."""


class Feed:
    """Calls every listener with every height after its subscription, in order, except those that a jump skips."""

    def __init__(self) -> None:
        self._listeners: list[BlockListener] = []
        self._height: int | None = None

    def subscribe(self, listener: Listener) -> None:
        self.subscribe_blocks(lambda height, block: listener(height))

    def subscribe_blocks(self, listener: BlockListener) -> None:
        self._listeners.append(listener)

    def announce(self, height: int, block: SealedBlock | None = None) -> None:
        """Announce that the block at `height`, and all before it, are on disk."""
        assert self._height is None or height == self._height + 1, f"height {height} announced after {self._height}"
        self._tell(height, block)

    def jump(self, height: int) -> None:
        """Announce that the chain continues from `height`, and that no earlier blocks are kept."""
        assert self._height is None or height > self._height, f"a jump to height {height} from {self._height}"
        self._tell(height)

    def repeat(self, height: int) -> None:
        """Announce the newest height again: the store's files have changed, and nothing else."""
        self._call(height, None)

    def _tell(self, height: int, block: SealedBlock | None = None) -> None:
        self._height = height
        self._call(height, block)

    def _call(self, height: int, block: SealedBlock | None) -> None:
        for listener in self._listeners:
            listener(height, block)


class Application:
    def __init__(self, chain: ChainStore, feed: Feed, signer: BlockSigner | None = None) -> None:
        """`signer` is there exactly on a node that makes its blocks alone."""
        self._chain = chain
        self._signer = signer
        self._feed = feed
        self._finalized: BlockOutcome | None = None
        self._absent: Sequence[bytes] | None = None
        self.rules: Rules = chain.genesis.rules

    @property
    def head(self) -> BlockHeader:
        """The header of the latest block on disk."""
        return self._chain.head_header

    def build(
        self,
        txs: Sequence[Tx],
        timestamp: int,
        proposer: Address,
        governance: GovernanceChange | None = None,
        balances: Mapping[Address, int] | None = None,
    ) -> BlockOutcome:
        """Apply `txs` on top of the head, or set `balances`. Nothing is kept. Raises `InvalidBlock`."""
        began = time.perf_counter()
        outcome = finish(self._build(txs, timestamp, proposer, governance, balances))
        metrics.BLOCK_BUILD.observe(time.perf_counter() - began)
        return outcome

    def _build(
        self,
        txs: Sequence[Tx],
        timestamp: int,
        proposer: Address,
        governance: GovernanceChange | None = None,
        balances: Mapping[Address, int] | None = None,
    ) -> Steps[BlockOutcome]:
        chain, rules = self._chain, self.rules
        parent, parent_hash = chain.head_header, chain.head_hash
        return block_steps(parent, parent_hash, chain, txs, timestamp, proposer, rules, governance, balances)

    def hold(self, outcome: BlockOutcome, absent: Sequence[bytes] | None = None) -> None:
        """Keep what `build` gave, for `commit`; nothing is written yet.

        `absent` are the validators that did not vote on the block before, if it was voted on.
        """
        self._finalized, self._absent = outcome, absent

    def finalize(
        self, txs: Sequence[Tx], timestamp: int, proposer: Address, balances: Mapping[Address, int] | None = None
    ) -> BlockOutcome:
        """Apply `txs` on top of the head, or set `balances`. The result is held in memory; nothing is written yet."""
        # The earlier result is void from here on, even if this block is invalid.
        self._finalized = None
        outcome = self.build(txs, timestamp, proposer, balances=balances)
        self.hold(outcome)
        return outcome

    def write(self, txs: Sequence[Tx], timestamp: int, proposer: Address) -> Steps[BlockOutcome]:
        """Apply `txs` on top of the head, and write the block, which happens in the last step, and is announced then.

        In between the chain may be read, and must not be changed.
        """
        # An earlier result is void from here on, even if this block is invalid.
        self._finalized = None
        began = time.perf_counter()
        outcome = yield from self._build(txs, timestamp, proposer)
        metrics.BLOCK_BUILD.observe(time.perf_counter() - began)
        prepared = yield from self._chain.prepare(outcome)
        self._commit(outcome, prepared=prepared)
        return outcome

    def jump(self) -> None:
        """The chain was replaced by a restored snapshot: the held result is void."""
        self._finalized = None
        self._feed.jump(self._chain.head_header.height)

    def commit(self) -> BlockOutcome:
        """Write the held block."""
        outcome, self._finalized = self._finalized, None
        assert outcome is not None, "nothing was finalized since the last commit"
        self._commit(outcome, self._absent)
        return outcome

    def _commit(
        self, outcome: BlockOutcome, absent: Sequence[bytes] | None = None, prepared: PreparedBlock | None = None
    ) -> None:
        # As late as possible: a block that is given up before it is written should not have been signed.
        signed = None if self._signer is None else self._signer.sign(outcome.block)
        began = time.perf_counter()
        self._chain.commit(outcome, absent, signed, prepared)
        metrics.BLOCK_COMMIT.observe(time.perf_counter() - began)
        metrics.CHAIN_TRANSACTIONS.add(len(outcome.block.txs))
        if self._signer is not None and signed is not None:
            self._signer.committed(signed)
        # Last, so that no block is announced that is not on disk.
        self._feed.announce(outcome.block.header.height, outcome.block)

    def certificate(self, height: int | None) -> Certificate:
        """The certificate of a block, on a node that makes its blocks alone. Raises `NotSignedYet`."""
        assert self._signer is not None, "the blocks of a network are signed by its validators"
        return self._signer.certificate(height)


OK = "ok"
NO_VALIDATORS = "this chain has no validators"


class Engine(Protocol):
    """Puts transactions into blocks."""

    @property
    def name(self) -> str:
        """The name in `GET /chain`."""

    @property
    def peers(self) -> int:
        """How many nodes of the network this one is connected to."""

    async def run(self) -> None:
        """Work until `stop`. Raises what ended it: `StoreUnavailable`, or a bug."""

    def wake(self) -> None:
        """The pool may have something new."""

    def make_block_at_once(self) -> None:
        """Make a block now, if the pool's transactions get one at once and are few. It may fail, and is tried again.

        Raises what the store raises.
        """

    def stop(self) -> None:
        """Let `run` return. A block is never left half made."""

    def condition(self) -> str:
        """`ok`, or why no blocks can be expected now."""

    @property
    def part_at_fault(self) -> Part:
        """What that is a fault of: the engine here, or the other nodes."""

    def adopt(self, tx_hash: TxHash) -> bool:
        """Answer for a transaction in the pool from now on. True if only other nodes did so far."""

    async def submit_update(self, update: Update) -> None:
        """Check an update of the validators, and have it put into a block. It is not stored.

        Raises `NotFound` on a chain without validators, `UpdateRefused` or `InvalidSignature` as a block would,
        `InvalidField` for one that no node can read, and `EngineUnavailable`.
        """

    async def certificate(self, height: int | None) -> Certificate:
        """The certificate that names the block at `height`, or else the newest one, if it is not of an older block.

        Raises `NotSignedYet` or `EngineUnavailable`.
        """
