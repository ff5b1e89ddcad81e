"""The four roots of every block that is kept, computed again by the words of docs/formats.md: slowly, from nothing.

It shares no code with the trees of the node, nor with its ledger: balances are counted here, too. What the store keeps
of the trees (leaf hashes of touched accounts, nodes of the history) and what the node has in memory (all nodes of the
state tree) is compared with the result, node by node.
"""

from collections.abc import Sequence
from hashlib import sha256

from cairn.domain.crypto import keccak256
from cairn.domain.errors import Corrupt
from cairn.domain.transactions import decode_record
from cairn.domain.types import BlockHeader
from cairn.store import keys
from cairn.store.chain import ChainStore
from tests.support.disk import database_of

EMPTY = bytes.fromhex("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421")
NEVER = 2**64 - 1

Holding = tuple[int, int]
"""Balance and nonce."""


def hashed_leaf(data: bytes) -> bytes:
    return sha256(b"\x00" + data).digest()


def root_over(hashes: Sequence[bytes]) -> bytes:
    """MTH of RFC 6962 over leaf hashes; of none, what Ethereum has."""
    return _range(hashes, 0, len(hashes)) if hashes else EMPTY


def _range(hashes: Sequence[bytes], start: int, end: int) -> bytes:
    if end - start == 1:
        return hashes[start]
    split = 1
    while 2 * split < end - start:
        split *= 2
    left, right = _range(hashes, start, start + split), _range(hashes, start + split, end)
    return sha256(b"\x01" + left + right).digest()


class NaiveState:
    """All accounts as the blocks so far have left them."""

    def __init__(self) -> None:
        self.record = b""
        """The governance record."""
        self.holdings: dict[bytes, Holding] = {}
        """In the order of creation."""
        self.touched: dict[bytes, int] = {}

    def touch(self, height: int, after: dict[bytes, Holding]) -> list[bytes]:
        """Let a block leave these accounts so; returns the leaf hashes of its changes."""
        leaves = []
        for address in sorted(after):
            before, last = self.holdings.get(address, (0, 0)), self.touched.get(address, NEVER)
            data = address + last.to_bytes(8, "big") + _encoded(before) + _encoded(after[address])
            leaves.append(hashed_leaf(data))
            self.holdings[address], self.touched[address] = after[address], height
        return leaves

    def leaves(self) -> list[bytes]:
        """The leaf hashes by number."""
        ring = sorted(self.holdings)
        following = dict(zip(ring, ring[1:] + ring[:1], strict=True))
        accounts = (
            address + _encoded(holding) + self.touched[address].to_bytes(8, "big") + following[address]
            for address, holding in self.holdings.items()
        )
        return [hashed_leaf(keccak256(self.record)), *map(hashed_leaf, accounts)]


def _encoded(holding: Holding) -> bytes:
    balance, nonce = holding
    return balance.to_bytes(32, "big") + nonce.to_bytes(8, "big")


class NaiveHistory:
    """The tree over all block hashes. What lies below the oldest block that is kept is taken from the store."""

    def __init__(self, chain: ChainStore) -> None:
        self._base = chain.base
        self._stored = {
            (key[0], int.from_bytes(key[1:], "big")): value for key, value in database_of(chain).scan(keys.HISTORY)
        }
        self._hashes: dict[int, bytes] = {}
        self._known: dict[tuple[int, int], bytes] = {}

    def add(self, height: int, block_hash: bytes) -> None:
        self._hashes[height] = block_hash

    def root(self, size: int) -> bytes:
        return self._over(0, size) if size else EMPTY

    def _over(self, start: int, size: int) -> bytes:
        found = self._known.get((start, size))
        if found is None:
            found = self._known[start, size] = self._computed(start, size)
        return found

    def _computed(self, start: int, size: int) -> bytes:
        is_complete = size & (size - 1) == 0
        if is_complete and start + size <= self._base:
            level = size.bit_length() - 1
            return self._stored.get((level, start >> level), b"")
        if size == 1:
            return hashed_leaf(self._hashes[start])
        split = 1
        while 2 * split < size:
            split *= 2
        return sha256(b"\x01" + self._over(start, split) + self._over(start + split, size - split)).digest()

    def check(self, head: int) -> None:
        """Compare every node that the store has, and look for those that it must have. Raises `Corrupt`."""
        for (level, index), node in self._stored.items():
            start, size = index << level, 1 << level
            if start + size > head + 1:
                raise Corrupt(f"the history has node {index} of level {level}, which is of blocks above {head}")
            below = self._stored.get((level - 1, 2 * index)), self._stored.get((level - 1, 2 * index + 1))
            if start + size > self._base:
                expected = self._over(start, size)
            elif level and below[0] is not None and below[1] is not None:
                expected = sha256(b"\x01" + below[0] + below[1]).digest()
            else:
                continue
            if node != expected:
                raise Corrupt(f"node {index} of level {level} of the history is not the one that follows")
        for level in range((head + 1).bit_length()):
            for index in range(-(-self._base >> level), head + 1 >> level):
                if (level, index) not in self._stored:
                    raise Corrupt(f"the history lacks node {index} of level {level}")


def check_trees(chain: ChainStore) -> None:
    """Compare all trees of a chain with what follows by the definitions. Raises `Corrupt` naming what differs."""
    database = database_of(chain)
    state, history = NaiveState(), NaiveHistory(chain)
    for height in range(chain.base, chain.visible + 1):
        found = chain.find_header(height)
        if found is None:
            raise Corrupt(f"block {height} has no header in the store")
        block_hash, header = found
        _expect(height, "history root", header.history_root, history.root(height))
        history.add(height, block_hash)
        txs = [decode_record(record) for record in chain.records(height)]
        _expect(height, "transactions root", header.tx_root, root_over([hashed_leaf(tx.hash) for tx in txs]))
        changed = database.get(keys.META, keys.governance_key(height))
        state.record = state.record if changed is None else changed
        if height == 0:
            leaves = state.touch(0, {address: (wei, 0) for address, wei in chain.genesis.alloc.items() if wei})
        elif height == chain.base:
            _load(chain, state)
            leaves = None
        else:
            leaves = state.touch(height, _apply(chain, state, header))
        if leaves is not None:
            _expect(height, "changes root", header.changes_root, root_over(leaves))
            _expect(height, "touched accounts", chain.change_leaves(height), b"".join(leaves))
        _expect(height, "state root", header.state_root, root_over(state.leaves()))
    history.check(chain.visible)
    _check_nodes(chain, state.leaves())


def _load(chain: ChainStore, state: NaiveState) -> None:
    """The state after the oldest block that is kept, as the store has it."""
    versions = sorted(chain.accounts_at(chain.base), key=lambda entry: entry[1].number)
    for address, version in versions:
        state.holdings[address] = version.account.balance, version.account.nonce
        state.touched[address] = version.touched
    for key, value in database_of(chain).scan(keys.META):
        if key[:-8] == keys.GOVERNANCE_KEY and key <= keys.governance_key(chain.base):
            state.record = value


def _apply(chain: ChainStore, state: NaiveState, header: BlockHeader) -> dict[bytes, Holding]:
    """What a block leaves of the accounts that it touches."""
    after: dict[bytes, Holding] = {}

    def add(address: bytes, wei: int, sent: int = 0) -> None:
        balance, nonce = after.get(address) or state.holdings.get(address, (0, 0))
        after[address] = balance + wei, nonce + sent

    fees = 0
    for record in chain.records(header.height):
        tx = decode_record(record)
        fee = (21_000 + sum(16 if byte else 4 for byte in tx.data)) * tx.gas_price
        add(tx.sender, -tx.value - fee, 1)
        add(tx.to, tx.value)
        fees += fee
    if fees:
        add(header.proposer, fees)
    stored = database_of(chain).get(keys.META, keys.balances_key(header.height)) or b""
    for at in range(0, len(stored), 52):
        address, wei = stored[at : at + 20], int.from_bytes(stored[at + 20 : at + 52], "big")
        before = state.holdings.get(address, (0, 0))
        if wei != before[0]:
            after[address] = wei, before[1]
    return after


def _check_nodes(chain: ChainStore, leaves: list[bytes]) -> None:
    """Every node of the state tree in memory is the root over the leaves below it."""
    size = 1
    for level, nodes in enumerate(chain.tree.levels):
        for index in range(0, -(-len(leaves) // size)):
            expected = root_over(leaves[index * size : (index + 1) * size])
            if nodes[32 * index : 32 * index + 32] != expected:
                raise Corrupt(f"node {index} of level {level} of the state tree is not the one that follows")
        if len(nodes) != 32 * -(-len(leaves) // size):
            raise Corrupt(f"level {level} of the state tree has {len(nodes)} bytes")
        size *= 2
    if len(chain.tree.levels[-1]) != 32:
        raise Corrupt("the state tree has no root")


def _expect(height: int, what: str, found: bytes, expected: bytes) -> None:
    if found != expected:
        raise Corrupt(f"block {height}: the {what} is 0x{found.hex()}; by the definition it is 0x{expected.hex()}")
