"""Hooks of MkDocs: what search shows first, and its name. Guides rank before references, those before decisions."""

from typing import Any

BOOSTS = {
    "adr/": 0.0001,
    "rest/schemas.md": 0.001,
    "client-reference.md": 0.001,
    "invariants.md": 0.01,
    "formats.md": 0.01,
    "architecture.md": 0.1,
    "commands.md": 0.1,
    "rest/": 0.5,
}
"""By how a page's path begins; all others count fully. A word in a heading counts a thousand times one in the text."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    for beginning, boost in BOOSTS.items():
        if page.file.src_uri.startswith(beginning):
            page.meta.setdefault("search", {"boost": boost})
            break
    return markdown


def on_post_page(output: str, **_: Any) -> str:
    """Name the theme's dialog for who cannot see it: a screen reader would say no more than that it is one."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)


def on_post_template(output_content: str, **_: Any) -> str:
    """Name it on the page for addresses that do not exist, too."""
    return on_post_page(output_content)
