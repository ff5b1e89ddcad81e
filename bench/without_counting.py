"""The program without metrics and logs: every statement is taken out that only counts or logs, even the calls.

What stays: clocks, which the fair shares of clients need, and the comparisons that find a slow request.
"""

import ast
import shutil
from pathlib import Path

import cairn

SOURCE = Path(cairn.__file__).parent
LEVELS = frozenset({"debug", "info", "warning", "error"})
COUNTING = frozenset({"inc", "add", "set", "set_all", "observe", "change", "clear", "answered"})


class WithoutCounting(ast.NodeTransformer):
    """Takes out what is there only to count or to log."""

    def __init__(self) -> None:
        self.removed = 0

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        called = node.value.func if isinstance(node.value, ast.Call) else None
        if isinstance(called, ast.Attribute):
            counts = called.attr in COUNTING and _is_of_metrics(called.value)
            logs = called.attr in LEVELS and ast.unparse(called.value) == "log"
            if counts or logs:
                return self._nothing(node)
        return node

    def _nothing(self, node: ast.stmt) -> ast.Pass:
        self.removed += 1
        return ast.copy_location(ast.Pass(), node)


def _is_of_metrics(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text.startswith("metrics.") or text.endswith(".traffic") or "traffic_of(" in text


def modules_without() -> dict[Path, ast.Module]:
    """The modules that count or log, as they are without that. Lines keep their numbers."""
    changed = {}
    for path in SOURCE.rglob("*.py"):
        if not path.name.startswith("metrics"):
            without, module = WithoutCounting(), ast.parse(path.read_text())
            without.visit(module)
            if without.removed:
                changed[path] = module
    return changed


def copy_without(target: Path) -> None:
    """Make the package `cairn` in `target`."""
    shutil.copytree(SOURCE, target / "cairn")
    for path, module in modules_without().items():
        (target / "cairn" / path.relative_to(SOURCE)).write_text(ast.unparse(module))
