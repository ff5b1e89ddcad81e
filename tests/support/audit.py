"""A full check of the store: every block that is kept applied again, and every stored byte compared with the result.

Where the blocks start after genesis, the state that they start from is checked against the first one's state root.
"""

from hashlib import blake2b

from cairn.domain.certificates import check_certificate, engine_chain_id, first_validators, lone_certificate
from cairn.domain.errors import Corrupt, InvalidBlock, InvalidProof, Rejected
from cairn.domain.genesis import Genesis, dev_genesis, genesis_outcome
from cairn.domain.governance import Governance, decode_governance, encode_governance
from cairn.domain.headers import block_hash
from cairn.domain.history import HistoryNode, load_history
from cairn.domain.merkle import EMPTY_ROOT, tx_root
from cairn.domain.state_tree import Place, StateTree, StateUpdate, TreeUpdate, leaves_in_order, record_leaf
from cairn.domain.transactions import decode_record, encode_record, rebuild_tx
from cairn.domain.transition import BlockOutcome, GovernanceChange
from cairn.domain.types import Address, Rules, SealedBlock, Tx
from cairn.store import keys
from cairn.store.chain import ChainStore
from cairn.store.reader import ChainReader
from cairn.store.rocks import Database
from tests.support.disk import database_of
from tests.support.memory_state import MemoryState
from tests.support.naive_trees import check_trees
from tests.support.verified_block import verify_block


def audit(chain: ChainStore) -> int:
    """Replay every block that is kept and compare all that is stored. Takes as long as the chain is.

    Returns the height that it started from. Raises `Corrupt`.
    """
    base = chain.base
    replayed = _replay(database_of(chain), base, chain.visible, chain.genesis)
    if replayed.tree.levels != chain.tree.levels:
        raise Corrupt(f"the state tree is not the one that follows from the blocks up to {chain.visible}")
    if replayed.history != chain.history:
        raise Corrupt(f"the history is not the one that follows from the blocks up to {chain.visible}")
    check_trees(chain)
    _check_signatures(chain)
    return base


def _check_signatures(chain: ChainStore) -> None:
    """A chain that one node makes alone has one for each block but the first; any other has none."""
    first = max(chain.base, 1)
    found = [keys.decode_height(key) for key, _ in database_of(chain).scan(keys.SIGNATURES)]
    expected = [] if chain.genesis.signer is None else list(range(first, chain.visible + 1))
    if [height for height in found if height >= first] != expected:
        raise Corrupt(f"the blocks {first} to {chain.visible} have not one signature each")
    genesis, steps = chain.genesis, chain.steps()
    chain_id, first_set = engine_chain_id(genesis), first_validators(genesis)
    for height in expected:
        block, signature = chain.find_header(height), chain.find_signature(height)
        assert block is not None
        assert signature is not None
        try:
            check_certificate(lone_certificate(block[1], signature, chain_id, first_set, steps), genesis)
        except InvalidProof as refusal:
            raise Corrupt(f"the signature of block {height} is not valid: {refusal}") from refusal


def _replay(database: Database, base: int, head_height: int, genesis: Genesis) -> "_Replay":
    """Replay the chain from its base up to its head; returns what it leads to. Raises `Corrupt` at a difference."""
    replay = _Replay(database, base, head_height)
    if base == 0:
        outcome = genesis_outcome(genesis)
        replay.compare(outcome)
    else:
        outcome = replay.load_base(genesis.rules)
    governance = outcome.governance
    for height in range(base + 1, head_height + 1):
        parent = outcome.block
        block = replay.load_block(height, genesis.rules)
        change = replay.load_governance_change(height, governance)
        balances = replay.load_balances(height, genesis)
        try:
            outcome = verify_block(parent.header, parent.hash, replay, block, genesis.rules, change, balances)
        except InvalidBlock as error:
            raise Corrupt(f"the stored chain breaks its own rules: {error.detail}") from error
        replay.compare(outcome)
        governance = outcome.governance or governance
    replay.compare_totals()
    return replay


class _Replay(MemoryState):
    """The state as the replay has it, compared step by step with what is stored."""

    def __init__(self, database: Database, base: int, head_height: int) -> None:
        super().__init__()
        self._database = database
        self._base = base
        self._chain = ChainReader(database, head_height, base)
        self._last: dict[Address, tuple[int, int]] = {}
        """The heights at which an account last sent, and received."""
        self._totals = dict.fromkeys((keys.HEADERS, keys.BLOCK_INDEX, keys.TX_HASHES, keys.TXS), 0)
        self._totals |= dict.fromkeys((keys.TX_INDEX, keys.ACCOUNTS, keys.REFERENCES, keys.CHANGES), 0)

    def load_base(self, rules: Rules) -> BlockOutcome:
        """The oldest block that is kept, with the state that it left, checked against its header."""
        base = self._base
        block = self.load_block(base, rules)
        hashes = [tx.hash for tx in block.txs]
        self._expect(base, "hash", block.hash, block_hash(block.header))
        self._expect(base, "root of the transactions", block.header.tx_root, tx_root(hashes))
        self._compare_block(block)
        versions = dict(self._chain.accounts_at(base))
        ordered = sorted(versions)
        for address, following in zip(ordered, [*ordered[1:], *ordered[:1]], strict=True):
            version = versions[address]
            self.accounts[address] = version.account
            self.places[address] = Place(version.number, version.touched, following)
            self._last[address] = version.latest(keys.SENT), version.latest(keys.RECEIVED)
        governance = self._governance_at(base)
        record = record_leaf(None if governance is None else encode_governance(governance))
        leaves = leaves_in_order(
            {address: (self.accounts[address], self.places[address]) for address in ordered}, record
        )
        self.tree = StateTree.from_leaves(leaves)
        self._expect(base, "state root", self.tree.root, block.header.state_root)
        before = load_history(self._chain.read_history_node, base)
        self._expect(base, "history root", before.root, block.header.history_root)
        self.history, nodes = before.append(block.hash)
        self._compare_history(base, nodes)
        update = StateUpdate(TreeUpdate(self.tree.size, self.tree.root, []), EMPTY_ROOT, [], {}, {})
        return BlockOutcome(block, {}, update, self.history, nodes, governance)

    def _compare_history(self, height: int, nodes: list[HistoryNode]) -> None:
        for level, index, node in nodes:
            self._expect(height, "node of the history", self._chain.find_history_node(level, index), node)

    def _governance_at(self, height: int) -> Governance | None:
        """The validators as of `height`. Their changes are few, so all of them are looked at."""
        found: bytes | None = None
        for key, value in self._database.scan(keys.META):
            # Keys end in heights, so the last one that fits is the newest.
            if key[:-8] == keys.GOVERNANCE_KEY and key <= keys.governance_key(height):
                found = value
        return None if found is None else decode_governance(found)

    def load_block(self, height: int, rules: Rules) -> SealedBlock:
        """A stored block, with the signature of every transaction checked."""
        found = self._chain.find_header(height)
        if found is None:
            raise Corrupt(f"block {height} has no header in the store")
        txs = []
        for record in self._chain.records(height):
            tx = decode_record(record)
            try:
                again = rebuild_tx(tx, rules.chain_id, rules.gas_price)
            except Rejected as error:
                raise Corrupt(f"block {height}: transaction 0x{tx.hash.hex()} is not valid: {error.detail}") from error
            if encode_record(again) != record:
                raise Corrupt(
                    f"block {height}: transaction 0x{tx.hash.hex()} is stored under a hash that is not its own"
                )
            txs.append(tx)
        return SealedBlock(found[1], found[0], tuple(txs))

    def load_governance_change(self, height: int, before: Governance | None) -> GovernanceChange | None:
        """What a block did to the validators; that it was allowed to, the engine's own record of it shows."""
        stored = self._database.get(keys.META, keys.governance_key(height))
        return None if stored is None or before is None else (before, decode_governance(stored))

    def load_balances(self, height: int, genesis: Genesis) -> dict[Address, int] | None:
        """What a block of a dev chain sets balances to; on any other chain money never comes from nowhere."""
        stored = self._database.get(keys.META, keys.balances_key(height))
        if stored is None:
            return None
        if genesis != dev_genesis():
            raise Corrupt(f"block {height} sets balances, which only a block of a dev chain may")
        return keys.decode_balances(stored)

    def compare(self, outcome: BlockOutcome) -> None:
        """Compare all that the block leaves in the store, and move the state on."""
        block = outcome.block
        height = block.header.height
        self._compare_block(block)
        self._compare_versions(height, block.txs, outcome)
        self._compare_history(height, outcome.history_nodes)
        self._expect(
            height, "list of touched accounts", self._chain.change_leaves(height), b"".join(outcome.state.change_leaves)
        )
        self._totals[keys.CHANGES] += bool(outcome.state.change_leaves)
        self.apply(outcome)
        for family in (keys.HEADERS, keys.BLOCK_INDEX, keys.TX_HASHES):
            self._totals[family] += 1
        self._totals[keys.TXS] += keys.chunk_count(len(block.txs))
        self._totals[keys.TX_INDEX] += len(block.txs)
        with_data = [tx for tx in block.txs if tx.data]
        self._totals[keys.REFERENCES] += sum(len({tx.sender, tx.to}) for tx in with_data) + bool(with_data)

    def _compare_block(self, block: SealedBlock) -> None:
        chain = self._chain
        height = block.header.height
        self._expect(height, "header", chain.find_header(height), (block.hash, block.header))
        self._expect(height, "entry in the block index", chain.find_height(block.hash), height)
        hashes = b"".join(tx.hash for tx in block.txs)
        self._expect(height, "list of transaction hashes", chain.tx_hashes(height), hashes)
        for position, tx in enumerate(block.txs):
            self._expect(height, "entry in the transaction index", chain.find_location(tx.hash), (height, position))
            for address in {tx.sender, tx.to} if tx.data else ():
                key = blake2b(address + tx.data, digest_size=8).digest() + keys.encode_location(height, position)
                self._expect(height, "reference", self._database.get(keys.REFERENCES, key), b"")

    def _compare_versions(self, height: int, txs: tuple[Tx, ...], outcome: BlockOutcome) -> None:
        uses: dict[Address, list[int]] = {address: [] for address in sorted(outcome.accounts)}
        for position, tx in enumerate(txs):
            for address in {tx.sender, tx.to}:
                how = keys.SENT * (address == tx.sender) + keys.RECEIVED * (address == tx.to)
                uses.setdefault(address, []).append(4 * position + how)
        for index, (address, used) in enumerate(uses.items()):
            key = keys.version_key(address, height)
            value = self._database.get(keys.ACCOUNTS, key)
            sent, received = self._last.get(address, (keys.NEVER, keys.NEVER))
            before, number = self.places.get(address), outcome.state.places[address].number
            touched = keys.NEVER if before is None else before.touched
            account = outcome.accounts[address]
            expected = keys.Version(height, account, sent, received, touched, number, index, tuple(used))
            found = None if value is None else keys.decode_version(key, value)
            self._expect(height, f"account 0x{address.hex()}", found, expected)
            sends, receives = (any(use & how for use in used) for how in (keys.SENT, keys.RECEIVED))
            self._last[address] = height if sends else sent, height if receives else received
        self._totals[keys.ACCOUNTS] += len(uses)

    def compare_totals(self) -> None:
        """All that must be there is there; now nothing else may be, but for what is yet to be pruned."""
        first = self._base + 1 if self._base else 0
        for family, expected in self._totals.items():
            found = sum(1 for key, value in self._database.scan(family) if _height_of(family, key, value) >= first)
            if found != expected:
                raise Corrupt(f"the store has {found} entries in {family}, and {expected} follow from its blocks")

    def _expect(self, height: int, what: str, found: object, expected: object) -> None:
        if found != expected:
            raise Corrupt(f"block {height}: the stored {what} is {found!r}, but {expected!r} follows from the blocks")


def _height_of(family: str, key: bytes, value: bytes) -> int:
    """The height of the block that an entry of any family but `meta` belongs to."""
    if family == keys.ACCOUNTS:
        return keys.decode_version_key(key)[1]
    if family == keys.REFERENCES:
        return keys.height_of_reference(key)
    return keys.decode_height((value if family in (keys.BLOCK_INDEX, keys.TX_INDEX) else key)[:8])
