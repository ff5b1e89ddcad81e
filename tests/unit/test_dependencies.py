"""What the project is built on: both ends of each bound are tested versions, and CI runs code that cannot change."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
EXTENDED = [line.partition(">=")[0] for line in PROJECT["dependencies"] if "," in line]
"""We extend their inner parts, or a newer release costs too much: a release beyond the locked one is not let in."""


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@pytest.mark.parametrize("line", PROJECT["dependencies"])
def test_each_dependency_has_a_lower_end(line: str) -> None:
    """`make matrix SESSION=bounds` tests it."""
    assert re.match(r"[a-z0-9-]+>=[0-9.]+", line)


@pytest.mark.parametrize("name", EXTENDED)
def test_the_locked_version_is_the_upper_end(name: str) -> None:
    """A newer release is let in together with a lock that names it, and so with tests that ran on it."""
    [bound] = [line for line in PROJECT["dependencies"] if re.match(rf"{name}\b", line)]
    ends = re.fullmatch(r"[a-z]+>=([0-9.]+),<([0-9.]+)", bound)
    assert ends is not None, bound
    locked = re.search(rf"^{name}==([0-9.]+) ", (ROOT / "requirements" / "runtime.txt").read_text(), re.MULTILINE)
    assert locked is not None
    upper = numbers(ends[2])
    assert numbers(ends[1]) <= numbers(locked[1]) < upper
    series = numbers(locked[1])[: len(upper)]
    assert (*series[:-1], series[-1] + 1) == upper, "the first release beyond the locked one is not let in"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_action_is_pinned_by_its_commit(path: Path) -> None:
    used = re.findall(r"uses: *(.*)", path.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v[0-9.]+", action), action
