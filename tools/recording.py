"""The recording of README's two terminals: runs `cairn dev` and curl, and writes docs/images/terminal.svg.

Nothing is typed by hand: the commands are README's, the answers a real node's. `make pictures` runs it.
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
GAP = 14
"""Between the two windows."""
CHARACTER, LINE, MARGIN = 7.8, 19, 18
TITLE = 30
"""The height of a terminal's title bar."""
PAUSE_S, LINE_S = 1.2, 0.12
"""Before a command, and between two lines of its output."""
SHOWN_OF_BANNER = 5
"""Its first lines; the last one says that it listens."""

STYLE = """
.paper { fill: #10171e; }
.bar { fill: #1d2833; }
.title { fill: #8fa3b5; }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #c9d4df;
  white-space: pre; }
.typed { fill: #5eead4; }
@media (prefers-reduced-motion: no-preference) {
  .typed, .shown { opacity: 0; animation: shown .01s linear var(--at) forwards; }
}
@keyframes shown { to { opacity: 1; } }
"""


class Row(NamedTuple):
    at_s: float
    text: str
    is_typed: bool


class Window(NamedTuple):
    """A terminal, and what appears in it."""

    title: str
    rows: Sequence[Row]


def wrapped(text: str) -> list[str]:
    return [
        line[start : start + COLUMNS] for line in text.splitlines() for start in range(0, max(1, len(line)), COLUMNS)
    ]


def rows_of(session: Sequence[tuple[str, str]], at_s: float = 0.0) -> list[Row]:
    """Every line of a session that begins at `at_s`, and when it appears."""
    rows: list[Row] = []
    for command, output in session:
        at_s += PAUSE_S
        for line in wrapped(f"$ {command}"):
            rows.append(Row(at_s, line, is_typed=True))
        at_s += PAUSE_S / 2
        for line in wrapped(output):
            at_s += LINE_S
            rows.append(Row(at_s, line, is_typed=False))
    return rows


def render(windows: Sequence[Window]) -> str:
    """The windows, one below the other."""
    width, top = round(2 * MARGIN + COLUMNS * CHARACTER), 0
    drawn: list[str] = []
    for window in windows:
        height = TITLE + 2 * MARGIN + LINE * len(window.rows)
        drawn += [
            f'<rect class="paper" y="{top}" width="{width}" height="{height}" rx="10"/>',
            f'<rect class="bar" y="{top}" width="{width}" height="{TITLE}" rx="10"/>',
            f'<text class="title" x="{MARGIN}" y="{top + 20}">{escape(window.title)}</text>',
            *(_line(row, top + TITLE + MARGIN + LINE * number + 13) for number, row in enumerate(window.rows)),
        ]
        top += height + GAP
    height = top - GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'role="img" aria-label="Two terminals: cairn dev runs a chain in one, and curl pays on it in the other">',
            f"<style>{STYLE}</style>",
            *drawn,
            "</svg>\n",
        ]
    )


def _line(row: Row, y: int) -> str:
    kind = "typed" if row.is_typed else "shown"
    return f'<text class="{kind}" x="{MARGIN}" y="{y}" style="--at:{row.at_s:.2f}s">{escape(row.text)}</text>'


def record() -> list[Window]:
    """A session with a real node. Raises `CalledProcessError`, or `LookupError` when the node does not start."""
    section = (ROOT / "README.md").read_text().partition("\n## Try it\n")[2].partition("\n## ")[0]
    commands = re.findall(r"^\$ (curl .*)$", section, re.MULTILINE)
    cairn = shutil.which("cairn", path=str(Path(sys.executable).parent)) or "cairn"
    with subprocess.Popen([cairn, "dev", "--port", PORT[1:]], stdout=subprocess.PIPE, text=True) as node:
        try:
            banner = banner_of(node)
            session: list[tuple[str, str]] = []
            for line in commands:
                command = with_hash_of(session[-1][1] if session else "", line)
                session.append((command, run(command)))
        finally:
            node.terminate()
        told = [] if node.stdout is None else node.stdout.read().splitlines()
    return arranged(banner, told, session)


def arranged(banner: str, told: Sequence[str], session: Sequence[tuple[str, str]]) -> list[Window]:
    """The node's terminal and the client's: what the node tells of a payment appears when that is confirmed."""
    node = rows_of([("cairn dev", banner)])
    client = rows_of(session, node[-1].at_s)
    # The second command waits for the block.
    second = [row for row in client if row.is_typed and row.text.startswith("$ ")][1]
    after = next(row.at_s for row in client if not row.is_typed and row.at_s > second.at_s)
    node += [Row(after, line, is_typed=False) for text in told for line in wrapped(text)]
    return [Window("Terminal 1: the node", node), Window("Terminal 2: you", client)]


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
    PICTURE.write_text(render(record()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
