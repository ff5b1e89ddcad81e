"""docs/logs.md lists every line that the node logs, with its level, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (?!line |---)(.+?) \| (\w+) \| .*\|$", re.MULTILINE)
LEVELS = {"debug", "info", "warning", "error", "critical"}


def logged_in(source: str) -> Iterator[tuple[str, str]]:
    """Text and level of each call that logs; a call of `tell` has the level that it was given."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        called, text = node.func, str(node.args[0].value)
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "log":
            level = "error" if called.attr == "exception" else called.attr
            if level in LEVELS:
                yield text, level
        elif isinstance(called, ast.Name) and called.id == "tell":
            yield text, "info"


def logged_lines() -> set[tuple[str, str]]:
    sources = (path.read_text() for path in (ROOT / "src" / "cairn").rglob("*.py"))
    return {line for source in sources for line in logged_in(source)}


def test_the_page_and_the_code_have_the_same_lines_with_the_same_levels() -> None:
    page = ROW.findall((ROOT / "docs" / "logs.md").read_text())
    assert len(page) == len(set(page))
    assert set(page) == logged_lines()
