"""The explorer: a page that shows the chain to a person. It is plain files; `cairn.api` serves them."""

from pathlib import Path

STATIC_DIRECTORY = Path(__file__).parent / "static"
"""Everything that the page loads: modules, styles and pictures, as a browser takes them."""
