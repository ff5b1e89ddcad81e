"""The figures of docs/performance.md, from the committed benchmark."""

import json
import re
from pathlib import Path

from tools.reference.wording import table

DOCS = Path(__file__).parents[2] / "docs"
SHOWN = {
    "transactions accepted/s": "payments accepted and on disk, a second",
    "transactions confirmed/s": "payments confirmed, a second",
    "submission answered, p50, ms": "`POST /tx` answered, half of them within, ms",
    "submission answered, p99, ms": "`POST /tx` answered, 99 % of them within, ms",
    "CPU a confirmed transaction, µs": "CPU for a confirmed payment, all processes, µs",
    "transaction by hash/s": "payments looked up, a second",
    "account's balance/s": "balances read, a second",
    "mixed: 9 reads for each write/s": "9 reads for each payment, requests a second",
    "10,000 sockets: submission to the last one, ms": "a new block told to 10,000 WebSockets, ms",
    "start to the first answer, s": "start to the first answer, s",
    "memory at rest (PSS), MB": "memory of a new node, MB",
}
"""The rows of docs/benchmarks.md that say how large a machine must be, in a reader's words."""


NETWORK = {
    "Cairn: transactions confirmed a second": "payments confirmed, a second",
    "Cairn at 60/s: POST to confirmed, p50, ms": "`POST /tx` to confirmed, half of them within, ms, at 60 a second",
    "Cairn at 60/s: CPU a transaction, four nodes, ms": "CPU for a payment, all four nodes, ms, at 60 a second",
}


def figures() -> str:
    """Those of Cairn, with the machine. Raises `LookupError` when the benchmark has no such row any more."""
    page = (DOCS / "benchmarks.md").read_text()
    rows = [(said, *_cells(page, name, 2)) for name, said in SHOWN.items()]
    run = json.loads((DOCS / "benchmarks.json").read_text())
    machine = run["machine"]
    about = (
        f"On {machine['cores']} cores of {machine['processor']}, {machine['memory_gb']:.0f} GB of memory, "
        f"{machine['system']}, Python {machine['python']}, {run['date']}. The load generator runs on the same cores."
    )
    return table(("one node", "REST", "JSON-RPC"), rows) + "\n\n" + about


def network_figures() -> str:
    page = (DOCS / "benchmarks.md").read_text()
    rows = [(said, _cells(page, name, 1)[0]) for name, said in NETWORK.items()]
    note = "\n\n\\* Other programs used the machine during every run." if any("*" in each for _, each in rows) else ""
    return table(("four validators on that machine", ""), rows) + note


def _cells(page: str, name: str, count: int) -> tuple[str, ...]:
    """The first cells of a row of the benchmark."""
    found = re.search(rf"^\| {re.escape(name)} " + r"\| ([^|]*) " * count + r"\|", page, re.MULTILINE)
    if found is None:
        raise LookupError(f"docs/benchmarks.md has no row {name!r}")
    return found.groups()
