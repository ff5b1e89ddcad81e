"""The picture of the dashboard: runs four validators under load, one of which is stopped for a while, under a real
Prometheus, asks it the dashboard's queries, and writes docs/images/dashboard.svg. `make pictures` runs it.
"""

import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import httpx

from cairn.domain.genesis import DEV_KEYS
from tests.support.monitoring import Monitoring, Targets, panels, query_of, show_metrics
from tests.support.network import Network
from tests.support.scratch import scratch_parent
from tests.support.steady_load import SteadyLoad

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "dashboard.svg"
SHOWN = [
    "Requests by route",
    "Answers by status",
    "Duration",
    "Refusals by code",
    "JSON-RPC by method",
    "Connections",
    "Transactions in blocks",
    "Mempool",
    "Block duration",
    "Journal sync",
    "Processor",
    "Missed blocks",
]
"""Panels of which there is room for a graph."""
BEFORE_S, AWAY_S, AFTER_S = 75, 30, 75
"""How long the run lasts before a validator is stopped, without it, and after its start."""
WARMING_UP_S = 10
"""Rates need some samples."""
STEP_S = 2
RATE_INTERVAL = "16s"
TRANSFERS_PER_SECOND = 15
"""Through each validator."""
READS_PER_SECOND = 30

WIDTH, COLUMNS, GAP = 1200, 3, 12
STAT_HEIGHT, GRAPH_HEIGHT = 74, 190
MOST_LINES = 6
MOST_CHARACTERS = 18
"""Of what stands below the title of a number."""
COLOURS = ("#0f766e", "#b45309", "#2563eb", "#9333ea", "#dc2626", "#65a30d")
STYLE = """
:root { --paper: #f2f4f7; --panel: #ffffff; --ink: #1d2939; --soft: #667085; --line: #d0d5dd; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #0d1117; --panel: #161b22; --ink: #e6edf3; --soft: #8b98a5; --line: #30363d; }
}
text { font: 11px system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; fill: var(--soft); }
.title { font-size: 13px; font-weight: 600; fill: var(--ink); }
.value { font-size: 24px; font-weight: 600; fill: #0f9d76; }
.paper { fill: var(--paper); }
.panel { fill: var(--panel); stroke: var(--line); }
.grid { stroke: var(--line); stroke-width: .6; }
polyline { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
"""


class Line(NamedTuple):
    name: str
    points: list[tuple[float, float]]
    """Seconds since the beginning, and the value."""


class Graph(NamedTuple):
    title: str
    unit: str
    lines: list[Line]


class Stat(NamedTuple):
    title: str
    text: str


def read_forever(urls: Sequence[str], ended: threading.Event) -> None:
    """What clients ask for besides: balances, blocks, JSON-RPC, and now and then something wrong."""
    address = "0x" + DEV_KEYS[0][0].hex()
    with httpx.Client(timeout=10) as client:
        count = 0
        while not ended.wait(1 / READS_PER_SECOND):
            url = urls[count % len(urls)]
            call = {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []}
            balance = call | {"method": "eth_getBalance", "params": [address, "latest"]}
            if count % 10 == 0:
                client.post(f"{url}/tx", json={"from": address})
            elif count % 3 == 0:
                client.post(f"{url}/rpc", json=balance if count % 2 else call)
            else:
                client.get(f"{url}/account/{address}" if count % 2 else f"{url}/block/latest")
            count += 1


@contextmanager
def load(urls: Sequence[str]) -> Iterator[None]:
    ended = threading.Event()
    reads = threading.Thread(target=read_forever, args=(urls, ended), daemon=True)
    with SteadyLoad(urls, TRANSFERS_PER_SECOND):
        reads.start()
        try:
            yield
        finally:
            ended.set()
            reads.join()


def run(directory: Path) -> tuple[list[Stat], list[Graph]]:
    """The numbers of a run."""
    with Network(directory / "network", linked=False) as network:
        targets = show_metrics(network)
        network.start()
        served, stopped = network.nodes[:3], network.nodes[3]
        with Monitoring([targets]) as monitoring, load([node.url for node in served]):
            time.sleep(WARMING_UP_S)
            began = time.time()
            time.sleep(BEFORE_S)
            stopped.stop()
            time.sleep(AWAY_S)
            stopped.start()
            time.sleep(AFTER_S)
            return (
                [stat_of(panel, monitoring) for panel in panels() if panel["type"] == "stat"],
                [graph_of(find_panel(title), monitoring, targets, began, time.time()) for title in SHOWN],
            )


def find_panel(title: str) -> Mapping[str, Any]:
    [panel] = [panel for panel in panels() if panel["title"] == title]
    return panel


def stat_of(panel: Mapping[str, Any], monitoring: Monitoring) -> Stat:
    [target], defaults = panel["targets"], panel["fieldConfig"]["defaults"]
    [result] = monitoring.query(query_of(target, "network", RATE_INTERVAL))
    if target["legendFormat"]:
        return Stat(panel["title"], named(target["legendFormat"], result["metric"]))
    value = float(result["value"][1])
    for mapping in defaults["mappings"]:
        if f"{value:g}" in mapping["options"]:
            return Stat(panel["title"], mapping["options"][f"{value:g}"]["text"])
    return Stat(panel["title"], shown(value, defaults["unit"]))


def graph_of(panel: Mapping[str, Any], monitoring: Monitoring, targets: Targets, began: float, ended: float) -> Graph:
    lines = []
    for target in panel["targets"]:
        for result in monitoring.query_range(query_of(target, "network", RATE_INTERVAL), began, ended, STEP_S):
            points = [(at - began, float(value)) for at, value in result["values"] if value != "NaN"]
            name = named(target["legendFormat"], result["metric"])
            for index in range(len(targets.nodes)):
                name = name.replace(targets.instance(index), f"node{index}")
            lines.append(Line(name, points))
    # Those that matter most, in a steady order.
    largest = sorted((line for line in lines if line.points), key=lambda line: -max(value for _, value in line.points))
    kept = sorted(largest[:MOST_LINES], key=lambda line: line.name)
    return Graph(panel["title"], panel["fieldConfig"]["defaults"]["unit"], kept)


def named(legend: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda label: labels.get(label[1], ""), legend)


def shown(value: float, unit: str) -> str:
    """A value as Grafana writes it, or nearly so."""
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 or value == 0 else f"{value * 1_000:.3g} ms"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "bytes":
        return f"{value / 1024**2:.3g} MiB"
    suffix = "/s" if unit == "reqps" else ""
    return f"{value:,.0f}{suffix}" if value >= 1_000 else f"{value:.3g}{suffix}"


def draw(stats: Sequence[Stat], graphs: Sequence[Graph]) -> str:
    """The whole picture."""
    stat_width = (WIDTH - GAP) / len(stats) - GAP
    graph_width = (WIDTH - GAP) / COLUMNS - GAP
    rows = -(-len(graphs) // COLUMNS)
    height = GAP + STAT_HEIGHT + GAP + rows * (GRAPH_HEIGHT + GAP)
    top = STAT_HEIGHT + 2 * GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-label="The dashboard">',
        "<title>The dashboard</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>',
        *(draw_stat(stat, GAP + index * (stat_width + GAP), GAP, stat_width) for index, stat in enumerate(stats)),
        *(
            draw_graph(
                graph,
                GAP + index % COLUMNS * (graph_width + GAP),
                top + index // COLUMNS * (GRAPH_HEIGHT + GAP),
                graph_width,
            )
            for index, graph in enumerate(graphs)
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def draw_stat(stat: Stat, x: float, y: float, width: float) -> str:
    text = stat.text if len(stat.text) < MOST_CHARACTERS else stat.text[:MOST_CHARACTERS]
    size = "" if len(stat.text) < 12 else ' style="font-size: 15px"'
    return (
        f'<rect class="panel" x="{x:g}" y="{y:g}" width="{width:g}" height="{STAT_HEIGHT}" rx="5"/>'
        f'<text class="title" x="{x + 10:g}" y="{y + 20:g}">{escape(stat.title)}</text>'
        f'<text class="value" x="{x + 10:g}" y="{y + 56:g}"{size}>{escape(text)}</text>'
    )


def draw_graph(graph: Graph, x: float, y: float, width: float) -> str:
    left, right = x + 56, x + width - 10
    top, bottom = y + 32, y + GRAPH_HEIGHT - 50
    latest = max((at for line in graph.lines for at, _ in line.points), default=0) or 1
    most = max((value for line in graph.lines for _, value in line.points), default=0) or 1
    parts = [
        f'<rect class="panel" x="{x:g}" y="{y:g}" width="{width:g}" height="{GRAPH_HEIGHT}" rx="5"/>'
        f'<text class="title" x="{x + 10:g}" y="{y + 20:g}">{escape(graph.title)}</text>'
    ]
    for share in (0, 0.5, 1):
        level = bottom - share * (bottom - top)
        parts.append(
            f'<path class="grid" d="M{left:g} {level:g}H{right:g}"/><text x="{left - 6:g}" y="{level + 4:g}" '
            f'text-anchor="end">{escape(shown(share * most, graph.unit))}</text>'
        )
    for line, colour in zip(graph.lines, COLOURS, strict=False):
        for piece in pieces(line.points):
            places = " ".join(
                f"{left + at / latest * (right - left):.0f},{bottom - value / most * (bottom - top):.1f}"
                for at, value in piece
            )
            parts.append(f'<polyline stroke="{colour}" points="{places}"/>')
    return "\n".join([*parts, *draw_legend(graph.lines, x + 10, bottom + 20, width - 20)])


def pieces(points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """The points without those gaps in which there was no value."""
    found: list[list[tuple[float, float]]] = []
    for point in points:
        if not found or point[0] - found[-1][-1][0] > 2 * STEP_S:
            found.append([])
        found[-1].append(point)
    return found


def draw_legend(lines: Sequence[Line], x: float, y: float, width: float) -> Iterator[str]:
    each = width / 3
    for index, (line, colour) in enumerate(zip(lines, COLOURS, strict=False)):
        left, top = x + index % 3 * each, y + index // 3 * 16
        room = int((each - 20) / 6.2)
        text = line.name if len(line.name) <= room else line.name[: room - 1] + "…"
        yield (
            f'<path stroke="{colour}" stroke-width="2.5" d="M{left:g} {top - 4:g}h10"/>'
            f'<text x="{left + 14:g}" y="{top:g}">{escape(text)}</text>'
        )


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="cairn-net-", dir=scratch_parent()) as directory:
        PICTURE.write_text(draw(*run(Path(directory))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
