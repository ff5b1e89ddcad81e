"""Which processes a process has started, and those again."""

from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Every process below `pid`."""
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                parent = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(parent, []).append(int(directory.name))
    found = list(children.get(pid, ()))
    for each in found:
        found += children.get(each, ())
    return found
