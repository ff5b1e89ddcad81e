"""The terminal recording of README: runs `cairn dev` and curl, and writes what they print as docs/images/terminal.svg.

Nothing is typed by hand: the commands are README's, the answers a real node's. `make recording` runs it.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "terminal.svg"
SHOWN_PORT, PORT = ":8645", ":18645"
"""What README shows, and what is used here: another node may hold the usual one."""
COLUMNS = 92
CHARACTER, LINE, MARGIN = 7.8, 19, 18
PAUSE_S, LINE_S = 1.2, 0.12
"""Before a command, and between two lines of its output."""
SHOWN_OF_BANNER = 5
"""Its first lines; the last one says that it listens."""

STYLE = """
.paper { fill: #10171e; }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #c9d4df;
  white-space: pre; }
.typed { fill: #5eead4; }
@media (prefers-reduced-motion: no-preference) {
  text { opacity: 0; animation: shown .01s linear var(--at) forwards; }
}
@keyframes shown { to { opacity: 1; } }
"""


class Row(NamedTuple):
    at_s: float
    text: str
    is_typed: bool


def wrapped(text: str) -> list[str]:
    return [
        line[start : start + COLUMNS] for line in text.splitlines() for start in range(0, max(1, len(line)), COLUMNS)
    ]


def rows_of(session: Sequence[tuple[str, str]]) -> list[Row]:
    """Every line of a session, and when it appears."""
    rows: list[Row] = []
    at_s = 0.0
    for command, output in session:
        at_s += PAUSE_S
        for line in wrapped(f"$ {command}"):
            rows.append(Row(at_s, line, is_typed=True))
        at_s += PAUSE_S / 2
        for line in wrapped(output):
            at_s += LINE_S
            rows.append(Row(at_s, line, is_typed=False))
    return rows


def render(rows: Sequence[Row]) -> str:
    width, height = round(2 * MARGIN + COLUMNS * CHARACTER), 2 * MARGIN + LINE * len(rows)
    texts = (
        f'<text class="{"typed" if row.is_typed else "shown"}" x="{MARGIN}" y="{MARGIN + LINE * number + 13}" '
        f'style="--at:{row.at_s:.2f}s">{escape(row.text)}</text>'
        for number, row in enumerate(rows)
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'role="img" aria-label="A terminal: cairn dev starts a chain, curl pays on it">',
            f"<style>{STYLE}</style>",
            f'<rect class="paper" width="{width}" height="{height}" rx="10"/>',
            *texts,
            "</svg>\n",
        ]
    )


def record() -> list[tuple[str, str]]:
    """A session with a real node. Raises `CalledProcessError`, or `LookupError` when the node does not start."""
    commands = re.findall(r"^\$ (curl .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    cairn = shutil.which("cairn", path=str(Path(sys.executable).parent)) or "cairn"
    with subprocess.Popen([cairn, "dev", "--port", PORT[1:]], stdout=subprocess.PIPE, text=True) as node:
        try:
            session = [("cairn dev", banner_of(node))]
            for line in commands:
                command = with_hash_of(session[-1][1], line)
                session.append((command, run(command)))
        finally:
            node.terminate()
    return session


def banner_of(node: subprocess.Popen[str]) -> str:
    lines: list[str] = []
    for line in node.stdout or ():
        lines.append(line.rstrip("\n"))
        if line.startswith("Listening on"):
            return "\n".join([*lines[:SHOWN_OF_BANNER], "…", lines[-1]]).replace(PORT, SHOWN_PORT)
    raise LookupError("the node does not start")


def with_hash_of(answer: str, command: str) -> str:
    """README's command, for the transaction that was made here."""
    made = re.search(r'"txHash":"(0x[0-9a-f]{64})"', answer)
    return re.sub(r"/tx/0x[0-9a-f]{64}", f"/tx/{made[1]}", command) if made else command


def run(command: str) -> str:
    return subprocess.run(
        command.replace(SHOWN_PORT, PORT), shell=True, check=True, capture_output=True, text=True
    ).stdout


def main() -> int:
    PICTURE.write_text(render(rows_of(record())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
