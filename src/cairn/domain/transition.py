"""Block application: the only place where balances change.

Fees are added to the proposer's account after the block's last transaction, so none of them can be spent within it.
On a dev chain a block may set balances instead of moving them; it then holds no transactions.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from cairn.domain.errors import InvalidBlock, TxRejected
from cairn.domain.governance import Governance, encode_governance
from cairn.domain.headers import block_hash
from cairn.domain.history import History, HistoryNode
from cairn.domain.merkle import tx_root_steps
from cairn.domain.rules import SenderBudget, validate_tx
from cairn.domain.state_tree import (
    AccountChange,
    AccountPlaces,
    StateTree,
    StateUpdate,
    StateView,
    record_leaf,
    update_steps,
)
from cairn.domain.steps import Steps, finish, in_groups
from cairn.domain.types import (
    TRANSFER_GAS,
    Account,
    Address,
    BlockHash,
    BlockHeader,
    Rules,
    SealedBlock,
    Tx,
    intrinsic_gas,
)


class ParentState(AccountPlaces, Protocol):
    """All that a block is built on."""

    @property
    def tree(self) -> StateTree:
        """Over all accounts."""

    @property
    def history(self) -> History:
        """Over all blocks, the parent too."""


GovernanceChange = tuple[Governance, Governance]
"""The governance before a block and after it."""


class BlockOutcome(msgspec.Struct, frozen=True):
    """A block and what it does to the state. Nothing of it is written yet."""

    block: SealedBlock
    accounts: dict[Address, Account]
    """The new value of every account that the block touches."""
    state: StateUpdate
    history: History
    """Over all blocks, this one too."""
    history_nodes: list[HistoryNode]
    """What this block adds to it."""
    governance: Governance | None = None
    """The validators from now on, when the block changes them."""
    balances: Mapping[Address, int] = {}
    """Balances that the block sets, on a dev chain only."""

    @property
    def changes_state(self) -> bool:
        """Whether the state after the block differs from the one before."""
        return bool(self.block.txs) or self.governance is not None or bool(self.balances)


class _BlockSender(SenderBudget, kw_only=True):
    """One account's transactions in a block; empty if it only receives."""

    before: Account


class Ledger:
    """The accounts during the making of a block. The proposer gets the fees only after the block."""

    def __init__(self, view: StateView, rules: Rules) -> None:
        self._view = view
        self._rules = rules
        self._senders: dict[Address, _BlockSender] = {}
        """One for each account that the block touches."""
        self._fees = 0
        self.gas_used = 0

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another transfer, even without data."""
        return self.gas_used + TRANSFER_GAS > self._rules.block_gas_limit

    def apply(self, tx: Tx) -> None:
        """Add `tx` to the block. Raises `TxRejected`, or `InvalidBlock` when there is no room for it."""
        # As `tx.gas_used` and `tx.debit` do: each transaction of each block passes here.
        gas = intrinsic_gas(tx.data) if tx.data else TRANSFER_GAS
        gas_used = self.gas_used + gas
        if gas_used > self._rules.block_gas_limit:
            raise InvalidBlock(f"{gas_used} gas would be used; the block's limit is {self._rules.block_gas_limit}")
        validate_tx(tx, self._rules)
        senders, value, fee = self._senders, tx.value, gas * tx.gas_price
        address = tx.sender
        sender = senders[address] if address in senders else self._load(address)
        # Subtract before adding: then a transfer to oneself is no special case.
        # What counts in a block is what it pays. In a mempool it is what it may pay.
        if not sender.take(tx, value + fee):
            raise sender.refusal(tx)
        address = tx.to
        recipient = senders[address] if address in senders else self._load(address)
        recipient.balance += value
        self._fees += fee
        self.gas_used = gas_used

    def account(self, address: Address) -> Account:
        """As the block leaves it so far, but for fees."""
        known = self._senders.get(address)
        # Who is only asked for is not touched.
        return self._view.account(address) if known is None else known.account

    def close(self, proposer: Address) -> list[AccountChange]:
        """Pay the fees, and list the accounts that are touched."""
        if self._fees:
            (self._senders.get(proposer) or self._load(proposer)).balance += self._fees
        # As `sender.account` is.
        return [
            (address, sender.before, Account(sender.balance - sender.cost, sender.next_nonce))
            for address, sender in self._senders.items()
        ]

    def _load(self, address: Address) -> _BlockSender:
        account = self._view.account(address)
        # From here on the block has its own copy: the view is not asked for the account again.
        sender = self._senders[address] = _BlockSender(account.balance, account.nonce, account.nonce, before=account)
        return sender


def build_block(
    parent: BlockHeader,
    parent_hash: BlockHash,
    state: ParentState,
    txs: Sequence[Tx],
    timestamp: int,
    proposer: Address,
    rules: Rules,
    governance: GovernanceChange | None = None,
    balances: Mapping[Address, int] | None = None,
) -> BlockOutcome:
    """Apply `txs` on top of `parent`. Raises `InvalidBlock` when one of them cannot be applied.

    With `balances`, these are set instead; the caller must make sure that it is a dev chain.
    """
    return finish(block_steps(parent, parent_hash, state, txs, timestamp, proposer, rules, governance, balances))


def block_steps(
    parent: BlockHeader,
    parent_hash: BlockHash,
    state: ParentState,
    txs: Sequence[Tx],
    timestamp: int,
    proposer: Address,
    rules: Rules,
    governance: GovernanceChange | None = None,
    balances: Mapping[Address, int] | None = None,
) -> Steps[BlockOutcome]:
    """As `build_block`. The state must not change between two steps."""
    height = parent.height + 1
    if balances and txs:
        raise InvalidBlock(f"block {height} sets balances, so it must not hold transactions")
    ledger = Ledger(state, rules)
    for group in in_groups(txs):
        _apply_txs(height, ledger, group)
        yield
    changes = _set_balances(state, balances) if balances else ledger.close(proposer)
    yield
    record = None if governance is None else record_leaf(encode_governance(governance[1]))
    update = yield from update_steps(state.tree, state, height, changes, record)
    tx_root = yield from tx_root_steps([tx.hash for tx in txs])
    header = BlockHeader(
        height=height,
        previous_hash=parent_hash,
        # If the clock steps back, the chain's time must not.
        timestamp=max(timestamp, parent.timestamp),
        tx_root=tx_root,
        changes_root=update.changes_root,
        state_root=update.tree.root,
        history_root=state.history.root,
        gas_used=ledger.gas_used,
        proposer=proposer,
        chain_id=rules.chain_id,
        gas_limit=rules.block_gas_limit,
        base_fee=rules.gas_price,
        tx_count=len(txs),
    )
    accounts = {address: new for address, _, new in changes}
    yield
    after = None if governance is None else governance[1]
    return seal_block(header, txs, state.history, accounts, update, after, balances or {})


def seal_block(
    header: BlockHeader,
    txs: Sequence[Tx],
    before: History,
    accounts: dict[Address, Account],
    update: StateUpdate,
    governance: Governance | None,
    balances: Mapping[Address, int],
) -> BlockOutcome:
    """Hash the header, and add the block to the history `before` it."""
    block = SealedBlock(header, block_hash(header), tuple(txs))
    history, nodes = before.append(block.hash)
    return BlockOutcome(block, accounts, update, history, nodes, governance, balances)


def _set_balances(view: StateView, balances: Mapping[Address, int]) -> list[AccountChange]:
    """Set the balances; nonces stay."""
    changes = []
    for address, balance in balances.items():
        account = view.account(address)
        if account.balance != balance:
            changes.append((address, account, Account(balance, account.nonce)))
    return changes


def _apply_txs(height: int, ledger: Ledger, txs: Sequence[Tx]) -> None:
    apply = ledger.apply
    for tx in txs:
        try:
            apply(tx)
        except TxRejected as refusal:
            raise InvalidBlock(
                f"block {height}: transaction 0x{tx.hash.hex()} cannot be applied: {refusal.detail}"
            ) from refusal
