"""A checked statement as a page to print: the same words as on the screen."""

import shlex
from html import escape

from cairn.cli.proofs.report import CheckedFile, Pairs, Report
from cairn.cli.proofs.statement_lines import HEADINGS, StatementLine
from cairn.domain.crypto import checksum_address
from cairn.domain.statement_checks import ProvenStatement

_CLASSES = ("", "time", "", "amount", "amount", "amount", "code", "")
"""Of the cells of a line."""

_STYLE = """
body { font: 11pt/1.4 system-ui, sans-serif; color: #111; max-width: 66rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .25rem .75rem .25rem 0;
vertical-align: top; border-bottom: 1px solid #ccc } th { font-weight: 600 }
.changes { font-size: 9pt } .changes td:last-child { overflow-wrap: anywhere } .time { white-space: nowrap }
.amount { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
.code { font: 8pt/1.4 ui-monospace, monospace; overflow-wrap: anywhere }
th.code { font: inherit; font-weight: 600 }
.facts th { width: 8rem; white-space: nowrap }
thead { display: table-header-group } tr { break-inside: avoid }
@page { size: landscape; margin: 15mm }
@media print { body { margin: 0; max-width: none } }
"""


def statement_page(report: Report, proven: ProvenStatement, file: CheckedFile) -> str:
    """One file that asks for nothing else, made to be printed."""
    head = "".join(f'<th class="{name}">{heading}</th>' for name, heading in zip(_CLASSES, HEADINGS, strict=True))
    changes = "".join(map(_row, report.lines))
    empty = "" if report.lines else "<p>Nothing happened to the account in these blocks.</p>"
    missing = "".join(f"<li>{escape(text)}</li>" for text in report.limits)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Statement of {checksum_address(proven.address)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Statement of account</h1>
<p>{escape(report.headline)}.</p>
{_facts(report.subject)}
<h2>Changes</h2>
{empty}<table class=changes><thead><tr>{head}</tr></thead><tbody>
{changes}</tbody></table>
<p>All amounts are in coins. Each change names the one before it, so none can be left out.</p>
<h2>Who signed it</h2>
{_facts(report.finality)}
<h2>How to check it</h2>
{_facts(report.file)}
{_how_to_check(file.name)}
<h2>What it does not prove</h2>
<ul>{missing}</ul>
</body>
</html>
"""


def _how_to_check(proof: str | None) -> str:
    if proof is None:
        return (
            "<p>This page was made from a proof that held, and that was not saved: <span class=code>cairn statement"
            "</span> saves it with <span class=code>-o FILE</span>. Paper proves nothing.</p>"
        )
    return f"""<p>This page was made from a proof that held. The proof is the JSON file above; paper proves nothing.
Anybody checks it without a node, with genesis.json of the chain (above is its digest):</p>
<p class="code">cairn check {escape(shlex.quote(proof))} --genesis genesis.json</p>"""


def _facts(pairs: Pairs) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td class=code>{escape(value)}</td></tr>\n" for name, value in pairs)
    return f"<table class=facts>\n{rows}</table>"


def _row(line: StatementLine) -> str:
    # Each in an element of its own, where text from right to left moves nothing else.
    cells = [f"<bdi>{escape(cell)}</bdi>" for cell in line.cells()]
    row = "".join(f'<td class="{name}">{cell}</td>' for name, cell in zip(_CLASSES, cells, strict=True))
    return f"<tr>{row}</tr>\n"
