"""What `bench.metrics_turns` compares a node with: the same program, and nothing in it that counts or logs."""

import ast

from bench.without_counting import SOURCE, WithoutCounting

OF_FILES = {"read", "seek", "stat"}
"""A file may be called `log`, too."""
LAST_WORDS = {"critical", "exception"}
OF_STARTS = {"become", "ended", "share", "started", "of_route", "get", "total_counts"}
"""Metrics are made, and asked for."""


def is_told(node: ast.expr) -> bool:
    """Whether it is a log, or of metrics."""
    match node:
        case ast.Name(id=name):
            return name in ("log", "traffic")
        case ast.Attribute(value=ast.Name(id="metrics")):
            return True
        case ast.Attribute(attr=name):
            return name.endswith("traffic")
    return False


def test_nothing_is_left_that_counts_or_logs() -> None:
    left = set()
    for path in SOURCE.rglob("*.py"):
        if not path.name.startswith(("metrics", "log.")):
            module = WithoutCounting().visit(ast.parse(path.read_text()))
            for node in ast.walk(module):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_told(node.func.value):
                    left.add(node.func.attr)
    assert left == OF_FILES | LAST_WORDS | OF_STARTS
