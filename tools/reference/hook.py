"""A hook of MkDocs: fills the marked places of the reference pages from the program itself.

A place is a comment, `<!-- reference: NAME -->`: who reads the page in the repository sees the text around it.
"""

import re
from typing import Any

from mkdocs.exceptions import PluginError

from tools.reference import events, rest

PLACE = re.compile(r"^<!-- reference: (.*?) -->$", re.MULTILINE)
PARTS = {
    "endpoints": rest.endpoints,
    "common problems": rest.common_problems,
    "schemas": rest.schemas,
    "errors": rest.errors,
    "messages": events.messages,
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    return PLACE.sub(fill, markdown)


def fill(place: re.Match[str]) -> str:
    name = place[1]
    if name.startswith("cairn."):
        # mkdocstrings reads the docstrings of this module. A client's reads are in a class that it extends.
        return f"::: {name}\n    options:\n      inherited_members: {name.endswith('Client')}"
    if name not in PARTS:
        raise PluginError(f"there is no reference called {name!r}")
    return PARTS[name]()
