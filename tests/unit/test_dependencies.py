"""The bounds of what the API extends: both ends are versions that were tested."""

import re
import tomllib
from pathlib import Path

import pytest

from tools.bounds import SUBCLASSED, lowest

ROOT = Path(__file__).parents[2]
OLDEST_TESTED = {"httptools": "0.6.3", "starlette": "1.0.0", "uvicorn": "0.53.0", "websockets": "17.0"}
"""What `make bounds` last passed on: all other tests run on the locked versions, and would not notice."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@pytest.mark.parametrize("name", SUBCLASSED)
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


def test_the_lower_ends_are_those_that_make_bounds_passed_on() -> None:
    assert sorted(OLDEST_TESTED) == sorted(SUBCLASSED)
    assert lowest() == [f"{name}=={version}" for name, version in OLDEST_TESTED.items()]
