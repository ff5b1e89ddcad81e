"""Looks at a data directory before anything in it is changed: whoever refuses it leaves each file as it was.

An opening makes what is missing, moves the files of a revert and rewrites the journal, and RocksDB deletes every
file that its MANIFEST does not name. On a damaged directory each of these can destroy what could still be brought
back. So everything is read first: the watermark, the whole journal, and RocksDB opened read-only, which opens all of
its tables and replays its log, but writes nothing. Only then is the directory opened for writing.
"""

import re
from pathlib import Path

import msgspec

from cairn.domain.certificates import check_certificate, engine_chain_id, first_validators, lone_certificate
from cairn.domain.errors import Corrupt, InvalidProof, StoreUnavailable, WrongGenesis
from cairn.domain.genesis import Genesis, genesis_digest
from cairn.domain.governance import Governance, decode_governance
from cairn.domain.headers import block_hash
from cairn.domain.history import History, load_history
from cairn.domain.merkle import root_of, tx_root
from cairn.domain.state_tree import record_leaf
from cairn.domain.types import BlockHash, BlockHeader
from cairn.store import keys
from cairn.store.dev_snapshots import parts_to_open, snapshot_path
from cairn.store.directory import (
    Parts,
    check_format,
    check_unused,
    format_path,
    has_files,
    is_there,
    names_in,
    parts_in,
)
from cairn.store.journal import Journal
from cairn.store.keys import StoredHead
from cairn.store.reader import ChainReader
from cairn.store.rocks import Database
from cairn.store.state_recovery import RecoveredTree, recover_tree
from cairn.store.watermark import Watermark

CHECKED_LINKS = 16
"""How many blocks below the head are checked when the store is opened."""
_MANIFEST_LINE = re.compile(r"MANIFEST-[0-9]+\n")


class FoundChain(msgspec.Struct, frozen=True):
    """A chain whose newest blocks agree with each other and with the state."""

    head: StoredHead
    header: BlockHeader
    base: int
    state_block_hash: BlockHash
    governance: Governance | None
    tree: RecoveredTree
    history: History


class FoundStore(msgspec.Struct, frozen=True):
    """A store that can be opened for writing."""

    is_log_whole: bool
    """Otherwise the log ends with a block that was never announced, and whose write was cut short."""
    chain: FoundChain | None
    """None if not even block 0 was written."""


def inspect(directory: Path, genesis: Genesis) -> FoundStore | None:
    """What a data directory holds; None if no chain was begun there, so that one may be.

    Raises `WrongFormat`, `WrongGenesis`, `Corrupt` or `StoreUnavailable`.
    """
    try:
        if not is_there(format_path(directory)):
            check_unused(directory)
            return None
        check_format(directory)
        parts = parts_to_open(directory)
        if not is_there(parts.watermark):
            _check_not_begun(parts)
            return None
        return _inspect_parts(parts, genesis)
    except OSError as failure:
        raise StoreUnavailable(f"cannot read {directory}: {failure}") from failure


def inspect_snapshot(directory: Path, number: int, genesis: Genesis) -> None:
    """Raise what a revert to a dev chain's snapshot would raise."""
    place = snapshot_path(directory, number)
    parts = parts_in(place)
    for part in parts:
        if not is_there(part):
            raise Corrupt(f"{part} is missing")
    try:
        _inspect_parts(parts, genesis)
    except OSError as failure:
        raise StoreUnavailable(f"cannot read the snapshot in {place}: {failure}") from failure


def _check_not_begun(parts: Parts) -> None:
    """The watermark is the first file after FORMAT, so if only it is missing, it was lost."""
    for part in (parts.chain, parts.journal):
        if has_files(part):
            raise Corrupt(f"{parts.watermark} is missing, though {part} was made after it")


def _inspect_parts(parts: Parts, genesis: Genesis) -> FoundStore | None:
    watermark = Watermark.follow(parts.watermark)
    try:
        watermark.check()
        Journal.check(parts.journal, watermark)
        if watermark.height() < 0 and watermark.journal_end() == 0 and not _files_in(parts.chain, ".sst"):
            _check_unfinished(parts.chain)
            return None
        return _inspect_store(parts.chain, watermark.height(), genesis)
    finally:
        watermark.close()


def _files_in(path: Path, suffix: str) -> list[Path]:
    return [path / name for name in sorted(names_in(path)) if name.endswith(suffix)]


def _check_unfinished(path: Path) -> None:
    """Nobody was told of a block. RocksDB may be half made, but its list of files comes before its log."""
    current = path / "CURRENT"
    if not is_there(current) and any(log.stat().st_size for log in _files_in(path, ".log")):
        raise Corrupt(f"{current} is missing, though the log beside it was made after it")


def _inspect_store(path: Path, promised: int, genesis: Genesis) -> FoundStore:
    """Look at RocksDB after whatever ended its last writer.

    First strictly: any flaw of the log is an error that names the file. A flaw above the watermark is the torn tail of
    a block that was never announced, which a crash may leave; it is discarded. Anything else is damage.
    """
    _check_manifest(path)
    flaw: Corrupt | None = None
    try:
        database = Database.open_read_only(path, strict=True)
    except Corrupt as error:
        flaw = error
        database = Database.open_read_only(path, strict=False)
    try:
        if flaw is not None:
            _check_torn(path, database, promised, flaw)
        return FoundStore(flaw is None, find_chain(database, path, promised, genesis))
    finally:
        database.close()


def _check_manifest(path: Path) -> None:
    """Check what RocksDB would name badly, or not at all."""
    current = path / "CURRENT"
    if not is_there(current):
        raise Corrupt(f"{current} is missing: bring it back, with the files that it was stored with")
    line = current.read_text("ascii", "replace")
    if not _MANIFEST_LINE.fullmatch(line):
        raise Corrupt(f"{current} does not name a MANIFEST: {line[:40]!r}")
    if not is_there(manifest := path / line.strip()):
        raise Corrupt(f"{manifest} is missing, though {current} names it")


def _check_torn(path: Path, database: Database, promised: int, flaw: Corrupt) -> None:
    stored = database.get(keys.META, keys.HEAD_KEY)
    height = -1 if stored is None else keys.decode_head(stored).height
    if height < promised:
        logs = ", ".join(str(log) for log in _files_in(path, ".log") if log.stat().st_size)
        raise Corrupt(
            f"{flaw.detail} in the log {logs}; block {height + 1} and all up to {promised} were on disk, "
            f"and cannot be read"
        ) from flaw


def find_chain(database: Database, path: Path, promised: int, genesis: Genesis) -> FoundChain | None:
    """The chain in RocksDB, after checking it; None if there is none and the watermark knows of none either."""
    stored = database.get(keys.META, keys.HEAD_KEY)
    if stored is None:
        if promised >= 0:
            raise Corrupt(f"the chain's store at {path} is empty, though block {promised} was on disk")
        return None
    digest, found = genesis_digest(genesis), database.get(keys.META, keys.GENESIS_KEY)
    if found != digest:
        shown = "none" if found is None else "0x" + found.hex()
        raise WrongGenesis(f"{path.parent} belongs to genesis {shown}, not to 0x{digest.hex()}")
    head = keys.decode_head(stored)
    if head.height < promised:
        raise Corrupt(f"the chain's store at {path} ends at block {head.height}, though block {promised} was on disk")
    base = database.get(keys.META, keys.BASE_KEY)
    reader = ChainReader(database, head.height, 0 if base is None else keys.decode_height(base))
    try:
        header, history = _check_links(reader, head)
        if genesis.signer is not None:
            _check_signatures(reader, header, genesis)
        governance = database.get(keys.META, keys.GOVERNANCE_KEY)
        state_block = database.get(keys.META, keys.STATE_BLOCK_KEY)
        if state_block is None:
            raise Corrupt("the store does not say which block changed the state last")
        _check_newest_writes(reader, BlockHash(state_block), genesis)
        # Last: it takes longest.
        tree = recover_tree(database, path, reader, header, head.hash, record_leaf(governance))
    except Corrupt as damage:
        raise Corrupt(f"{path}: {damage.detail}") from damage
    return FoundChain(
        head,
        header,
        reader.base,
        BlockHash(state_block),
        None if governance is None else decode_governance(governance),
        tree,
        history,
    )


def _check_links(reader: ChainReader, head: StoredHead) -> tuple[BlockHeader, History]:
    """Check the newest blocks against their hashes and each other; returns the header of the head, and the history."""
    expected = head.hash
    newest: tuple[BlockHeader, History] | None = None
    for height in range(head.height, max(reader.base - 1, head.height - CHECKED_LINKS), -1):
        found = reader.find_header(height)
        if found is None or found[0] != expected or block_hash(found[1]) != expected:
            raise Corrupt(f"block {height} in the store is not the one with hash 0x{expected.hex()}")
        _check_body(reader, height, found[1])
        if not reader.is_whole(height):
            raise Corrupt(f"a part of block {height} is missing")
        history = _check_history(reader, *found)
        newest = newest or (found[1], history)
        expected = found[1].previous_hash
    assert newest is not None
    return newest


def _check_signatures(reader: ChainReader, head: BlockHeader, genesis: Genesis) -> None:
    """Check that blocks which one node makes alone have their signatures, and that the newest has a valid one."""
    for height in range(max(1, reader.base, head.height - CHECKED_LINKS + 1), head.height + 1):
        if reader.find_signature(height) is None:
            raise Corrupt(f"block {height} has no signature in the store")
    signature = reader.find_signature(head.height)
    if signature is not None:
        chain_id, first = engine_chain_id(genesis), first_validators(genesis)
        try:
            check_certificate(lone_certificate(head, signature, chain_id, first, reader.steps()), genesis)
        except InvalidProof as refusal:
            raise Corrupt(f"the signature of block {head.height} in the store is not valid: {refusal}") from None


def _check_newest_writes(reader: ChainReader, state_block: BlockHash, genesis: Genesis) -> None:
    """Check that no family lost what was written to it last: blocks without transactions leave most of them alone.

    A MANIFEST that was cut off names fewer tables, the newest missing, of some families only.
    """
    height = reader.find_height(state_block)
    if height is None:
        # It was pruned, and the accounts are kept.
        is_whole = any(True for _ in reader.accounts_at(reader.visible))
    elif height == 0:
        is_whole = all(reader.account_at(address, 0).balance for address, wei in genesis.alloc.items() if wei)
    else:
        is_whole = reader.is_whole(height)
    written = reader.find_data_block()
    if written is not None and not reader.has_references(written):
        raise Corrupt(f"the references of block {written} are missing, the last one with any")
    if not is_whole:
        raise Corrupt(f"a part of block 0x{state_block.hex()} is missing, the last one that changed the state")


def _check_body(reader: ChainReader, height: int, header: BlockHeader) -> None:
    hashes = keys.split_hashes(reader.tx_hashes(height))
    if header.height != height or tx_root(list(hashes)) != header.tx_root:
        raise Corrupt(f"the transactions of block {height} in the store are not those that its header commits to")
    leaves = reader.change_leaves(height)
    touched = [leaves[at : at + keys.HASH_SIZE] for at in range(0, len(leaves), keys.HASH_SIZE)]
    # Of the block of a restored snapshot they are not here; that those of another are, `is_whole` sees.
    if (touched or height > reader.base) and root_of(touched) != header.changes_root:
        raise Corrupt(f"the touched accounts of block {height} in the store are not those that its header commits to")


def _check_history(reader: ChainReader, block: BlockHash, header: BlockHeader) -> History:
    """Check the nodes that a block commits to, and those that it adds; returns the history with it."""
    before = load_history(reader.read_history_node, header.height)
    if before.root != header.history_root:
        raise Corrupt(f"the history in the store is not the one that block {header.height} commits to")
    history, nodes = before.append(block)
    for level, index, node in nodes:
        if reader.read_history_node(level, index) != node:
            raise Corrupt(f"the history has another node {index} of level {level} than block {header.height} makes")
    return history
