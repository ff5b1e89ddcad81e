"""README's table of figures: a few rows of docs/benchmarks.json, and what a million payments take by a report."""

import re
from collections.abc import Iterator
from pathlib import Path

from bench.peers.report import cell, figure_of, number
from bench.peers.rows import BY_KEY
from bench.peers.samples import Results, load
from tools.reference.wording import table

ROOT = Path(__file__).parents[2]
RAW = ROOT / "docs" / "benchmarks.json"
SHOWN = {"cairn-rest": "Cairn", "geth": "geth", "anvil": "anvil", "hardhat": "hardhat"}
LABELS = {
    "accepted_per_s": "payments accepted a second",
    "confirmed_per_s": "payments confirmed a second",
    "post_p50_ms": "a payment is answered, median, ms",
    "post_p99_ms": "a payment is answered, 99th percentile, ms",
    "instant_p50_ms": "a block for each payment: payment to receipt, median, ms",
    "tx_per_s": "transactions read by hash a second",
    "account_per_s": "balances read a second",
    "idle_pss_mb": "memory at rest, MB",
}
OF_A_MILLION = {
    "memory with a million payments, each to a new account, MB": (
        r"memory of all processes \(PSS\), with 1,000,000 \| ([\d,]+) MB",
        1,
    ),
    "disk for a million payments, each to a new account, MB": (r"disk, without the journal \| ([\d,]+) bytes", 10**6),
}
NONE = "–"


def comparison(report: str = "") -> str:
    """The table, and what it was measured on. `report` is the path of the report on a million payments."""
    results = load(RAW)
    rows = [*_compared(results), *(_of_a_million((ROOT / report).read_text()) if report else ())]
    disturbed = "\n\n\\* The machine was disturbed in every run of this figure." if "\\*" in str(rows) else ""
    return f"{table(('', *SHOWN.values()), rows)}{disturbed}\n\n{_measured(results)}"


def _compared(results: Results) -> Iterator[tuple[str, ...]]:
    for key, label in LABELS.items():
        cells = [cell(figure_of(results.samples, BY_KEY[key], target)) for target in SHOWN]
        # A run that failed says nothing about how fast a program is.
        yield label, *(NONE if each == "failed" else each for each in cells)


def _of_a_million(report: str) -> Iterator[tuple[str, ...]]:
    """What they take by the report. Raises `LookupError` if it does not say that."""
    for label, (pattern, unit) in OF_A_MILLION.items():
        found = re.search(pattern, report)
        if found is None:
            raise LookupError(f"the report on a million payments does not say: {label}")
        yield label, number(int(found[1].replace(",", "")) / unit), *[NONE] * (len(SHOWN) - 1)


def _measured(results: Results) -> str:
    machine = results.machine
    versions = ", ".join(f"{name} {results.versions[name]}" for name in SHOWN if name in results.versions)
    return (
        f"Measured on {results.date} on {machine.cores} cores of {machine.processor} with {machine.memory_gb:.0f} GB "
        f"of memory, {machine.disk}, {machine.system}, beside {versions}."
    )
