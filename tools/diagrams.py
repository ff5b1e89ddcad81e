"""The diagrams of the docs: draws docs/images/NAME.svg from docs/images/src/NAME.toml. `make generate` runs it.

A source has a `title`, a `description` for those who cannot see the picture, its `size`, and in pixels:

    [[box]]    id, at = [x, y], size = [w, h], title, lines, kind (process, disk, actor or area), align = "left"
    [[arrow]]  path = ["ID side", "ID side"], text, shift = [x, y]: sides are left, right, top and bottom;
               a fraction moves along the side ("core left 0.3")

An SVG has its own background and follows the reader's light or dark scheme, wherever it is shown.
"""

import sys
import tomllib
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

IMAGES = Path(__file__).parents[1] / "docs" / "images"
Json = dict[str, Any]

LINE = 18
CHARACTER = 6.9
"""Widest average of a character at 13 px, in pixels; a test holds each text to it."""

STYLE = """
:root { --paper: #ffffff; --ink: #1d2939; --soft: #475467; --line: #98a2b3; --process: #e6f4f1; --process-line: #0f766e;
  --disk: #fdf0d5; --disk-line: #b45309; --actor: #eef2f6; --actor-line: #667085; --area: #f9fafb; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #161b22; --ink: #e6edf3; --soft: #a8b3bf; --line: #6e7a87; --process: #12312e;
    --process-line: #5eead4; --disk: #3a2a10; --disk-line: #fbbf24; --actor: #222b36; --actor-line: #8b98a5;
    --area: #1b222b; }
}
text { font: 13px system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; fill: var(--soft); }
.title { font-weight: 600; fill: var(--ink); }
.paper { fill: var(--paper); stroke: var(--line); stroke-opacity: .4; }
.process { fill: var(--process); stroke: var(--process-line); }
.disk { fill: var(--disk); stroke: var(--disk-line); }
.actor { fill: var(--actor); stroke: var(--actor-line); }
.area { fill: var(--area); stroke: var(--line); stroke-dasharray: 4 4; }
.arrow { fill: none; stroke: var(--line); stroke-width: 1.6; }
.tip { fill: var(--line); }
"""


def render(source: Json) -> str:
    width, height = source["size"]
    boxes = {box["id"]: box for box in source["box"]}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label={quoteattr(source["title"])}>',
        f"<title>{escape(source['title'])}</title>",
        f"<desc>{escape(source['description'])}</desc>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>',
        f'<rect class="paper" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="10"/>',
        *(draw_box(box) for box in source["box"]),
        *(draw_arrow(arrow, boxes) for arrow in source.get("arrow", [])),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def draw_box(box: Json) -> str:
    (x, y), (width, height) = box["at"], box["size"]
    kind = box.get("kind", "process")
    rows = [("title", box["title"]), *(("", line) for line in box.get("lines", []))]
    is_area = kind == "area"
    top = y + 20 if is_area else y + height / 2 - LINE * (len(rows) - 1) / 2 + 4.5
    left, anchor = (x + 12, "start") if box.get("align") == "left" else (x + width / 2, "middle")
    texts = [
        f'<text class="{style}" x="{left:g}" y="{top + LINE * number:g}" text-anchor="{anchor}">{escape(text)}</text>'
        for number, (style, text) in enumerate(rows)
    ]
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>' + "".join(texts)


def draw_arrow(arrow: Json, boxes: dict[str, Json]) -> str:
    (x1, y1), (x2, y2) = (point(end, boxes) for end in arrow["path"])
    sides = {"upright" if is_upright(end) else "level" for end in arrow["path"]}
    if x1 == x2 or y1 == y2:
        path = f"M{x1:g} {y1:g}L{x2:g} {y2:g}"
    elif sides == {"upright", "level"}:
        path = f"M{x1:g} {y1:g}V{y2:g}H{x2:g}" if is_upright(arrow["path"][0]) else f"M{x1:g} {y1:g}H{x2:g}V{y2:g}"
    elif sides == {"level"}:
        path = f"M{x1:g} {y1:g}H{(x1 + x2) / 2:g}V{y2:g}H{x2:g}"
    else:
        path = f"M{x1:g} {y1:g}V{(y1 + y2) / 2:g}H{x2:g}V{y2:g}"
    start = ' marker-start="url(#tip)"' if arrow.get("both") else ""
    drawn = f'<path class="arrow" d="{path}"{start} marker-end="url(#tip)"/>'
    if "text" not in arrow:
        return drawn
    dx, dy = arrow.get("shift", (0, -8))
    lines = arrow["text"].split("\n")
    anchor = arrow.get("anchor", "middle")
    return drawn + "".join(
        f'<text x="{(x1 + x2) / 2 + dx:g}" y="{(y1 + y2) / 2 + dy + LINE * number:g}" text-anchor="{anchor}">'
        f"{escape(line)}</text>"
        for number, line in enumerate(lines)
    )


def is_upright(end: str) -> bool:
    return end.split()[1] in ("top", "bottom")


def point(end: str, boxes: dict[str, Json]) -> tuple[float, float]:
    """Where an arrow touches a box: `ID side`, and how far along that side."""
    name, side, *along = end.split()
    (x, y), (width, height) = boxes[name]["at"], boxes[name]["size"]
    share = float(along[0]) if along else 0.5
    return {
        "left": (x, y + share * height),
        "right": (x + width, y + share * height),
        "top": (x + share * width, y),
        "bottom": (x + share * width, y + height),
    }[side]


def sources() -> dict[str, Json]:
    return {path.stem: tomllib.loads(path.read_text()) for path in sorted((IMAGES / "src").glob("*.toml"))}


def main() -> int:
    for name, source in sources().items():
        (IMAGES / f"{name}.svg").write_text(render(source))
    return 0


if __name__ == "__main__":
    sys.exit(main())
