"""What `cairn config check`, `cairn doctor` and `cairn status` find: what is wrong, and what to do about it."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from rich.text import Text

from cairn.cli.screen import print_lines

Level = Literal["error", "warning"]
_STYLES: dict[Level, str] = {"error": "bold red", "warning": "bold yellow"}
_WIDTH = len("warning")


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    code: str
    """Stable, for scripts."""
    level: Level
    """An error keeps the node from starting or working, or loses something; a warning may come to that."""
    problem: str
    advice: str


def error(code: str, problem: str, advice: str) -> Finding:
    return Finding(code, "error", problem, advice)


def warning(code: str, problem: str, advice: str) -> Finding:
    return Finding(code, "warning", problem, advice)


def has_error(findings: Sequence[Finding]) -> bool:
    return any(finding.level == "error" for finding in findings)


def print_findings(findings: Sequence[Finding]) -> None:
    """Two lines for each: the problem, and below it what to do. Errors come first."""
    for finding in sorted(findings, key=lambda each: each.level != "error"):
        print_lines(
            [
                Text.assemble(
                    (f"{finding.level:<{_WIDTH}}  ", _STYLES[finding.level]),
                    (finding.code, "bold"),
                    f"  {finding.problem}",
                ),
                f"{'':<{_WIDTH}}  {finding.advice}",
            ]
        )
