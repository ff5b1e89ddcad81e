"""Opens the core: the store, then the mempool from the journal."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import structlog

from cairn.board import Board
from cairn.config import Settings
from cairn.core.admission import journal_left
from cairn.core.gateway import ChainObserver, MempoolListener
from cairn.core.idempotency_keys import IdempotencyKeys
from cairn.core.service import Core
from cairn.domain.errors import MempoolFull, NodeError, Rejected
from cairn.domain.genesis import Genesis
from cairn.domain.types import Address, DropReason
from cairn.engine.embedded import Pace
from cairn.engine.signing import BlockSigner
from cairn.mempool.pool import Mempool, PoolLimits
from cairn.mempool.unheld import UnheldTx
from cairn.store.chain import ChainStore
from cairn.store.directory import SeenHead, journal_path
from cairn.store.journal import Journal, JournalEntry
from cairn.store.signing_key import SigningKeys

log = structlog.get_logger("cairn.core")


def open_core(
    genesis: Genesis,
    data_dir: Path,
    settings: Settings,
    dev_keys: Mapping[Address, bytes],
    listener: MempoolListener,
    abci_socket: Path | None = None,
    seen: SeenHead | None = None,
    pace: Pace | None = None,
    observer: ChainObserver | None = None,
    begun: Path | None = None,
    signing_keys: SigningKeys | None = None,
    board: Board | None = None,
    idempotency_keys: IdempotencyKeys | None = None,
) -> Core:
    """Open the store, then restore the mempool from the journal.

    `abci_socket` is where to listen for CometBFT, when that is the engine. With `seen`, only the chain that had
    this head is opened, and none is started; nor with `begun`, the file that says that there is one. `pace` is that
    of the previous core, to keep its block times. `signing_keys` are those of a node that makes its blocks alone; a dev
    chain's is always there. `board` shows the workers the head and the mempool. `idempotency_keys` are those that the
    previous core of this process had.
    """
    board = board or Board()
    board.begin()
    with contextlib.ExitStack() as opened:
        chain = ChainStore.open(data_dir, genesis, seen, begun, board)
        opened.callback(chain.close)
        signer = None if genesis.signer is None else BlockSigner(chain, signing_keys or SigningKeys())
        journal = Journal.open(journal_path(data_dir), chain.watermark)
        opened.callback(journal.close)
        is_shared = settings.engine != "embedded"
        pool = Mempool(genesis.rules, pool_limits(settings), chain, is_shared=is_shared, board=board)
        restore(pool, journal, chain)
        pace = pace or Pace(settings.block_time_s, settings.empty_blocks)
        idempotency_keys = idempotency_keys or IdempotencyKeys()
        core = Core(
            chain, pool, journal, settings, dev_keys, listener, abci_socket, pace, idempotency_keys, observer, signer
        )
        opened.pop_all()
    board.open()
    return core


def pool_limits(settings: Settings) -> PoolLimits:
    return PoolLimits(
        size=settings.mempool_size,
        per_sender=settings.mempool_per_sender,
        nonce_gap=settings.mempool_nonce_gap,
        lifetime_s=settings.mempool_lifetime_s,
    )


def restore(pool: Mempool, journal: Journal, chain: ChainStore) -> None:
    """Admit the transactions of the journal in their order. Those that are confirmed are settled."""
    restored = 0
    pool.up_s = journal.up_s
    for tx_hash, reason in journal.recovered_drops:
        # Earlier versions dropped for other reasons, too, what other nodes might still confirm.
        if not pool.is_shared or reason == "nonce used":
            pool.drops.add(tx_hash, reason)
    for entry in journal.recovered:
        tx = entry.tx
        if tx.nonce < chain.account(tx.sender).nonce:
            journal.settle(tx.hash)
            # Where blocks were removed or never seen, one of them may have confirmed it.
            if not chain.base and chain.find_location(tx.hash) is None:
                pool.drops.add(tx.hash, "nonce used")
            continue
        if entry.left is not None:
            journal_left(journal, pool, [pool.leave(UnheldTx(tx, entry.received_at, True, entry.left))])
            continue
        try:
            admitted = pool.restore(tx, entry.received_at, entry.queued_since)
        except (Rejected, MempoolFull) as refused:
            # The limits may be lower now: report what is dropped.
            _let_go(pool, journal, entry, "evicted", refused.detail)
            continue
        except NodeError:
            raise
        except Exception as failure:
            # A defect of ours. The start must not fail by it, now and each time after.
            _let_go(pool, journal, entry, "cannot be applied", repr(failure))
            continue
        restored += admitted.added
        journal_left(journal, pool, admitted.dropped)
    journal.sync()
    # From here on the mempool holds everything that is still pending.
    journal.recovered.clear()
    journal.recovered_drops.clear()
    if restored:
        log.info("mempool restored", transactions=restored)


def _let_go(pool: Mempool, journal: Journal, entry: JournalEntry, reason: DropReason, why: str) -> None:
    log.warning("a journaled transaction no longer fits", tx="0x" + entry.tx.hash.hex(), reason=why)
    journal_left(journal, pool, [pool.leave(UnheldTx(entry.tx, entry.received_at, True, reason))])
