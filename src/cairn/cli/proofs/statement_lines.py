"""The lines of a checked statement, as the screen, the page and the table have them."""

from collections.abc import Iterator
from typing import NamedTuple

from cairn.cli.amounts import in_coins
from cairn.cli.screen import data_text, utc
from cairn.domain.crypto import checksum_address
from cairn.domain.proof_checks import ProvenBlock
from cairn.domain.references import reference_of
from cairn.domain.statement_checks import ProvenStatement, StatementEntry
from cairn.domain.types import Address, Tx

HEADINGS = ("block", "time", "what", "coins", "fee", "balance", "account", "for")
"""Of the cells. All amounts are in coins."""


class Change(NamedTuple):
    """One thing that a block did to the account."""

    kind: str
    amount: int = 0
    """In wei, below 0 if the account paid it."""
    fee: int = 0
    """In wei, 0 or below."""
    other: Address | None = None
    tx: Tx | None = None


class StatementLine(NamedTuple):
    block: ProvenBlock
    change: Change
    balance: int | None
    """After the block, in the last line of the block."""

    def cells(self) -> tuple[str, ...]:
        """As people read it, without control characters."""
        header, change = self.block.header, self.change
        sent = change.tx is not None and change.fee
        return (
            str(header.height),
            utc(header.timestamp),
            change.kind,
            _signed(change.amount),
            _signed(change.fee) if sent else "",
            "" if self.balance is None else in_coins(self.balance),
            "" if change.other is None else checksum_address(change.other),
            "" if change.tx is None else purpose(change.tx),
        )


def statement_lines(proven: ProvenStatement) -> list[StatementLine]:
    """A line for each payment of a block, and for what no payment explains."""
    lines: list[StatementLine] = []
    for entry in proven.entries:
        *others, last = list(_changes(entry, proven.address)) or [Change("touched")]
        lines += (StatementLine(entry.block, change, None) for change in others)
        lines.append(StatementLine(entry.block, last, entry.after.balance))
    return lines


def _changes(entry: StatementEntry, address: Address) -> Iterator[Change]:
    for payment in entry.payments:
        tx = payment.tx
        if tx.sender == tx.to:
            yield Change("to itself", 0, -tx.fee, tx.to, tx)
        elif tx.sender == address:
            yield Change("sent", -tx.value, -tx.fee, tx.to, tx)
        else:
            yield Change("received", tx.value, 0, tx.sender, tx)
    if entry.fees_earned:
        yield Change("fees earned", entry.fees_earned)
    if entry.set_by_hand:
        # In a block without payments.
        who = "by hand, on a dev chain" if entry.block.header.height else "by genesis.json"
        yield Change(f"set {who}", entry.set_by_hand)


def purpose(tx: Tx) -> str:
    """What the payer says it is for, escaped; empty if nothing."""
    return data_text(reference_of(tx.data), "0x" + tx.data.hex()) if tx.data else ""


def _signed(wei: int) -> str:
    return f"+{in_coins(wei)}" if wei > 0 else in_coins(wei)
