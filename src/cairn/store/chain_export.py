"""Writes a chain as lines of JSON, even of a node that runs (`export_format`)."""

import base64
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from cairn.domain.certificates import Step, signed_height
from cairn.domain.crypto import checksum_address
from cairn.domain.errors import Corrupt
from cairn.domain.genesis import Genesis, encode_genesis, genesis_digest
from cairn.domain.governance import encode_governance
from cairn.domain.json_fields import hex_text
from cairn.domain.transactions import decode_record, encode_tx
from cairn.store import keys
from cairn.store.directory import is_locked, journal_path
from cairn.store.export_format import (
    EXPORT_FORMAT,
    AnyLine,
    BlockLine,
    ChainLine,
    EndLine,
    PartLine,
    PendingLine,
    encode_line,
)
from cairn.store.rules_file import FIRST_RULES, begun_by, read_rules
from cairn.store.snapshot import SnapshotDirectory, encode_manifest
from cairn.store.verification.files import pending_in, read_journal
from cairn.store.view import StoreView, check_genesis, opened_view, show_as_started

Write = Callable[[bytes], object]
Report = Callable[[int, int], None]
"""Called with how many blocks are done, and of how many."""


class Exported(msgspec.Struct, frozen=True):
    """What was written."""

    oldest: int
    head: int
    head_hash: str
    transactions: int
    pending: int


def export_chain(
    directory: Path, genesis: Genesis, write: Write, written_by: str, report: Report = lambda done, total: None
) -> Exported:
    """Write all lines. Raises `WrongGenesis`, `Corrupt`, `StoreUnavailable`, or what `write` raises."""
    lines = _Lines(write)
    is_running = is_locked(directory)
    with opened_view(directory) as view:
        # Before the chain: else what is confirmed in between would be in neither of the two.
        journal = read_journal(journal_path(directory), view.watermark, is_running)
        view.catch_up()
        if not is_running:
            show_as_started(view)
        check_genesis(view, genesis)
        pending = pending_in(journal, view)
        transactions = 0
        head = view.find_block_hash(view.visible)
        if head is None:
            raise Corrupt(f"block {view.visible} has no header in the store")
        rules = begun_by(read_rules(directory), view.visible)
        first = ChainLine(
            EXPORT_FORMAT,
            json.loads(encode_genesis(genesis)),
            view.base,
            view.visible,
            hex_text(head),
            written_by,
            # Versions before there were any others refuse a line that has it.
            rules=() if rules == FIRST_RULES else rules,
        )
        _export_start(view, genesis, first, lines)
        steps = {signed_height(step.signed) - 1: step for step in view.steps()}
        heights = first.block_heights
        for done, height in enumerate(heights, 1):
            block = _block_line(view, genesis, height, steps.get(height))
            transactions += len(block.txs)
            lines.add(block)
            report(done, len(heights))
        for entry in pending:
            raw = hex_text(encode_tx(entry.tx, genesis.chain_id))
            lines.add(PendingLine(raw, entry.received_at, entry.queued_since is not None))
        lines.end(EndLine(len(heights), transactions, len(pending), ""))
        return Exported(view.base, view.visible, hex_text(head), transactions, len(pending))


class _Lines:
    """Writes lines, and sums them up."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._digest = hashlib.sha256()

    def add(self, line: AnyLine) -> None:
        encoded = encode_line(line) + b"\n"
        self._digest.update(encoded)
        self._write(encoded)

    def end(self, line: EndLine) -> None:
        self.add(msgspec.structs.replace(line, sha256="0x" + self._digest.hexdigest()))


def _export_start(view: StoreView, genesis: Genesis, first: ChainLine, lines: _Lines) -> None:
    """The first line; and where the blocks do not begin with genesis, the state after the oldest."""
    base = view.base
    if not base:
        lines.add(first)
        return
    record = b""
    for height, governance in view.governance_from(0):
        if height <= base:
            record = encode_governance(governance)
    with tempfile.TemporaryDirectory(prefix="cairn-export-") as scratch:
        shelf = SnapshotDirectory(Path(scratch))
        manifest = shelf.take(view, base, genesis_digest(genesis), record, lambda: None)
        lines.add(
            msgspec.structs.replace(
                first, manifest=hex_text(encode_manifest(manifest)), absent=tuple(_absent_before(view, base))
            )
        )
        for number in range(len(manifest.chunks)):
            part = shelf.find_chunk(base, number)
            assert part is not None, "it was written a moment ago"
            lines.add(PartLine(number, base64.b64encode(part).decode()))


def _absent_before(view: StoreView, height: int) -> list[tuple[str, ...]]:
    """Who did not vote on the blocks before: of some, that is known longer than anything else of them."""
    found: list[tuple[str, ...]] = []
    while height and (absent := _absent_at(view, height - 1)) is not None:
        found.insert(0, absent)
        height -= 1
    return found


def _absent_at(view: StoreView, height: int) -> tuple[str, ...] | None:
    record = view.database.get(keys.META, keys.absent_key(height))
    return None if record is None else tuple(map(hex_text, _addresses(record)))


def _block_line(view: StoreView, genesis: Genesis, height: int, step: Step | None) -> BlockLine:
    found = view.find_header(height)
    if found is None:
        raise Corrupt(f"block {height} has no header in the store")
    get, header = view.database.get, found[1]
    chain_id = genesis.chain_id
    txs = tuple(hex_text(encode_tx(decode_record(record), chain_id)) for record in view.records(height))
    signature = view.find_signature(height)
    governance = get(keys.META, keys.governance_key(height))
    balances = get(keys.META, keys.balances_key(height))
    return BlockLine(
        height,
        hex_text(found[0]),
        header.timestamp,
        checksum_address(header.proposer),
        txs,
        "" if signature is None else hex_text(signature),
        step,
        "" if governance is None else hex_text(governance),
        {} if balances is None else _balances(balances),
        _absent_at(view, height),
    )


def _balances(record: bytes) -> dict[str, str]:
    return {checksum_address(address): str(balance) for address, balance in keys.decode_balances(record).items()}


def _addresses(record: bytes) -> Iterator[bytes]:
    for at in range(0, len(record), keys.ADDRESS_SIZE):
        yield record[at : at + keys.ADDRESS_SIZE]
