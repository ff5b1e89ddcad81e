"""The pages for people: the explorer and the API reference. They are plain files; `cairn.api` serves them."""

from pathlib import Path

STATIC_DIRECTORY = Path(__file__).parent / "static"
"""Everything that the explorer loads: modules, styles and pictures, as a browser takes them."""
REFERENCE_DIRECTORY = Path(__file__).parent / "reference"
"""What the API reference loads beside files of the explorer."""
