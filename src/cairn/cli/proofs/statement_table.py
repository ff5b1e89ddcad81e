"""A checked statement as a table for spreadsheets and bookkeeping programs (CSV, RFC 4180)."""

import re
import time

from cairn.cli.proofs.statement_lines import StatementLine, statement_lines
from cairn.cli.screen import escaped, utc
from cairn.domain.crypto import checksum_address
from cairn.domain.references import reference_of
from cairn.domain.statement_checks import ProvenStatement
from cairn.domain.types import LATEST_TIME, Tx

HEADINGS = (
    "block", "time", "transaction", "kind", "counterparty", "amount_wei", "fee_wei", "balance_wei", "reference",
)  # fmt: skip

_begin_formula = re.compile("(^|[,;|\"'])( *)([=+@＝＋－＠-])")
"""Where a spreadsheet would take what follows for a formula; some split lines at other signs than the comma."""


def csv_field(text: str) -> str:
    """A text of others as a field of CSV: in quotes, with an apostrophe before what a spreadsheet would compute.

    The explorer's `textCell` is the same; tests/vectors/csv_fields.json has examples for both.
    """
    return '"' + _begin_formula.sub(r"\1\2'\3", escaped(text)).replace('"', '""') + '"'


def statement_csv(proven: ProvenStatement) -> str:
    """A line for each payment, for fees earned and for balances set by hand. Amounts are in wei, signed.

    The last line of each block has what the account held after it.
    """
    before = proven.first - 1 if proven.first else ""
    rows: list[tuple[str | int, ...]] = [
        HEADINGS,
        (before, "", "", "opening", "", "", "", proven.opening.balance, ""),
        *map(_row, statement_lines(proven)),
        (proven.last, "", "", "closing", "", "", "", proven.closing.balance, ""),
    ]
    return "".join(",".join(map(_field, row)) + "\r\n" for row in rows)


def _row(line: StatementLine) -> tuple[str | int, ...]:
    change, tx = line.change, line.change.tx
    return (
        line.block.header.height,
        _iso_time(line.block.header.timestamp),
        "" if tx is None else "0x" + tx.hash.hex(),
        change.kind,
        "" if change.other is None else checksum_address(change.other),
        change.amount,
        change.fee,
        "" if line.balance is None else line.balance,
        "" if tx is None else _reference(tx),
    )


def _field(value: str | int) -> str:
    return csv_field(value) if isinstance(value, str) else str(value)


def _iso_time(timestamp_s: int) -> str:
    if timestamp_s > LATEST_TIME:
        return utc(timestamp_s)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(timestamp_s))


def _reference(tx: Tx) -> str:
    """The text, so that it can be looked up; data that is no printable text is in hex."""
    reference = reference_of(tx.data)
    return ("0x" + tx.data.hex() if tx.data else "") if reference is None else reference
