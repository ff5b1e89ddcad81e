"""The program without metrics and logs: every statement is taken out that only counts or logs, even the calls.

What stays: clocks, which the fair shares of clients need, the comparisons that find a slow request, and the two items
of a gathered answer that tell where it is counted.
"""

import ast
import shutil
from pathlib import Path

import cairn

SOURCE = Path(cairn.__file__).parent
LEVELS = frozenset({"debug", "info", "warning", "error"})
COUNTING = frozenset(
    {"inc", "add", "set", "set_all", "observe", "change", "clear", "answered", "count", "end_fast_group"}
)
ONLY_COUNTING = frozenset({"_count_answers"})
"""Methods of the program that do nothing else."""
TALLIES = ("tally", "traffic", "self.traffic")
"""What the program calls them where it counts."""


class WithoutCounting(ast.NodeTransformer):
    """Takes out what is there only to count or to log."""

    def __init__(self) -> None:
        self.removed = 0

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        called = node.value.func if isinstance(node.value, ast.Call) else None
        if isinstance(called, ast.Attribute):
            counts = called.attr in ONLY_COUNTING or (called.attr in COUNTING and _is_of_metrics(called.value))
            logs = called.attr in LEVELS and ast.unparse(called.value) == "log"
            if counts or logs:
                return self._nothing(node)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return self._nothing(node) if ast.unparse(node.targets[-1]) in TALLIES else node

    def visit_For(self, node: ast.For) -> ast.AST:
        return self._nothing(node) if ast.unparse(node.iter).endswith(".left_of_group") else self.generic_visit(node)

    def _nothing(self, node: ast.stmt) -> ast.Pass:
        self.removed += 1
        return ast.copy_location(ast.Pass(), node)


def _is_of_metrics(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text.startswith("metrics.") or text.endswith((".traffic", ".answered", *TALLIES)) or "traffic_of(" in text


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
