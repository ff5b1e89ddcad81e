"""Executes blocks again, one after the other, and compares all that they left in the store.

It starts from genesis, or from the accounts as of a block, which that block's state root covers. The state is kept in
memory: about 500 bytes an account.

Behind a block whose outcome is another than its header says, the state goes on with what is stored of that block, if
the header's state root covers it: so one damaged record is found once, and those after it are found too.
"""

from collections import Counter
from collections.abc import Sequence

from sortedcontainers import SortedList

from cairn.domain.errors import Corrupt, InvalidBlock, NodeError
from cairn.domain.genesis import Genesis, dev_genesis, genesis_outcome
from cairn.domain.governance import Governance, decode_governance, encode_governance
from cairn.domain.history import History, HistoryNode, load_history
from cairn.domain.merkle import leaf_hash, root_of
from cairn.domain.state_tree import (
    Place,
    StateUpdate,
    change_leaf,
    leaves_in_order,
    record_leaf,
    update_state,
)
from cairn.domain.steps import finish
from cairn.domain.transition import BlockOutcome, build_block
from cairn.domain.types import EMPTY_ACCOUNT, Account, Address, BlockHash, BlockHeader, Tx
from cairn.store import keys
from cairn.store.chain import CachedAccount
from cairn.store.keys import NEVER
from cairn.store.reader import ChainReader
from cairn.store.rocks import Database
from cairn.store.verification.blocks import read_chunks
from cairn.store.verification.families import BlockSums
from cairn.store.verification.findings import Findings
from cairn.store.verification.replayed_tree import ReplayedTree

UNKNOWN = CachedAccount(EMPTY_ACCOUNT, NEVER, NEVER, None)


class ReplayedState:
    """All accounts in memory, as `build_block` needs them."""

    def __init__(self) -> None:
        self.known: dict[Address, CachedAccount] = {}
        self._ordered: SortedList[Address] = SortedList()
        self.tree = ReplayedTree.from_leaves(b"")
        self.history = History()

    def account(self, address: Address) -> Account:
        return self.known.get(address, UNKNOWN).account

    def place(self, address: Address) -> Place | None:
        return self.known.get(address, UNKNOWN).place

    def find_below(self, address: Address) -> Address | None:
        below = next(self._ordered.irange(maximum=address, inclusive=(False, False), reverse=True), None)
        return below or (self._ordered[-1] if self._ordered else None)

    def load(self, versions: dict[Address, keys.Version], record: bytes) -> None:
        """Begin with all accounts as they are stored; they come in the order of addresses."""
        addresses = list(versions)
        for address, following in zip(addresses, [*addresses[1:], *addresses[:1]], strict=True):
            version = versions[address]
            place = Place(version.number, version.touched, following)
            sent, received = version.latest(keys.SENT), version.latest(keys.RECEIVED)
            self.known[address] = CachedAccount(version.account, sent, received, place)
        self._ordered = SortedList(addresses)
        leaves = {address: (known.account, known.place) for address, known in self.known.items() if known.place}
        self.tree = ReplayedTree.from_leaves(leaves_in_order(leaves, record))

    def take(self, after: dict[Address, CachedAccount], update: StateUpdate) -> None:
        self._ordered.update(address for address in after if address not in self.known)
        self.known |= after
        for address, place in update.relinked.items():
            known = self.known[address]
            self.known[address] = CachedAccount(known.account, known.last_sent, known.last_received, place)
        self.tree.apply(update.tree)


class Replay:
    """The execution of all blocks from `start` on."""

    def __init__(self, database: Database, genesis: Genesis, start: int, last: int, found: Findings) -> None:
        """With `start` 0 from genesis on; otherwise from the state after that block on."""
        self._database = database
        self._genesis = genesis
        self._reader = ChainReader(database, last, start)
        self._found = found
        self.start, self.last = start, last
        self.height = start - 1
        """Of the last block that was executed."""
        self.versions = BlockSums(start, last)
        """Of the accounts, as they are stored. To be filled before the blocks are executed."""
        self.state = ReplayedState()
        self._header: BlockHeader
        self.hash: BlockHash
        self.governance: Governance | None = None
        self.state_block: BlockHash | None = None
        """The newest block that changed the state, if one of these did."""
        self.data_block: int | None = None
        """The newest block with data, if one of these has any."""
        self.expected: Counter[str] = Counter()
        """By column family: how many entries the executed blocks have, in those that follow from execution."""

    def begin(self) -> None:
        """Load the state to start from. Raises `Corrupt` if nothing can be executed on it."""
        if self.start:
            self._load_state()
        else:
            outcome = genesis_outcome(self._genesis)
            stored = self._read_header(0)
            if stored[0] != outcome.block.hash:
                self._found.add(keys.HEADERS, f"its hash is 0x{stored[0].hex()}, which is not that of genesis", 0)
            self._compare(outcome)
            self._governance_is(outcome.governance)
            self.state_block = outcome.block.hash
        self.height = self.start

    def advance(self) -> bool:
        """Execute the next block, and compare; returns whether the one after it can be executed."""
        height = self.height + 1
        try:
            stored_hash, header = self._read_header(height)
            txs = [tx for _, part in read_chunks(self._database, height) for tx in part]
            outcome = self._execute(height, header, txs)
            if outcome.block.hash != stored_hash:
                raise InvalidBlock(_difference(header, outcome.block.header))
        except NodeError as damage:
            self._found.add("execution", damage.detail, height)
            self.state.tree.undo()
            if not self._adopt(height):
                return False
            self.height = height
            return True
        self._compare(outcome)
        self._note(outcome)
        self.height = height
        return True

    def _execute(self, height: int, header: BlockHeader, txs: Sequence[Tx]) -> BlockOutcome:
        stored = self._database.get(keys.META, keys.governance_key(height))
        change = None
        if stored is not None and self.governance is not None:
            change = self.governance, decode_governance(stored)
        given = self._database.get(keys.META, keys.balances_key(height))
        balances = None
        if given is not None:
            if self._genesis.signer != dev_genesis().signer:
                raise Corrupt("it sets balances, which only a block of a dev chain may")
            balances = keys.decode_balances(given)
        before, rules = self._header, self._genesis.rules
        return build_block(
            before, self.hash, self.state, txs, header.timestamp, header.proposer, rules, change, balances
        )

    def _note(self, outcome: BlockOutcome) -> None:
        if outcome.governance is not None:
            self._governance_is(outcome.governance)
        if outcome.changes_state:
            self.state_block = outcome.block.hash
        if keys.holds_data(outcome.block.header):
            self.data_block = outcome.block.header.height

    def _governance_is(self, governance: Governance | None) -> None:
        self.governance = governance or self.governance
        if governance is None:
            return
        height = self._header.height
        if self._database.get(keys.META, keys.governance_key(height)) != encode_governance(governance):
            self._found.add(keys.META, "the validators after it are stored wrong", height)

    def _compare(self, outcome: BlockOutcome) -> None:
        """Compare what the block left in the store, and move the state on."""
        block, found = outcome.block, self._found
        height = block.header.height
        after = self._compare_versions(outcome)
        leaves = b"".join(outcome.state.change_leaves)
        self.expected[keys.CHANGES] += bool(leaves)
        with found.noted(keys.CHANGES, height):
            if (self._database.get(keys.CHANGES, keys.encode_height(height)) or b"") != leaves:
                raise Corrupt("the leaves of the touched accounts are not those that follow from the block")
        self._compare_history(height, outcome.history_nodes)
        self.state.take(after, outcome.state)
        self.state.history = outcome.history
        self._header, self.hash = block.header, block.hash

    def _compare_history(self, height: int, nodes: list[HistoryNode]) -> None:
        self.expected[keys.HISTORY] += len(nodes)
        for level, index, node in nodes:
            with self._found.noted(keys.HISTORY, height):
                if self._reader.find_history_node(level, index) != node:
                    raise Corrupt(f"node {index} of level {level} is not the one that the block makes")

    def _compare_versions(self, outcome: BlockOutcome) -> dict[Address, CachedAccount]:
        """Compare the version of each account that the block touches; returns what is then known of them."""
        txs, height = outcome.block.txs, outcome.block.header.height
        uses = finish(keys.uses_of(txs))
        senders, recipients = {tx.sender for tx in txs}, {tx.to for tx in txs}
        suffix, known = keys.version_suffix(height), self.state.known
        after: dict[Address, CachedAccount] = {}
        entries: list[bytes] = []
        self.expected[keys.ACCOUNTS] += len(outcome.state.places)
        for index, (address, place) in enumerate(outcome.state.places.items()):
            before, account = known.get(address, UNKNOWN), outcome.accounts[address]
            sent, received = before.last_sent, before.last_received
            touched = NEVER if before.place is None else before.place.touched
            version = keys.encode_version(account, sent, received, touched, place.number, index)
            entries.append(address + suffix + version + uses.get(address, b""))
            sends, receives = address in senders, address in recipients
            after[address] = CachedAccount(account, height if sends else sent, height if receives else received, place)
        if not self.versions.is_of(height, entries):
            self._compare_each(height, entries)
        return after

    def _compare_each(self, height: int, entries: list[bytes]) -> None:
        """Find those versions that are stored otherwise."""
        for entry in entries:
            address, key = entry[: keys.ADDRESS_SIZE], entry[: keys.VERSION_KEY_SIZE]
            with self._found.noted(keys.ACCOUNTS, height):
                if (stored := self._database.get(keys.ACCOUNTS, key)) != entry[keys.VERSION_KEY_SIZE :]:
                    raise Corrupt(f"account 0x{address.hex()} is {_version_text(key, stored)}")

    def _read_header(self, height: int) -> tuple[BlockHash, BlockHeader]:
        found = self._reader.find_header(height)
        if found is None:
            raise Corrupt("the header is missing")
        return found

    # A start above genesis.

    def _load_state(self) -> None:
        start, reader = self.start, self._reader
        self.hash, self._header = header_of = self._read_header(start)
        self.governance = self._governance_at(start)
        record = record_leaf(None if self.governance is None else encode_governance(self.governance))
        versions = dict(reader.accounts_at(start))
        self._check_first_versions(versions)
        if sorted(version.number for version in versions.values()) != list(range(1, len(versions) + 1)):
            raise Corrupt(f"the accounts as of block {start} have other numbers than 1 to {len(versions)}")
        self.state.load(versions, record)
        if self.state.tree.root != self._header.state_root:
            raise Corrupt(f"the stored accounts as of block {start} are not those that its header commits to")
        before = load_history(reader.read_history_node, start)
        if before.root != self._header.history_root:
            raise Corrupt(f"the stored history before block {start} is not the one that its header commits to")
        self.state.history, nodes = before.append(header_of[0])
        self._compare_history(start, nodes)
        self.expected.clear()
        leaves = reader.change_leaves(start)
        touched = [leaves[at : at + keys.HASH_SIZE] for at in range(0, len(leaves), keys.HASH_SIZE)]
        is_restored = any(version.index == keys.RESTORED for version in versions.values())
        if (touched or not is_restored) and root_of(touched) != self._header.changes_root:
            self._found.add(keys.CHANGES, "the leaves of the touched accounts are not those of its header", start)

    def _check_first_versions(self, versions: dict[Address, keys.Version]) -> None:
        """Check what the state root does not cover; links to blocks that are gone are not read. Raises `Corrupt`."""
        txs = [tx for _, part in read_chunks(self._database, self.start) for tx in part]
        uses, leaves = finish(keys.uses_of(txs)), self._reader.change_leaves(self.start)
        touched = 0
        for address, version in versions.items():
            links = version.sent_before, version.received_before, version.touched_before
            if version.index == keys.RESTORED:
                is_right = links[:2] == (NEVER, NEVER)
            else:
                is_right = all(NEVER <= link < version.height for link in links)
            if version.height == self.start:
                used = b"".join(map(keys.encode_position, version.uses))
                is_right = is_right and used == uses.get(address, b"")
                if version.index != keys.RESTORED:
                    leaf = leaves[touched * keys.HASH_SIZE : (touched + 1) * keys.HASH_SIZE]
                    is_right = is_right and version.index == touched and self._is_change(address, version, leaf)
                    touched += 1
            if not is_right:
                raise Corrupt(f"account 0x{address.hex()} has a version of block {version.height} that is not right")

    def _is_change(self, address: Address, version: keys.Version, leaf: bytes) -> bool:
        """Whether the block's leaf for the account leads from its version before to this one."""
        before = self._reader.find_version(address, version.height - 1)
        if before is None:
            touched_before, account = None, EMPTY_ACCOUNT
        else:
            touched_before, account = before.touched, before.account
        is_linked = version.touched_before == (NEVER if touched_before is None else touched_before)
        is_same = before is None or before.number == version.number
        change = change_leaf(address, touched_before, account, version.account)
        return is_linked and is_same and leaf_hash(change) == leaf

    def _governance_at(self, height: int) -> Governance | None:
        """The validators as of `height`. Their changes are few, so all of them are looked at."""
        found: Governance | None = None
        for at, governance in self._reader.governance_from(0):
            if at <= height:
                found = governance
        return found

    # Behind a block whose outcome is not what is stored.

    def _adopt(self, height: int) -> bool:
        """Go on with the accounts that the store has of this block, if its header's state root covers them."""
        try:
            stored_hash, header = self._read_header(height)
            versions = {
                address: keys.decode_version(key, value)
                for key, value in self._database.walk(keys.ACCOUNTS)
                for address, at in (keys.decode_version_key(key),)
                if at == height
            }
            stored = self._database.get(keys.META, keys.governance_key(height))
            record = None if stored is None else record_leaf(stored)
            changes = [(address, self.state.account(address), versions[address].account) for address in versions]
            update = update_state(self.state.tree, self.state, height, changes, record)
        except (NodeError, ValueError):
            return False
        if update.tree.root != header.state_root:
            self._found.add("execution", "the blocks behind it cannot be executed: its outcome is not known", height)
            return False
        after = {}
        for address, place in update.places.items():
            version = versions[address]
            sent, received = version.latest(keys.SENT), version.latest(keys.RECEIVED)
            after[address] = CachedAccount(version.account, sent, received, place)
        self.state.take(after, update)
        self.state.history, _ = self.state.history.append(stored_hash)
        self._header, self.hash = header, stored_hash
        if stored is not None:
            self.governance = decode_governance(stored)
        if changes or stored is not None:
            self.state_block = stored_hash
        return True


def _version_text(key: bytes, stored: bytes | None) -> str:
    if stored is None:
        return "missing"
    version = keys.decode_version(key, stored)
    return f"stored otherwise than it follows from the block: {version.account}, number {version.number}"


def _difference(stored: BlockHeader, built: BlockHeader) -> str:
    for field in BlockHeader.__struct_fields__:
        if getattr(stored, field) != getattr(built, field):
            return f"the header's {field} is not what follows from the blocks"
    return "the header is stored with another hash than its own"
