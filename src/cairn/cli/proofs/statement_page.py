"""A checked statement as a table for spreadsheets, and as a page to print."""

import csv
import io
import shlex
import time
from html import escape
from typing import NamedTuple

from cairn.cli.amounts import in_coins
from cairn.cli.proofs.verdict import (
    claim,
    exact_amount,
    finality_pairs,
    limits,
    purpose,
    set_text,
    standing_of,
    utc,
)
from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import Genesis
from cairn.domain.references import reference_of
from cairn.domain.statement_checks import ProvenStatement, StatementEntry
from cairn.domain.types import LATEST_TIME, Address, Tx

HEADINGS = (
    "block", "time", "transaction", "kind", "counterparty", "amount_wei", "fee_wei", "balance_wei", "reference",
)  # fmt: skip
FORMULA_SIGNS = tuple("=+-@＝＋－＠")
"""What spreadsheets take for the begin of a formula."""


class Origin(NamedTuple):
    """Where a statement comes from, as far as that is known."""

    proof: str | None
    """Name of the file of proof; None if it was not saved."""
    period: str | None = None
    """The days that were asked for, whose blocks these are."""


def statement_csv(proven: ProvenStatement) -> str:
    """A line for each payment, for fees earned and for balances set by hand. Amounts are in wei, signed.

    The last line of each block has what the account held after it.
    """
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\r\n")
    writer.writerow(HEADINGS)
    before = proven.first - 1 if proven.first else ""
    writer.writerow((before, "", "", "opening", "", "", "", proven.opening.balance, ""))
    for entry in proven.entries:
        rows = _csv_rows(entry, proven.address)
        for number, row in enumerate(rows, 1):
            balance = entry.after.balance if number == len(rows) else ""
            writer.writerow((*row[:-1], balance, row[-1]))
    writer.writerow((proven.last, "", "", "closing", "", "", "", proven.closing.balance, ""))
    return output.getvalue()


def _csv_rows(entry: StatementEntry, address: Address) -> list[tuple[object, ...]]:
    place = (entry.block.header.height, iso_time(entry.block.header.timestamp))
    rows: list[tuple[object, ...]] = []
    for payment in entry.payments:
        tx, tx_hash = payment.tx, "0x" + payment.tx.hash.hex()
        if tx.sender == address:
            own = tx.to == address
            rows.append(
                (*place, tx_hash, "to itself" if own else "sent", checksum_address(tx.to), 0 if own else -tx.value,
                 -tx.fee, cell_text(tx))
            )  # fmt: skip
        else:
            rows.append((*place, tx_hash, "received", checksum_address(tx.sender), tx.value, 0, cell_text(tx)))
    if entry.fees_earned:
        rows.append((*place, "", "fees earned", "", entry.fees_earned, 0, ""))
    if entry.set_by_hand:
        rows.append((*place, "", f"set {set_text(entry)}", "", entry.set_by_hand, 0, ""))
    return rows or [(*place, "", "touched", "", 0, 0, "")]


def iso_time(timestamp_s: int) -> str:
    if timestamp_s > LATEST_TIME:
        return utc(timestamp_s)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(timestamp_s))


def cell_text(tx: Tx) -> str:
    """The reference as it is, so that it can be looked up; an apostrophe keeps a spreadsheet from calculating it.

    Data that is no printable text is in hex, so there are no control characters.
    """
    reference = reference_of(tx.data)
    if reference is None:
        return "0x" + tx.data.hex() if tx.data else ""
    return f"'{reference}" if reference.lstrip().startswith(FORMULA_SIGNS) else reference


_STYLE = """
body { font: 11pt/1.4 system-ui, sans-serif; color: #111; max-width: 66rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .25rem .75rem .25rem 0;
vertical-align: top; border-bottom: 1px solid #ccc } th { font-weight: 600 }
.changes { font-size: 9pt } .time { white-space: nowrap }
.amount { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
.code { font: 8pt/1.4 ui-monospace, monospace; overflow-wrap: anywhere }
.facts th { width: 8rem; white-space: nowrap }
thead { display: table-header-group } tr { break-inside: avoid }
@page { size: landscape; margin: 15mm }
@media print { body { margin: 0; max-width: none } }
"""


def statement_page(proven: ProvenStatement, genesis: Genesis, origin: Origin) -> str:
    """One file that asks for nothing else, made to be printed."""
    address = checksum_address(proven.address)
    summary = [
        ("account", address),
        *([] if origin.period is None else [("period", origin.period)]),
        ("blocks", f"{proven.first} to {proven.last}"),
        *_change_times(proven),
        ("opening", f"{exact_amount(proven.opening.balance)}, before block {proven.first}"),
        ("closing", f"{exact_amount(proven.closing.balance)}, after block {proven.last}"),
    ]
    facts = [(name, str(value)) for name, value in finality_pairs(proven.finality, genesis)]
    changes = "".join(_page_rows(entry, proven.address) for entry in proven.entries)
    empty = "" if proven.entries else "<p>Nothing happened to the account in these blocks.</p>"
    missing = "".join(f"<li>{escape(text)}</li>" for text in limits(proven, genesis))
    head = "".join(
        f"<th{' class=amount' if name.endswith('coins') else ''}>{name}</th>"
        for name in (
            "block",
            "time",
            "",
            "account and reference",
            "amount in coins",
            "fee in coins",
            "balance in coins",
        )
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Statement of {address}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Statement of account</h1>
<p>{escape(standing_of(proven))}: {escape(claim(proven))}.</p>
{_facts(summary)}
<h2>Changes</h2>
{empty}<table class=changes><thead><tr>{head}</tr></thead><tbody>
{changes}</tbody></table>
<h2>Who signed it</h2>
{_facts(facts)}
<h2>How to check it</h2>
{_how_to_check(origin.proof)}
<p>Each change names the one before it, so none can be left out. Times are those of the blocks, in UTC.</p>
<h2>What it does not prove</h2>
<ul>{missing}</ul>
</body>
</html>
"""


def _change_times(proven: ProvenStatement) -> list[tuple[str, str]]:
    if not proven.entries:
        return []
    first, last = (entry.block.header.timestamp for entry in (proven.entries[0], proven.entries[-1]))
    return [("changes", f"{len(proven.entries):,}, from {utc(first)} to {utc(last)}")]


def _how_to_check(proof: str | None) -> str:
    if proof is None:
        return (
            "<p>This page was made from a proof that held, and that was not saved: <span class=code>cairn statement"
            "</span> saves it with <span class=code>-o FILE</span>. Paper proves nothing.</p>"
        )
    return f"""<p>This page was made from a proof that held. The proof is the JSON file below; paper proves nothing.
Anybody checks it without a node, with genesis.json of the chain (above is its digest):</p>
<p class="code">cairn check {escape(shlex.quote(proof))} --genesis genesis.json</p>"""


def _signed(wei: int) -> str:
    return f"+{in_coins(wei)}" if wei > 0 else in_coins(wei)


def _facts(pairs: list[tuple[str, str]]) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td class=code>{escape(value)}</td></tr>\n" for name, value in pairs)
    return f"<table class=facts>\n{rows}</table>"


def _page_rows(entry: StatementEntry, address: Address) -> str:
    lines: list[tuple[str, str, str, str]] = []
    for payment in entry.payments:
        tx = payment.tx
        is_sent = tx.sender == address
        what = "to itself" if tx.sender == tx.to else "sent to" if is_sent else "received from"
        other = escape(checksum_address(tx.to if is_sent else tx.sender))
        # In an element of its own, where text from right to left moves nothing else.
        told = f"<br><bdi>{escape(purpose(tx))}</bdi>" if tx.data else ""
        amount = in_coins(tx.value) if tx.sender == tx.to else _signed(-tx.value if is_sent else tx.value)
        fee = _signed(-tx.fee) if is_sent else ""
        lines.append((what, f"<span class=code>{other}</span>{told}", amount, fee))
    if entry.fees_earned:
        lines.append(("fees earned", "as proposer of the block", _signed(entry.fees_earned), ""))
    if entry.set_by_hand:
        lines.append(("set", set_text(entry), _signed(entry.set_by_hand), ""))
    lines = lines or [("touched", "", "", "")]
    place = f"<td>{entry.block.header.height}</td><td class=time>{utc(entry.block.header.timestamp)}</td>"
    rows = ""
    for number, (what, other, amount, fee) in enumerate(lines, 1):
        balance = in_coins(entry.after.balance) if number == len(lines) else ""
        cells = "".join(f"<td class=amount>{cell}</td>" for cell in (amount, fee, balance))
        rows += f"<tr>{place}<td>{what}</td><td>{other}</td>{cells}</tr>\n"
        place = "<td></td><td></td>"
    return rows
