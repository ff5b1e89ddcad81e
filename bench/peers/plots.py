"""Bar charts as SVG, readable on light and on dark pages."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from bench.peers.chains import TARGETS
from bench.peers.report import number
from bench.peers.rows import ROWS, Row
from bench.peers.samples import Sample, figure

WIDTH, BAR, GAP, LABEL, VALUE, TITLE = 420, 18, 6, 92, 84, 34
COLUMNS = 2
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.title { font-weight: 600; }
.note { fill: #57606a; font-size: 12px; }
.ours { fill: #1b7f79; }
.peer { fill: #9aa4af; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .note { fill: #9aa4af; }
  .ours { fill: #3fb8af; }
  .peer { fill: #5c6773; }
}
"""


def chart(row: Row, values: Sequence[tuple[str, float, bool]], x: float, y: float) -> str:
    """One row as bars: label, value and whether it is ours. The longest bar is the largest value."""
    most = max(value for _, value, _ in values) or 1.0
    better = "more is better" if row.more_is_better else "less is better"
    parts = [f'<text class="title" x="{x}" y="{y + 16}">{escape(row.label)}</text>']
    parts.append(f'<text class="note" x="{x + WIDTH}" y="{y + 16}" text-anchor="end">{row.unit}, {better}</text>')
    room = WIDTH - LABEL - VALUE
    for at, (label, value, is_ours) in enumerate(values):
        top = y + TITLE + at * (BAR + GAP) - 8
        long = max(1.0, room * value / most)
        kind = "ours" if is_ours else "peer"
        parts += [
            f'<text x="{x + LABEL - 8}" y="{top + 13}" text-anchor="end">{escape(label)}</text>',
            f'<rect class="{kind}" x="{x + LABEL}" y="{top}" width="{long:.1f}" height="{BAR}" rx="3"/>',
            f'<text x="{x + LABEL + long + 6:.1f}" y="{top + 13}">{number(value)}</text>',
        ]
    return "\n".join(parts)


def height_of(bars: int) -> int:
    return TITLE + bars * (BAR + GAP) + 14


def plot(samples: Sequence[Sample], rows: Sequence[Row] = ROWS) -> str:
    """All plotted rows, two beside each other."""
    charts = []
    for row in rows:
        values = []
        for name, target in TARGETS.items():
            found = figure(samples, name, row.key, row.measurement)
            if found is not None and found.value is not None:
                values.append((target.label, found.value, target.is_ours))
        if row.is_plotted and values:
            charts.append((row, values))
    most_bars = max((len(values) for _, values in charts), default=0)
    step = height_of(most_bars)
    lines = -(-len(charts) // COLUMNS)
    wide, high = COLUMNS * WIDTH + 3 * 20, lines * step + 20
    drawn = [
        chart(row, values, 20 + (at % COLUMNS) * (WIDTH + 20), 10 + at // COLUMNS * step)
        for at, (row, values) in enumerate(charts)
    ]
    title = "Cairn beside geth, anvil, hardhat and ganache"
    size = f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n" + "\n".join(drawn) + "\n</svg>\n"
    )


def save_plot(samples: Sequence[Sample], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plot(samples))
