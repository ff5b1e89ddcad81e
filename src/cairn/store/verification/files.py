"""Checks what is beside RocksDB: the journal, and the file of the state tree."""

import time
from pathlib import Path

from cairn.domain.errors import Corrupt, NodeError, Rejected
from cairn.domain.genesis import Genesis
from cairn.domain.governance import encode_governance
from cairn.domain.state_tree import record_leaf
from cairn.domain.transactions import rebuild_tx
from cairn.store.journal import JournalEntry
from cairn.store.journal import Replay as JournalReplay
from cairn.store.reader import ChainReader
from cairn.store.rocks import Database
from cairn.store.state_recovery import recover_tree
from cairn.store.tree_file import read_tree, tree_path
from cairn.store.verification.findings import Findings
from cairn.store.verification.replay import Replay
from cairn.store.watermark import Watermark

ATTEMPTS = 10
PAUSE_S = 0.05
"""A node writes the journal while it is read: what looks torn is read again."""


class _EarlierBounds:
    """The journal's bounds, its end as it was before it is read: meanwhile it grows."""

    def __init__(self, watermark: Watermark) -> None:
        self._watermark = watermark
        self._end = watermark.journal_end()

    def journal_start(self) -> int:
        return self._watermark.journal_start()

    def journal_end(self) -> int:
        return self._end

    def raise_journal_start(self, frame: int) -> None:
        raise NotImplementedError

    def raise_journal_end(self, frame: int) -> None:
        raise NotImplementedError


def read_journal(path: Path, watermark: Watermark, is_running: bool) -> JournalReplay:
    """What the journal holds, even while a node writes it. Raises `Corrupt`, `StoreUnavailable` or `OSError`."""
    for _ in range(ATTEMPTS - 1):
        bounds = _EarlierBounds(watermark)
        try:
            return JournalReplay(path, bounds)
        except (NodeError, OSError):
            time.sleep(PAUSE_S)
            if not is_running and watermark.journal_end() == bounds.journal_end():
                # Nobody writes to it, not even a node whose lock is not seen from here.
                break
    return JournalReplay(path, _EarlierBounds(watermark))


def pending_in(journal: JournalReplay, reader: ChainReader) -> list[JournalEntry]:
    """The transactions in the mempool, in the order of acceptance: a journal also holds some that were confirmed."""
    return [
        entry for entry in journal.entries if not entry.left and entry.tx.nonce >= reader.account(entry.tx.sender).nonce
    ]


def check_journal(
    path: Path, watermark: Watermark, reader: ChainReader, genesis: Genesis, is_running: bool, found: Findings
) -> int:
    """Check every frame, and each transaction in it; returns how many are pending."""
    try:
        journal = read_journal(path, watermark, is_running)
    except NodeError as damage:
        found.add("journal", damage.detail)
        return 0
    except OSError as failure:
        found.add("journal", f"it cannot be read: {failure}")
        return 0
    for entry in journal.entries:
        tx = entry.tx
        with found.noted("journal"):
            try:
                if rebuild_tx(tx, genesis.chain_id, genesis.gas_price) != tx:
                    raise Corrupt(f"transaction 0x{tx.hash.hex()} has other fields than its hash says")
            except Rejected as error:
                raise Corrupt(f"transaction 0x{tx.hash.hex()} is not valid: {error.detail}") from error
    try:
        return len(pending_in(journal, reader))
    except NodeError as damage:
        found.add("journal", f"its senders cannot be read: {damage.detail}")
        return 0


def check_tree_file(database: Database, path: Path, reader: ChainReader, replay: Replay, found: Findings) -> None:
    """Check the file that brings the state tree back, if there is one: it and the blocks since lead to the head."""
    try:
        saved = read_tree(tree_path(path))
        # A node that runs may have written it after the last block that is verified. What is read from damaged
        # accounts says nothing of it.
        if saved is None or saved[0].height > replay.height or found.count:
            return
        record = record_leaf(None if replay.governance is None else encode_governance(replay.governance))
        header = reader.find_header(replay.height)
        if header is not None:
            recover_tree(database, path, reader, header[1], header[0], record)
    except NodeError as damage:
        found.add("state-tree", damage.detail)
    except OSError as failure:
        found.add("state-tree", f"it cannot be read: {failure}")
