"""Reports of long runs: what was done, what came of it, and how to do it again."""

import os
import platform
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

REPORTS = Path(__file__).parents[2] / "reports"


def write_report(name: str, title: str, command: str, sections: Sequence[str], failure: str | None) -> Path:
    """Write reports/NAME.md, also of a run that failed."""
    outcome = "**Clean.**" if failure is None else f"**Failed.**\n\n```text\n{failure}\n```"
    ended = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    head = f"# {title}\n\n`{command}`, ended {ended}, commit {commit()}, {machine}.\n\n{outcome}\n"
    REPORTS.mkdir(exist_ok=True)
    path = REPORTS / f"{name}.md"
    path.write_text(without_places("\n".join([head, *sections])))
    return path


def without_places(text: str) -> str:
    """Where this checkout and Python are on this machine is nobody's business."""
    for place in (REPORTS.parent, Path(sys.base_prefix)):
        text = text.replace(f"{place}{os.sep}", "")
    return text


def end_on_sigterm() -> None:
    """Leave by an exception, so that the node that runs is ended too. By one only: a second would break that off."""

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)


def failure_of(run: Callable[[], None]) -> str | None:
    """Run it; what went wrong, with its trace and what was noted about it on its way, or None."""
    try:
        run()
    except Exception as failure:
        return "".join(traceback.format_exception(failure))
    return None


def commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=REPORTS.parent, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def facts(pairs: Mapping[str, object]) -> str:
    """A table of names and figures."""
    return table(("", ""), [(name, shown(value)) for name, value in pairs.items()])


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(map(shown, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {shown(count)}" for name, count in value.items()) or "none"
    return str(value)
