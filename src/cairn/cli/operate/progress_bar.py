"""A bar on standard error, at a terminal only, for commands that take long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from cairn.cli.screen import Output

Report = Callable[[int, int], None]
"""Called with how much is done, and of how much."""


@contextmanager
def progress_bar(what: str) -> Iterator[Report]:
    console = Output(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, *times, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(what, total=None)

        def report(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total)

        yield report


@contextmanager
def byte_progress_bar(what: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """For work that tells of each part that is done."""
    done = 0
    with progress_bar(what) as report:

        def count(part_bytes: int) -> None:
            nonlocal done
            done += part_bytes
            report(done, total_bytes)

        yield count
