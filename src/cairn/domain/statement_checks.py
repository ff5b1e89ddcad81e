"""What a statement proves: every change of an account from one block to another, with the payments that explain it.

Each change names the block that touched the account before it. So changes that follow each other are linked, and none
can be left out between them, before the first, or after the last.
"""

import msgspec

from cairn.domain.errors import InvalidProof
from cairn.domain.genesis import DEV_SIGNER, Genesis
from cairn.domain.proof_checks import (
    FinalBlock,
    Finality,
    ProvenAccount,
    ProvenBlock,
    ProvenChange,
    ProvenHistory,
    ProvenPayment,
    Trust,
    account_under,
    block_under,
    change_under,
    check_account,
    check_finality,
    check_head,
    check_history,
    check_receipt,
    check_supply,
    payment_in,
    sized,
)
from cairn.domain.proof_files import (
    AccountFile,
    AnyProofFile,
    FinalityFile,
    HistoryFile,
    PaymentPath,
    ReceiptFile,
    StatementChange,
    StatementFile,
)
from cairn.domain.types import Account, Address, BlockHeader, Tx


class StatementPayment(msgspec.Struct, frozen=True):
    tx: Tx
    index: int
    """Place in the block, from 0."""


class StatementEntry(msgspec.Struct, frozen=True):
    """What one block did to the account."""

    block: ProvenBlock
    before: Account
    after: Account
    payments: tuple[StatementPayment, ...]
    fees_earned: int
    """What no payment explains, if the account is the block's proposer: the fees of its transactions."""
    set_by_hand: int
    """What no payment explains in a block without transactions: in block 0 what alloc of genesis gives, which was
    compared; in a later one what a dev chain set, below 0 if lower. No other chain has any.
    """


class ProvenStatement(msgspec.Struct, frozen=True):
    """All that happened to an account in the blocks from `first` to `last`."""

    finality: Finality
    address: Address
    first: int
    last: int
    opening: Account
    """Before the block at `first`."""
    closing: Account
    """After the block at `last`."""
    entries: tuple[StatementEntry, ...]
    ends: tuple[ProvenBlock, ...] = ()
    """Blocks at `first` and `last` and beside them, which show of which time these are."""

    @property
    def has_balances_set(self) -> bool:
        """Balances changed without payments after block 0, as only those of a dev chain may."""
        return any(entry.set_by_hand and entry.block.header.height for entry in self.entries)


Proven = FinalBlock | ProvenPayment | ProvenAccount | ProvenStatement | ProvenHistory


def check_file(file: AnyProofFile, trust: Trust) -> Proven:
    """What the file proves, whichever it is. Raises `InvalidProof`."""
    match file:
        case FinalityFile():
            return check_finality(file, trust)
        case ReceiptFile():
            return check_receipt(file, trust)
        case AccountFile():
            return check_account(file, trust)
        case StatementFile():
            return check_statement(file, trust)
        case HistoryFile():
            return check_history(file, trust)


def check_statement(file: StatementFile, trust: Trust) -> ProvenStatement:
    finality = check_head(file, trust)
    address, head = Address(sized(file.address, 20, "the address")), finality.block
    if not file.first <= file.last <= head.header.height:
        heights = f"from {file.first} to {file.last}, with signed block {head.header.height}"
        raise InvalidProof(f"the heights do not ascend: {heights}")
    genesis = trust.genesis
    changes = [change_under(change, address, head, genesis) for change in file.changes]
    _check_links(changes, file.first, file.last)
    opening, closing = _ends(file, address, changes, head, genesis)
    entries = tuple(_entry(change, path, address, genesis) for change, path in zip(changes, file.changes, strict=True))
    ends = _end_blocks(file, head)
    return ProvenStatement(finality, address, file.first, file.last, opening, closing, entries, ends)


def _end_blocks(file: StatementFile, head: ProvenBlock) -> tuple[ProvenBlock, ...]:
    blocks = tuple(block_under(path, head) for path in file.ends)
    heights = [block.header.height for block in blocks]
    if heights != sorted({*heights} & {file.first - 1, file.first, file.last, file.last + 1}):
        raise InvalidProof(f"blocks {heights} are not at the ends of {file.first} to {file.last}, in their order")
    return blocks


def _check_links(changes: list[ProvenChange], first: int, last: int) -> None:
    """Check that each change is in the range, and links to the one before it."""
    before: ProvenChange | None = None
    for change in changes:
        if not first <= change.height <= last:
            raise InvalidProof(f"block {change.height} is not among those from {first} to {last}")
        _check_link(change, before, first)
        before = change


def _check_link(change: ProvenChange, before: ProvenChange | None, first: int) -> None:
    height, touched = change.height, change.leaf.touched_before
    if before is None:
        if touched is not None and touched >= first:
            raise InvalidProof(f"block {touched} touched the account before block {height}, and is left out")
        return
    if height <= before.height:
        raise InvalidProof(f"block {height} does not come after block {before.height}")
    if touched != before.height:
        named = "none" if touched is None else f"block {touched}"
        raise InvalidProof(f"block {height} names {named} as the change before it, not block {before.height}")
    if change.leaf.before != before.leaf.after:
        raise InvalidProof(f"block {height} begins with another balance or nonce than block {before.height} ended with")


def _ends(
    file: StatementFile, address: Address, changes: list[ProvenChange], head: ProvenBlock, genesis: Genesis
) -> tuple[Account, Account]:
    """What the account held before and after the range; so nothing is left out at its end."""
    if (file.state is None) == (file.next is None):
        raise InvalidProof("the file must have exactly one of state and next")
    newest = changes[-1] if changes else None
    if file.next is not None:
        following = change_under(file.next, address, head, genesis)
        if following.height <= file.last:
            raise InvalidProof(f"the next change is in block {following.height}, not above {file.last}")
        _check_link(following, newest, file.first)
        closing = following.leaf.before
    elif file.state is not None:
        closing, touched = account_under(file.state, address, head, genesis)
        _check_last(closing, touched, newest, file.first)
    return (changes[0].leaf.before if changes else closing), closing


def _check_last(account: Account, touched: int | None, newest: ProvenChange | None, first: int) -> None:
    """Check that the account's state follows from its newest change, or without one, from before `first`."""
    if newest is None:
        if touched is not None and touched >= first:
            raise InvalidProof(f"block {touched} touched the account, and is left out")
    elif touched != newest.height:
        named = "no block" if touched is None else f"block {touched}"
        raise InvalidProof(f"{named} touched the account last, not block {newest.height}")
    elif account != newest.leaf.after:
        raise InvalidProof("the leaf at the end has another balance or nonce than the last change ended with")


# What explains a change.


def _entry(change: ProvenChange, path: StatementChange, address: Address, genesis: Genesis) -> StatementEntry:
    header, before, after = change.block.header, change.leaf.before, change.leaf.after
    payments = _payments(path.payments, change.block, address, genesis)
    sent = [each.tx for each in payments if each.tx.sender == address]
    # The number first: nonces are whatever the leaf says, and a range of them may be endless.
    if len(sent) != after.nonce - before.nonce or any(tx.nonce != nonce for nonce, tx in enumerate(sent, before.nonce)):
        raise InvalidProof(f"the payments in block {header.height} are not those that the account sent there")
    received = sum(each.tx.value for each in payments if each.tx.to == address)
    rest = after.balance - before.balance - received + sum(tx.debit for tx in sent)
    if not _has_source(rest, header, address, [each.tx for each in payments], genesis):
        raise InvalidProof(f"the payments in block {header.height} do not explain the balance: {rest} wei are left")
    check_supply(rest, f"what the payments in block {header.height} do not explain", genesis)
    fees, by_hand = (rest, 0) if header.tx_count else (0, rest)
    return StatementEntry(change.block, before, after, payments, fees, by_hand)


def _has_source(rest: int, header: BlockHeader, address: Address, listed: list[Tx], genesis: Genesis) -> bool:
    """Whether what no listed payment explains has a source: genesis, fees, or the hand of a dev chain."""
    if not header.height:
        # The balance was compared with alloc.
        return True
    if not header.tx_count:
        return not rest or genesis.signer == DEV_SIGNER
    if header.proposer != address:
        return not rest
    # The proposer gets all fees of the block, even of payments that the file does not have.
    fees = sum(tx.fee for tx in listed)
    return rest == fees if len(listed) == header.tx_count else rest >= fees


def _payments(
    paths: list[PaymentPath], block: ProvenBlock, address: Address, genesis: Genesis
) -> tuple[StatementPayment, ...]:
    last, payments = -1, []
    for path in paths:
        if path.index <= last:
            raise InvalidProof(f"the payments in block {block.header.height} are not in their order")
        tx = payment_in(path, block, genesis)
        if address not in (tx.sender, tx.to):
            raise InvalidProof(
                f"the transaction at index {path.index} of block {block.header.height} is of other accounts"
            )
        last = path.index
        payments.append(StatementPayment(tx, path.index))
    return tuple(payments)
