"""What a file of proof proves, with genesis.json alone. No node, no clock: the same file always proves the same.

Each check returns what holds as a frozen struct, and raises `InvalidProof` with what does not hold.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from cairn.domain.certificates import CheckedCertificates, SignedBlock, read_header, read_hex
from cairn.domain.crypto import keccak256
from cairn.domain.ed25519 import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, verify
from cairn.domain.errors import InvalidProof, Rejected
from cairn.domain.genesis import Genesis, find_supply, genesis_digest
from cairn.domain.merkle import NODE_BYTES, verify_consistency, verify_inclusion
from cairn.domain.proof_files import (
    AccountFile,
    BlockPath,
    ChangePath,
    Descendant,
    FinalityFile,
    HistoryFile,
    PaymentPath,
    ProofFile,
    ReceiptFile,
    StatePath,
)
from cairn.domain.state_tree import (
    CHANGE_LEAF_BYTES,
    RECORD_NUMBER,
    STATE_LEAF_BYTES,
    ChangeLeaf,
    StateLeaf,
    read_change_leaf,
    read_state_leaf,
)
from cairn.domain.transactions import decode_tx
from cairn.domain.types import EMPTY_ACCOUNT, Account, Address, BlockHash, BlockHeader, Tx

WITNESS_PREFIX = b"cairn witness 1\0"
"""So that a witness's signature means nothing else."""
MAX_DESCENDANTS = 64
MAX_WITNESSES = 16
"""Of each descendant: every one is a signature to check, and anybody may add them."""
MAX_PATH = 64
"""Hashes in a path; no tree is as high."""


# What a check starts from.


class BlockName(msgspec.Struct, frozen=True):
    height: int
    hash: BlockHash


class Trust(msgspec.Struct, frozen=True):
    """What one trusts before the check: the genesis, and perhaps more."""

    genesis: Genesis
    at: BlockName | None = None
    """A block that is trusted already. The file must hold it, and signatures of validators are not looked at."""
    witnesses: tuple[bytes, ...] = ()
    """Public keys. Each of them must have signed a block of the file, the signed one or a later one."""
    checked: CheckedCertificates | None = None
    """Certificates that were checked before, for whoever checks many files."""


# What is proven.


class ProvenBlock(msgspec.Struct, frozen=True):
    header: BlockHeader
    hash: BlockHash


class Witnessed(msgspec.Struct, frozen=True):
    """A witness saw this block, in whose history the signed one is."""

    public_key: bytes
    block: ProvenBlock
    is_named: bool
    """Whether the key is one of `Trust.witnesses`. Of any other nobody knows whose it is: perhaps the operator's."""


class Finality(msgspec.Struct, frozen=True):
    """Why to believe in the newest block of a file that all else hangs on."""

    block: ProvenBlock
    signed: SignedBlock | None
    """Who signed it; None if signatures were not looked at, because a block of the file is trusted."""
    trusted: ProvenBlock | None
    """The block that was trusted: this one, or a later one."""
    witnesses: tuple[Witnessed, ...]


class FinalBlock(msgspec.Struct, frozen=True):
    """A block is final."""

    finality: Finality
    block: ProvenBlock


class ProvenPayment(msgspec.Struct, frozen=True):
    """A payment is final."""

    finality: Finality
    block: ProvenBlock
    tx: Tx
    index: int
    """Place in the block, from 0."""


class ProvenAccount(msgspec.Struct, frozen=True):
    """What an account held after the block at `height`."""

    finality: Finality
    address: Address
    height: int
    account: Account
    last_touch: int | None
    """Height of the last block up to `height` that touched it; None: it did not exist."""


class ProvenHistory(msgspec.Struct, frozen=True):
    """`first` is an ancestor of `second`, and what was history at `first` still is at `second`."""

    finality: Finality
    first: ProvenBlock
    second: ProvenBlock


# Checks of whole files.


def check_finality(file: FinalityFile, trust: Trust) -> FinalBlock:
    finality = check_head(file, trust)
    return FinalBlock(finality, block_under(file.block, finality.block))


def check_receipt(file: ReceiptFile, trust: Trust) -> ProvenPayment:
    finality = check_head(file, trust)
    block = block_under(file.block, finality.block)
    return ProvenPayment(finality, block, payment_in(file.payment, block, trust.genesis), file.payment.index)


def check_account(file: AccountFile, trust: Trust) -> ProvenAccount:
    finality = check_head(file, trust)
    address, head = Address(sized(file.address, 20, "the address")), finality.block
    if file.height > head.header.height:
        raise InvalidProof(f"height {file.height} is above {head.header.height}, that of the signed block")
    if (file.state is None) == (file.change is None):
        raise InvalidProof("the file must have exactly one of state and change")
    if file.state is not None:
        account, last_touch = account_under(file.state, address, head, trust.genesis)
    elif file.change is not None:
        account, last_touch = _before_change(file.change, address, file.height, head, trust.genesis)
    if last_touch is not None and last_touch > file.height:
        raise InvalidProof(f"block {last_touch} touched the account after height {file.height}")
    return ProvenAccount(finality, address, file.height, account, last_touch)


def check_history(file: HistoryFile, trust: Trust) -> ProvenHistory:
    finality = check_head(file, trust)
    second = block_under(file.second, finality.block)
    first = read_block(file.first, second.header.chain_id)
    older, newer = first.header, second.header
    if older.height >= newer.height:
        raise InvalidProof(f"the first block, {older.height}, is not below the second, {newer.height}")
    check_ancestor(first, second, file.inclusion)
    path = read_path(file.consistency)
    if not verify_consistency(older.height, newer.height, older.history_root, newer.history_root, path):
        raise InvalidProof(f"the history at block {newer.height} does not begin with that at block {older.height}")
    return ProvenHistory(finality, first, second)


# The signed block, and those after it.


def check_head(file: ProofFile, trust: Trust) -> Finality:
    """The newest block that the chain's validators signed, and the witnesses of its descendants."""
    block = read_block(file.certificate.header, trust.genesis.chain_id)
    if len(file.descendants) > MAX_DESCENDANTS:
        raise InvalidProof(f"the file has {len(file.descendants)} descendants: {MAX_DESCENDANTS} are possible")
    later = [_descendant(each, block) for each in file.descendants]
    if trust.at is None:
        checked = trust.checked or CheckedCertificates(trust.genesis)
        signed, trusted = checked.check(file.certificate), None
    else:
        signed, trusted = None, _find_trusted(trust.at, [block, *later])
    return Finality(block, signed, trusted, _check_witnesses(file.descendants, later, trust))


def witness_message(digest: bytes, height: int, block_hash: BlockHash) -> bytes:
    """What a witness signs: that it saw this block of the chain with this genesis digest."""
    return WITNESS_PREFIX + digest + height.to_bytes(8, "big") + block_hash


def _find_trusted(at: BlockName, blocks: Sequence[ProvenBlock]) -> ProvenBlock:
    for block in blocks:
        if block.header.height == at.height and block.hash == at.hash:
            return block
    held = ", ".join(f"{block.header.height}:0x{block.hash.hex()}" for block in blocks)
    raise InvalidProof(f"the file does not hold block {at.height}:0x{at.hash.hex()}; it holds {held}")


def _descendant(descendant: Descendant, signed: ProvenBlock) -> ProvenBlock:
    block = read_block(descendant.header, signed.header.chain_id)
    if block.hash == signed.hash:
        _check_no_history(descendant.history)
    elif block.header.height <= signed.header.height:
        raise InvalidProof(f"block {block.header.height} is not above the signed block {signed.header.height}")
    else:
        check_ancestor(signed, block, descendant.history)
    return block


def _check_witnesses(
    descendants: Sequence[Descendant], blocks: Sequence[ProvenBlock], trust: Trust
) -> tuple[Witnessed, ...]:
    seen: list[Witnessed] = []
    digest = genesis_digest(trust.genesis) if descendants else b""
    for descendant, block in zip(descendants, blocks, strict=True):
        message = witness_message(digest, block.header.height, block.hash)
        if len(descendant.witnesses) > MAX_WITNESSES:
            raise InvalidProof(f"{len(descendant.witnesses)} witnesses of a block: {MAX_WITNESSES} are possible")
        for witness in descendant.witnesses:
            key = sized(witness.public_key, PUBLIC_KEY_BYTES, "a witness's public key")
            # A wrong one counts for nothing, but refuses nothing: whoever passes a file on may add any.
            if verify(key, message, sized(witness.signature, SIGNATURE_BYTES, "a witness's signature")):
                seen.append(Witnessed(key, block, key in trust.witnesses))
    for key in trust.witnesses:
        if not any(each.public_key == key for each in seen):
            raise InvalidProof(f"witness 0x{key.hex()} signed no block of the file")
    return tuple(seen)


# Blocks.


def read_block(text: str, chain_id: int) -> ProvenBlock:
    header = read_header(text)
    if header.chain_id != chain_id:
        raise InvalidProof(f"a block of another chain: its chain id is {header.chain_id}, not {chain_id}")
    if not header.height and header.tx_count:
        raise InvalidProof("block 0 has transactions: genesis has none")
    return ProvenBlock(header, BlockHash(keccak256(read_hex(text, "a block's header"))))


def block_under(path: BlockPath, signed: ProvenBlock) -> ProvenBlock:
    """The block of `path`: the signed one, or one of its ancestors."""
    block = read_block(path.header, signed.header.chain_id)
    if block.hash == signed.hash:
        _check_no_history(path.history)
    else:
        check_ancestor(block, signed, path.history)
    return block


def check_ancestor(block: ProvenBlock, later: ProvenBlock, history: Sequence[str]) -> None:
    """Check that `block` is in the history of `later`."""
    height, size = block.header.height, later.header.height
    if not verify_inclusion(block.hash, height, size, read_path(history), later.header.history_root):
        raise InvalidProof(f"block {height} is not in the history of block {size}")


def _check_no_history(history: Sequence[str]) -> None:
    if history:
        raise InvalidProof("the signed block itself has a path in its history")


# Payments.


def payment_in(payment: PaymentPath, block: ProvenBlock, genesis: Genesis) -> Tx:
    """The transaction, which `block` holds. What it pays for gas follows from the block's base fee."""
    header, raw = block.header, read_hex(payment.transaction, "a transaction")
    if not verify_inclusion(keccak256(raw), payment.index, header.tx_count, read_path(payment.path), header.tx_root):
        raise InvalidProof(f"the transaction is not at index {payment.index} of block {header.height}")
    try:
        tx = decode_tx(raw, header.chain_id, header.base_fee)
    except Rejected as refused:
        raise InvalidProof(f"a transaction of block {header.height} cannot be read: {refused.detail}") from None
    check_supply(tx.debit, f"what a payment of block {header.height} costs", genesis)
    return tx


# Accounts.


def check_supply(amount: int, what: str, genesis: Genesis) -> None:
    """Check that there are so many coins. Nobody's word is enough for more."""
    supply = find_supply(genesis)
    if supply is not None and amount > supply:
        raise InvalidProof(f"{what} is {amount} wei, and there are {supply} by alloc of genesis")


class ProvenChange(NamedTuple):
    """What a block did to an account."""

    block: ProvenBlock
    leaf: ChangeLeaf

    @property
    def height(self) -> int:
        return self.block.header.height


def state_under(state: StatePath, head: ProvenBlock) -> StateLeaf:
    leaf = sized(state.leaf, STATE_LEAF_BYTES, "the leaf of an account")
    if state.number <= RECORD_NUMBER:
        raise InvalidProof(f"leaf {state.number} of the state is not an account")
    if not verify_inclusion(leaf, state.number, state.size, read_path(state.path), head.header.state_root):
        raise InvalidProof(f"the account's leaf is not under the state root of block {head.header.height}")
    return read_state_leaf(leaf)


def change_under(change: ChangePath, address: Address, head: ProvenBlock, genesis: Genesis) -> ProvenChange:
    """What a block did to the account at `address`."""
    block = block_under(change.block, head)
    leaf = sized(change.leaf, CHANGE_LEAF_BYTES, "the leaf of a change")
    header = block.header
    if not verify_inclusion(leaf, change.index, change.count, read_path(change.path), header.changes_root):
        raise InvalidProof(f"the account's change is not under the changes root of block {header.height}")
    read = read_change_leaf(leaf)
    if read.address != address:
        raise InvalidProof(f"a change of block {header.height} is of account 0x{read.address.hex()}")
    if header.height:
        _check_holding(address, read.touched_before, read.before, genesis)
    elif read.touched_before is not None or read.before != EMPTY_ACCOUNT:
        raise InvalidProof("the account held something, or was touched, before block 0")
    _check_holding(address, header.height, read.after, genesis)
    return ProvenChange(block, read)


def account_under(
    state: StatePath, address: Address, head: ProvenBlock, genesis: Genesis
) -> tuple[Account, int | None]:
    """What the account holds, and the last block that touched it; an empty one and None if it does not exist."""
    leaf = state_under(state, head)
    account, touched = leaf.account, leaf.touched
    if leaf.address == address:
        _check_holding(address, touched, account, genesis)
        return account, touched
    if not leaf.skips(address):
        raise InvalidProof("the leaf is of another account, and does not show that this one does not exist")
    _check_holding(address, None, EMPTY_ACCOUNT, genesis)
    return EMPTY_ACCOUNT, None


def _check_holding(address: Address, touched: int | None, account: Account, genesis: Genesis) -> None:
    """Check what genesis decides: an account begins with what `alloc` gives it in block 0, or with nothing, and never
    holds more than all coins."""
    check_supply(account.balance, "a balance", genesis)
    given = genesis.alloc.get(address, 0)
    if touched is None and (given or account != EMPTY_ACCOUNT):
        raise InvalidProof("no block touched the account before, and yet it held something, or genesis gives it coins")
    if touched == 0 and (not given or account != Account(given)):
        raise InvalidProof(f"the account began with {account.balance} wei in block 0; alloc of genesis gives {given}")


def _before_change(
    change: ChangePath, address: Address, height: int, head: ProvenBlock, genesis: Genesis
) -> tuple[Account, int | None]:
    proven = change_under(change, address, head, genesis)
    if proven.height <= height:
        raise InvalidProof(f"the change is in block {proven.height}, not above height {height}")
    return proven.leaf.before, proven.leaf.touched_before


# Texts.


def read_path(path: Sequence[str]) -> list[bytes]:
    if len(path) > MAX_PATH:
        raise InvalidProof(f"a path has {len(path)} hashes: {MAX_PATH} are possible")
    return [sized(sibling, NODE_BYTES, "a hash of a path") for sibling in path]


def sized(text: str, size: int, what: str) -> bytes:
    """The bytes that `text` spells, which are as many as `what` has."""
    found = read_hex(text, what)
    if len(found) != size:
        raise InvalidProof(f"{what} has {len(found)} bytes, not {size}")
    return found
