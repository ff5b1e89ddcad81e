"""The chain's store for the one process that writes it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from cairn.board import Board
from cairn.domain.certificates import BlockSignature, Step, signed_height
from cairn.domain.errors import ChainMissing, Corrupt, InvalidSnapshot, StoreUnavailable
from cairn.domain.genesis import Genesis, chain_identity, genesis_outcome
from cairn.domain.governance import Governance, encode_governance
from cairn.domain.history import History
from cairn.domain.state_tree import Place, StateTree
from cairn.domain.steps import Steps, finish, in_groups
from cairn.domain.transactions import encode_record
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import EMPTY_ACCOUNT, Account, Address, BlockHash, BlockHeader
from cairn.store import keys
from cairn.store.dev_snapshots import finish_revert, parts_to_open
from cairn.store.directory import (
    DirectoryLock,
    SeenHead,
    chain_path,
    check_parts,
    check_present,
    check_room,
    format_path,
    holds_chain,
    is_there,
    make_directory,
    mark_format,
    sync_directory,
    watermark_path,
)
from cairn.store.hot_copy import HotCopy
from cairn.store.inspection import FoundChain, FoundStore, find_chain, inspect
from cairn.store.keys import NEVER, StoredHead
from cairn.store.missed_votes import MissedVotes
from cairn.store.prune import Compaction, keep_only, remove_blocks
from cairn.store.reader import ChainReader
from cairn.store.rocks import Database, RocksCursor, WriteBatch
from cairn.store.snapshot import OF_A_PEER, Manifest, OldestBlock, Pause, Restore
from cairn.store.state_recovery import RecoveredTree
from cairn.store.tree_file import TreeFile, TreeMark, tree_path
from cairn.store.watermark import NOTHING_YET, StoreBounds, Watermark

KEPT_TREES = 3
"""On a network the newest block has no signature until the next one, so the trees before the latest blocks are kept."""
CACHED_ACCOUNTS = 32_768
"""About 10 MB when full. An account that is not among them costs a seek."""


class CachedAccount(msgspec.Struct, frozen=True, gc=False):
    """A cached account as of the head."""

    account: Account
    last_sent: int
    """Height of its newest version in which it sends, or `NEVER`."""
    last_received: int
    place: Place | None
    """In the state tree; None if there is no such account."""


class AccountCache(dict[Address, CachedAccount]):
    """The accounts used last: at least `capacity` of them, at most twice as many. `load` reads any other.

    Two generations instead of an order of use: when the young one, which is this dict, is full it becomes the old one,
    and what was in the old one and was not asked for since is forgotten. Nothing is moved or counted on a hit.
    """

    def __init__(self, capacity: int, load: Callable[[Address], CachedAccount]) -> None:
        super().__init__()
        self._capacity = capacity
        self._load = load
        self._old: dict[Address, CachedAccount] = {}

    def __missing__(self, address: Address) -> CachedAccount:
        known = self._old.get(address) or self._load(address)
        self.keep({address: known})
        return known

    def keep(self, known: Mapping[Address, CachedAccount]) -> None:
        self.update(known)
        if len(self) > self._capacity:
            self._old = dict(self)
            self.clear()


class PreparedBlock(msgspec.Struct, frozen=True):
    """A block and all that is written of it."""

    outcome: BlockOutcome
    batch: WriteBatch
    known: dict[Address, CachedAccount]
    """What is then known of the accounts that it touches."""


class ChainStore(ChainReader):
    """The chain, opened for writing. After a failed write it is closed and opened again, never repaired."""

    def __init__(
        self,
        directory: Path,
        genesis: Genesis,
        lock: DirectoryLock,
        database: Database,
        watermark: Watermark,
        found: FoundChain | None,
        board: Board,
    ) -> None:
        super().__init__(database, visible=-1)
        self.directory = directory
        self.genesis = genesis
        self.identity = chain_identity(genesis)
        self._lock = lock
        self.watermark = watermark
        """How much of the chain and of its journal is certainly on disk."""
        self.board = board
        """Where workers see the newest height."""
        self._recent = AccountCache(CACHED_ACCOUNTS, self._load)
        self._probes = 0
        self._compaction = Compaction(directory, database)
        self.hot_copy = HotCopy(directory, database)
        self.head_header: BlockHeader
        self.head_hash: BlockHash
        self.tree: StateTree
        """Over all accounts as of the head."""
        self._tree_file: TreeFile
        self.history: History
        """Over all blocks up to the head."""
        self.state_block_hash: BlockHash
        """Hash of the newest block that changed the state."""
        self.governance: Governance | None = None
        """The validators as of the head; None on a chain that has none."""
        self.missed_votes = MissedVotes()
        """Who voted on the latest blocks, as far as they were applied here."""
        if found is None:
            self._start_chain()
        else:
            self._resume(found)

    @classmethod
    def open(
        cls,
        directory: Path,
        genesis: Genesis,
        seen: SeenHead | None = None,
        begun: Path | None = None,
        board: Board | None = None,
    ) -> "ChainStore":
        """Open the store in `directory`, or start a chain in an empty one. A directory that is refused is not changed.

        With `seen` it is reopened: no new chain is started, and it must be the chain that had this head. `begun` is the
        file that says that there is a chain, if there is one: then none is started either. `board` shows the head.
        Raises `DirectoryInUse`, `WrongFormat`, `WrongGenesis`, `ChainMissing`, `Corrupt` or `StoreUnavailable`.
        """
        if seen is not None:
            check_present(directory)
        elif begun is not None and not holds_chain(directory):
            # Not even the lock: what is there may be the place where the disk belongs.
            raise _missing(directory, begun)
        lock = DirectoryLock.acquire(directory)
        watermark: Watermark | None = None
        database: Database | None = None
        try:
            check_room(directory)
            if seen is not None:
                check_parts(parts_to_open(directory))
            found = inspect(directory, genesis)
            # Nothing was changed up to here.
            if found is None:
                if seen is not None:
                    raise StoreUnavailable(f"the chain in {directory} is gone: bring it back; no new one is started")
                if begun is not None:
                    raise _missing(directory, begun)
                _begin(directory)
            # Complete a decided revert first, whatever ended the node: from here on only the snapshot is seen.
            reverts = finish_revert(directory)
            watermark = Watermark.open(watermark_path(directory))
            database, chain = _open_database(directory, genesis, found)
            store = cls(directory, genesis, lock, database, watermark, chain, board or Board())
            if seen is not None and reverts <= seen.reverts:
                store._check_same_chain(seen)
            return store
        except BaseException:
            if database is not None:
                database.close()
            if watermark is not None:
                watermark.close()
            lock.release()
            raise

    def account(self, address: Address) -> Account:
        return self._recent[address].account

    def place(self, address: Address) -> Place | None:
        return self._recent[address].place

    def find_below(self, address: Address) -> Address | None:
        below = self._database.keys_between(keys.ACCOUNTS, b"", address, 1, False)
        below = below or self._database.keys_between(keys.ACCOUNTS, b"", keys.LAST_VERSION_KEY, 1, False)
        return keys.decode_version_key(below[0])[0] if below else None

    def find_next(self, address: Address) -> Address:
        """The address of the next account after one that exists; after the last one comes the first."""
        behind = keys.after_versions(address)
        following = self._database.keys_between(keys.ACCOUNTS, behind, keys.LAST_VERSION_KEY, 1, True)
        following = following or self._database.keys_between(keys.ACCOUNTS, b"", behind, 1, True)
        return keys.decode_version_key(following[0])[0]

    def walk_versions(self) -> RocksCursor:
        """Over the versions of all accounts: by address, the newest of each first."""
        return self._database.cursor(keys.ACCOUNTS)

    def prepare(self, outcome: BlockOutcome) -> Steps[PreparedBlock]:
        """Collect all that `commit` writes of a block. Nothing is written or changed yet."""
        batch = WriteBatch(self._database)
        yield from self._add_block(batch, outcome)
        known = yield from self._add_versions(batch, outcome)
        return PreparedBlock(outcome, batch, known)

    def commit(
        self,
        outcome: BlockOutcome,
        absent: Sequence[bytes] | None = None,
        signed: BlockSignature | None = None,
        prepared: PreparedBlock | None = None,
    ) -> None:
        """Write a block, its accounts and indexes to disk, atomically. Raises `StoreUnavailable`.

        `absent` are the validators that did not vote on the block before, if it was voted on. `signed` is there exactly
        on a chain whose node makes its blocks alone. `prepared` is what `prepare` gave, if that was done before.
        """
        header = outcome.block.header
        assert header.previous_hash == self.head_hash, f"block {header.height} does not follow the head"
        assert (signed is None) == (self.genesis.signer is None), "a block must be signed by who genesis says"
        prepared = prepared or finish(self.prepare(outcome))
        batch = prepared.batch
        if signed is not None:
            batch.put(keys.SIGNATURES, keys.encode_height(header.height), signed.signature)
            if signed.step is not None:
                batch.put(keys.STEPS, keys.encode_height(header.height + 1), msgspec.json.encode(signed.step))
        if absent is not None:
            self.missed_votes.put(batch, header.height, absent)
        self._write(prepared)
        if absent is not None:
            self.missed_votes.add(absent)

    def add_step(self, step: Step) -> None:
        """Keep a change of validators, forever. Raises `StoreUnavailable`."""
        batch = WriteBatch(self._database)
        batch.put(keys.STEPS, keys.encode_height(signed_height(step.signed)), msgspec.json.encode(step))
        self._database.write(batch)

    def probe(self) -> None:
        """Write, sync and read back, and check free space. Raises `StoreUnavailable` or `Corrupt`."""
        self.check_room()
        self._probes += 1
        written = keys.encode_height(self._probes)
        batch = WriteBatch(self._database)
        batch.put(keys.META, keys.PROBE_KEY, written)
        self._database.write(batch)
        if self._database.get(keys.META, keys.PROBE_KEY) != written:
            raise Corrupt("the chain's store does not give back what was just written")

    def check_room(self) -> None:
        """Check that the disk is not about to be full. Raises `StoreUnavailable`."""
        check_room(self.directory)

    def checkpoint(self, path: Path) -> None:
        """Copy the chain as of now to `path`, which must not exist. The copy opens like the original."""
        try:
            make_directory(path.parent)
            path.mkdir(mode=0o700)
            self._database.checkpoint(chain_path(path))
            chain_path(path).chmod(0o700)
            # Its journal is made later.
            bounds = StoreBounds(self.visible, self.base, journal_start=0, journal_end=0)
            Watermark.create(watermark_path(path), bounds)
            # Last, so that an unfinished copy has no FORMAT file and is refused.
            mark_format(path)
            sync_directory(path.parent)
        except OSError as failure:
            raise StoreUnavailable(f"cannot copy the chain to {path}: {failure}") from failure

    # Where the chain starts here: at genesis, until older blocks are pruned, or after a snapshot was restored.

    def prune(self, base: int, pause: Pause) -> None:
        """Remove the blocks below `base`, or continue with that, and give their disk space back.

        May run in a thread while blocks are committed.
        """
        if base > self.base:
            self._raise_base(base)
        # First: an earlier process may have removed blocks, and ended before it gave their space back.
        self._compaction.give_back(pause)
        for _ in remove_blocks(self._database, self.base, pause):
            self._compaction.give_back(pause)

    @property
    def compactions(self) -> int:
        """How often files of removed blocks were replaced. Followers that then catch up release the old ones."""
        return self._compaction.merges

    def stop_compaction(self) -> None:
        """Let `prune` in another thread return soon. The chain must then be closed."""
        self._database.stop_compaction()

    def _raise_base(self, height: int) -> None:
        """Show nothing below `height` any more."""
        assert height <= self.visible, f"the base cannot be {height} when the head is {self.visible}"
        batch = WriteBatch(self._database)
        batch.put(keys.META, keys.BASE_KEY, keys.encode_height(height))
        # Not synced: the removals come later in the same log, so they cannot survive without this.
        self._database.write(batch, sync=False)
        self.base = height
        self.watermark.tell_oldest(height)

    def begin_restore(self, manifest: Manifest, trusted: BlockHash) -> Restore:
        """Begin to restore a snapshot whose block has the hash `trusted`, instead of the chain's first block.

        Nothing of it is visible before `finish_restore`. Raises `InvalidSnapshot`.
        """
        if self.visible != self.base:
            raise InvalidSnapshot(
                f"{self.directory} holds the blocks up to {self.visible}: a snapshot needs an empty directory"
            )
        restore = Restore(self._database, manifest, trusted, self.genesis)
        if restore.height <= self.visible:
            raise InvalidSnapshot(f"the snapshot is of block {restore.height}; block {self.visible} is here already")
        try:
            check_room(self.directory, restore.room_bytes)
        except StoreUnavailable as failure:
            raise InvalidSnapshot(f"the snapshot does not fit: {failure.detail}") from failure
        self.clear_restore()
        batch = WriteBatch(self._database)
        batch.put(keys.META, keys.RESTORE_KEY, keys.encode_height(restore.height))
        self._database.write(batch)
        return restore

    def clear_restore(self, pause: Pause = lambda: None) -> None:
        """Remove what does not belong to the head, if there was a restore: its own parts, or all that was before it.

        May run in a thread, but not while blocks are committed.
        """
        if self._database.get(keys.META, keys.RESTORE_KEY) is not None:
            keep_only(self._database, self.visible, pause)

    def finish_restore(self, restore: Restore, oldest: OldestBlock = OF_A_PEER) -> None:
        """Make the snapshot's block the head; `clear_restore` must follow before a block is added.

        Raises `InvalidSnapshot` when the state is not what its header says.
        """
        outcome, tree = restore.outcome()
        governance = outcome.governance
        height = outcome.block.header.height
        batch = WriteBatch(self._database)
        batch.put(keys.META, keys.BASE_KEY, keys.encode_height(height))
        batch.put(keys.META, keys.CLEARED_KEY, keys.encode_height(height))
        for engine_height, step in restore.steps:
            batch.put(keys.STEPS, keys.encode_height(engine_height), step)
        if governance is not None and not oldest.changes_governance:
            self._add_governance(batch, height - 1, governance)
            outcome = msgspec.structs.replace(outcome, governance=None)
        outcome = msgspec.structs.replace(outcome, balances=oldest.balances)
        oldest.add_to(batch, height)
        finish(self._add_block(batch, outcome))
        self._database.write(batch)
        self.governance = governance
        self.missed_votes = MissedVotes.load(self._database, height)
        # The base first: workers must not look for the blocks in between.
        self.base = height
        self.watermark.tell_oldest(height)
        mark = TreeMark(height, outcome.block.hash, tree.size)
        self._take_tree(RecoveredTree(tree, None, tree.size), mark)
        self._show(outcome)
        self._recent = AccountCache(CACHED_ACCOUNTS, self._load)

    # The file that brings the state tree back at the next start.

    @property
    def is_tree_due(self) -> bool:
        """Whether the file has become too old. May be called in a thread."""
        return self._tree_file.is_due

    def save_tree(self, pause: Pause = lambda: None) -> None:
        """Write the file, unless it is of the head. May run in a thread while blocks are committed.

        Raises `StoreUnavailable`; the former file is then as it was.
        """
        if not self._tree_file.is_current:
            self._tree_file.save(self.tree.levels[0], pause)

    def _take_tree(self, found: RecoveredTree, mark: TreeMark) -> None:
        # On a network a proof is of a block below the head.
        self.tree = StateTree(found.tree.levels, KEPT_TREES if self.genesis.validators else 0)
        self._tree_file = TreeFile(tree_path(chain_path(self.directory)), mark, found.saved, found.age)

    def close(self) -> None:
        """Close the directory. After a clean stop there is no log to replay."""
        self._database.close()
        self.watermark.close()
        self._lock.release()

    def _write(self, prepared: PreparedBlock) -> None:
        self._database.write(prepared.batch)
        self._show(prepared.outcome)
        self._recent.keep(prepared.known)
        self._relink(prepared.outcome.state.relinked)

    def _relink(self, places: Mapping[Address, Place]) -> None:
        """Put the new next addresses into the cache: a block that is built on this one asks for them."""
        for address, place in places.items():
            self._recent[address] = msgspec.structs.replace(self._recent[address], place=place)

    def _show(self, outcome: BlockOutcome) -> None:
        """Make a block that is on disk the head."""
        block = outcome.block
        height = block.header.height
        # After the block's sync, so that it never claims too much; before the announcement, so that the loss of an
        # announced block is always noticed.
        self._tell(height)
        self.visible, self.head_header, self.head_hash = height, block.header, block.hash
        self.tree.apply(outcome.state.tree)
        changed = len(outcome.state.tree.levels[0]) if outcome.state.tree.levels else 0
        self._tree_file.note(TreeMark(height, block.hash, self.tree.size), changed)
        self.history = outcome.history
        self.governance = outcome.governance or self.governance
        if outcome.changes_state:
            self.state_block_hash = block.hash

    def _tell(self, height: int) -> None:
        """Show workers that a block is on disk, before anybody is told."""
        # The board first: a worker that catches up goes by the watermark, and one that goes by the board must not show
        # less. If the watermark cannot be written, or the node is killed, the block is there at the next opening.
        self.board.show_head(height)
        self.watermark.advance(height)

    def _add_block(self, batch: WriteBatch, outcome: BlockOutcome) -> Steps[None]:
        block = outcome.block
        height = block.header.height
        key = keys.encode_height(height)
        batch.put(keys.META, keys.HEAD_KEY, keys.encode_head(StoredHead(height, block.hash)))
        if outcome.changes_state:
            batch.put(keys.META, keys.STATE_BLOCK_KEY, block.hash)
        if outcome.governance is not None:
            self._add_governance(batch, height, outcome.governance)
        if outcome.balances:
            batch.put(keys.META, keys.balances_key(height), keys.encode_balances(outcome.balances))
        batch.put(keys.HEADERS, key, keys.encode_stored_header(block.hash, block.header))
        batch.put(keys.BLOCK_INDEX, block.hash, key)
        if outcome.state.change_leaves:
            batch.put(keys.CHANGES, key, b"".join(outcome.state.change_leaves))
        for level, index, node in outcome.history_nodes:
            batch.put(keys.HISTORY, keys.encode_history_key(level, index), node)
        hashes = [tx.hash for tx in block.txs]
        batch.put(keys.TX_HASHES, key, b"".join(hashes))
        yield
        for chunk in range(keys.chunk_count(len(hashes))):
            start = chunk * keys.CHUNK_RECORDS
            records = list(map(encode_record, block.txs[start : start + keys.CHUNK_RECORDS]))
            batch.put(keys.TXS, keys.encode_location(height, chunk), keys.encode_chunk(records))
            yield
        # Not by pairs, which cost more to make and to sort.
        positions = sorted(range(len(hashes)), key=hashes.__getitem__)
        yield
        for group in in_groups(positions):
            batch.put_all(
                keys.TX_INDEX, [(hashes[position], keys.encode_location(height, position)) for position in group]
            )
            yield
        if keys.holds_data(block.header):
            references = [(reference, b"") for reference in keys.reference_keys(height, enumerate(block.txs))]
            yield from batch.put_sorted_steps(keys.REFERENCES, [(key, b""), *references])
            batch.put(keys.META, keys.DATA_BLOCK_KEY, key)

    def _add_governance(self, batch: WriteBatch, height: int, governance: Governance) -> None:
        record = encode_governance(governance)
        batch.put(keys.META, keys.GOVERNANCE_KEY, record)
        batch.put(keys.META, keys.governance_key(height), record)

    def _add_versions(self, batch: WriteBatch, outcome: BlockOutcome) -> Steps[dict[Address, CachedAccount]]:
        """Add a version of every account that the block touches; returns what is then known of them."""
        height = outcome.block.header.height
        txs = outcome.block.txs
        # Fees (and balances from genesis) are not part of an account's history.
        uses = yield from keys.uses_of(txs)
        senders, recipients = {tx.sender for tx in txs}, {tx.to for tx in txs}
        yield
        suffix = keys.version_suffix(height)
        versions: list[tuple[bytes, bytes]] = []
        after: dict[Address, CachedAccount] = {}
        recent, accounts, encode_version, index = self._recent, outcome.accounts, keys.encode_version, 0
        for group in in_groups(list(outcome.state.places.items())):
            for address, place in group:
                known, account = recent[address], accounts[address]
                sent, received = known.last_sent, known.last_received
                touched = NEVER if known.place is None else known.place.touched
                version = encode_version(account, sent, received, touched, place.number, index)
                versions.append((address + suffix, version + uses.get(address, b"")))
                after[address] = CachedAccount(
                    account,
                    height if address in senders else sent,
                    height if address in recipients else received,
                    place,
                )
                index += 1
            yield
        yield from batch.put_sorted_steps(keys.ACCOUNTS, versions)
        return after

    def _load(self, address: Address) -> CachedAccount:
        # Not by `find_version` and `find_next`: one walk is cheaper than two, and at a million accounts most are not
        # in the cache.
        newest, behind = keys.version_key(address, max(self.visible, 0)), keys.after_versions(address)
        entry, following = self._database.first_and_behind(keys.ACCOUNTS, newest, address, behind)
        if entry is None:
            return CachedAccount(EMPTY_ACCOUNT, NEVER, NEVER, None)
        version = keys.decode_version(*entry)
        next_address = self.find_next(address) if following is None else keys.decode_version_key(following)[0]
        place = Place(version.number, version.touched, next_address)
        return CachedAccount(version.account, version.latest(keys.SENT), version.latest(keys.RECEIVED), place)

    def _start_chain(self) -> None:
        outcome = genesis_outcome(self.genesis)
        empty = StateTree.from_leaves(b"")
        self._take_tree(RecoveredTree(empty, None, 0), TreeMark(0, outcome.block.hash, 0))
        prepared = finish(self.prepare(outcome))
        prepared.batch.put(keys.META, keys.GENESIS_KEY, self.identity.genesis)
        prepared.batch.put(keys.META, keys.STATE_BLOCK_KEY, outcome.block.hash)
        self.state_block_hash = outcome.block.hash
        self._write(prepared)

    def _resume(self, found: FoundChain) -> None:
        """Continue the chain at its head, which was checked."""
        self.visible = found.head.height
        self._take_tree(found.tree, TreeMark(found.head.height, found.head.hash, found.tree.tree.size))
        self.history = found.history
        self.head_hash, self.head_header = found.head.hash, found.header
        self.state_block_hash = found.state_block_hash
        self.governance = found.governance
        self.missed_votes = MissedVotes.load(self._database, self.visible)
        self.base = found.base
        self.watermark.tell_oldest(self.base)
        # The opening has written and synced what it recovered from the log, so the watermark may include it.
        self._tell(self.visible)
        # If the node ended during a restore: before its last step nothing of it counts, after it everything.
        self.clear_restore()

    def _check_same_chain(self, seen: SeenHead) -> None:
        """Check that it is the chain that had this head.

        Raises `StoreUnavailable`, which is tried again: the right one may still come back.
        """
        if self.visible < seen.height:
            raise StoreUnavailable(
                f"{self.directory} holds an older chain: it ends at block {self.visible}, "
                f"though this node has had block {seen.height} on disk"
            )
        found = self.find_header(seen.height)
        # Not found: older blocks were pruned, or a snapshot was restored.
        if found is not None and found[0] != seen.hash:
            raise StoreUnavailable(f"{self.directory} holds another chain: its block {seen.height} is not this node's")


def _missing(directory: Path, begun: Path) -> ChainMissing:
    return ChainMissing(
        f"{directory} holds no chain, though {begun} says that this node has begun one: mount its disk or restore a "
        f"backup; to start over on purpose, remove {begun}"
    )


def _begin(directory: Path) -> None:
    """Make what comes before RocksDB's first file: FORMAT, then the watermark. `inspect` has found no chain."""
    path = watermark_path(directory)
    try:
        if not is_there(format_path(directory)):
            mark_format(directory)
        # RocksDB would leave the permissions to the umask.
        make_directory(chain_path(directory))
        if not is_there(path):
            Watermark.create(path, NOTHING_YET)
    except OSError as failure:
        raise StoreUnavailable(f"cannot begin a chain in {directory}: {failure}") from failure


def _open_database(directory: Path, genesis: Genesis, found: FoundStore | None) -> tuple[Database, FoundChain | None]:
    """Open RocksDB as it was found, or make it; and the chain in it, if there is one."""
    path = chain_path(directory)
    database = Database.create(path) if found is None else Database.open_primary(path, strict=found.is_log_whole)
    try:
        chain = find_chain(database, path, -1, genesis) if found is None else found.chain
        stored = database.get(keys.META, keys.HEAD_KEY)
        if stored != (None if chain is None else keys.encode_head(chain.head)):
            raise Corrupt(f"the chain's store at {path} is not what was read of it a moment ago")
    except BaseException:
        database.close()
        raise
    return database, chain
