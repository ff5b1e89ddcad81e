"""The marked places of the pages, and what stands in them: made from the program or from README.md, and committed.

A place is between two comments, `<!-- reference: NAME -->` and `<!-- end of reference -->`. What is made names pages by
their path in the repository (`docs/errors.md`); in its place a link leads there from the page.
"""

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tools.reference import client, commands, comparison, events, figures, readme, rest, settings

ROOT = Path(__file__).parents[2]
PLACE = re.compile(r"^<!-- reference: (.*?) -->\n(.*?)^<!-- end of reference -->$", re.MULTILINE | re.DOTALL)
OPENING = re.compile(r"^<!-- reference: ", re.MULTILINE)
LINK = re.compile(r"(\]\(|=\")(docs/[^)\"#]*)(#[^)\"]*)?(?=[)\"])")
PARTS: dict[str, Callable[..., str]] = {
    "class": client.described_class,
    "client errors": client.errors,
    "client answers": client.answers,
    "commands": commands.commands,
    "comparison": comparison.comparison,
    "common problems": rest.common_problems,
    "endpoints": rest.endpoints,
    "errors": rest.errors,
    "figures": figures.figures,
    "list of endpoints": rest.list_of_endpoints,
    "messages": events.messages,
    "network figures": figures.network_figures,
    "README": readme.section,
    "README introduction": readme.introduction,
    "README lead": readme.lead,
    "schemas": rest.schemas,
    "settings": settings.settings,
}
"""By the first word of a place's name; what follows a comma is its argument."""


def pages() -> Iterator[Path]:
    """Those with a place; README first, which others take parts of."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if OPENING.search(page.read_text()):
            yield page


def filled(page: Path) -> str:
    """The page as it should be. Raises `LookupError` for a place that nothing is made for, or that has no end."""
    text = page.read_text()
    made = PLACE.sub(partial(_fill, page), text)
    if len(PLACE.findall(text)) != len(OPENING.findall(text)):
        raise LookupError(f"{page}: a place has no end")
    return made


def _fill(page: Path, place: re.Match[str]) -> str:
    name, _, argument = place[1].partition(", ")
    if name not in PARTS:
        raise LookupError(f"{page}: there is no reference called {name!r}")
    made = PARTS[name](argument) if argument else PARTS[name]()
    linked = LINK.sub(partial(_link, page), made.strip())
    return f"<!-- reference: {place[1]} -->\n\n{linked}\n\n<!-- end of reference -->"


def _link(page: Path, link: re.Match[str]) -> str:
    """A link that leads to the same place from the page."""
    anchor = link[3] or ""
    if anchor and ROOT / link[2] == page:
        return link[1] + anchor
    return link[1] + os.path.relpath(ROOT / link[2], page.parent) + anchor
