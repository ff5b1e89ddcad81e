"""What README.md and the first page of the site share: README's own text, so that there is one source."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
MARK = re.compile(r"^<!-- (?:reference: .*|end of reference) -->\n\n?", re.MULTILINE)
"""Around a place of README's own: a place holds no other."""
BEYOND = re.compile(r"\[([^]]*)\]\((?!docs/|#|https?:)[^)]*\)")
"""A link to a file that the site does not have."""
OPENING = re.compile(r"\A# .*?\n\n(.*?\n)\n(.*?)(?=^## )", re.MULTILINE | re.DOTALL)


def lead() -> str:
    """README's first paragraph."""
    return _opening()[1]


def introduction() -> str:
    """What stands between the first paragraph and the first section."""
    return _opening()[2]


def section(heading: str) -> str:
    """A section with its heading. Raises `LookupError`."""
    found = re.search(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", README.read_text(), re.MULTILINE | re.DOTALL)
    if found is None:
        raise LookupError(f"README.md has no section {heading!r}")
    return BEYOND.sub(r"\1", MARK.sub("", found[0]))


def _opening() -> re.Match[str]:
    found = OPENING.search(README.read_text())
    if found is None:
        raise LookupError("README.md does not begin with a title, a paragraph and an introduction")
    return found
