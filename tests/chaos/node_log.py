"""Errors that a node's processes printed: each with its whole traceback, and whether a fault explains it."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[")
"""How a line of the node's log begins. What follows until the next one belongs to it."""
_ERROR = re.compile(
    r"^\s*(?:\| *)*(?:Traceback \(most recent call last\)|Fatal Python error|thread '.*' panicked|Segmentation fault)",
    re.MULTILINE,
)
_NAME = re.compile(r"^(?:\w+\.)*([A-Z]\w*)(?=:|$)", re.MULTILINE)
EXPLAINED = {
    "memory": re.compile(r"MemoryError|can't start new thread|Cannot allocate memory"),
    "descriptors": re.compile(r"Too many open files"),
}
"""What a process may print while it may have no more of something, by the beginning of a fault's kind."""
SHOWN = 5
"""Errors of one name that a report has in full."""


@dataclass(frozen=True, slots=True)
class LoggedError:
    """`faults` are the kinds of what was done to the node meanwhile."""

    text: str
    faults: Sequence[str]

    @property
    def name(self) -> str:
        """The class that was raised last; of a crash, its first line."""
        names = _NAME.findall(self.text)
        return names[-1] if names else self.text.strip().splitlines()[0]

    @property
    def is_explained(self) -> bool:
        return any(
            fault.startswith(kind) and cause.search(self.text)
            for kind, cause in EXPLAINED.items()
            for fault in self.faults
        )

    def __str__(self) -> str:
        return f"during {', '.join(self.faults) or 'nothing'}:\n{self.text}"


def find_errors(log: str, faults: Sequence[str]) -> Iterator[LoggedError]:
    for record in _records(log):
        if _ERROR.search(record):
            yield LoggedError(record, faults)


def _records(log: str) -> Iterator[str]:
    record: list[str] = []
    for line in log.splitlines():
        if _RECORD.match(line) and record:
            yield "\n".join(record)
            record = []
        record.append(line)
    yield "\n".join(record)


def check_explained(errors: Sequence[LoggedError]) -> None:
    unexplained = [error for error in errors if not error.is_explained]
    assert not unexplained, f"{len(unexplained)} unexpected errors in a log, the first {unexplained[0]}"


def count_names(errors: Sequence[LoggedError]) -> Counter[str]:
    return Counter(error.name for error in errors)


def sections(errors: Sequence[LoggedError]) -> list[str]:
    """Some of each name in full, if there are any."""
    shown = [
        f"```text\n{error}\n```\n"
        for name in count_names(errors)
        for error in [error for error in errors if error.name == name][:SHOWN]
    ]
    return ["\n## Errors in a log\n", *shown] if shown else []
