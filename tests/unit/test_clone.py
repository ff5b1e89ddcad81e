"""What a clone brings along is the same on every machine."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = "120000"


def git(*words: str) -> list[str]:
    # Whoever owns the clone.
    command = ["git", "-c", "safe.directory=*", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_no_file_is_a_link() -> None:
    """A link leads out of the clone sooner or later: set-up followed one to a directory of the machine it came from."""
    tracked = git("ls-files", "--stage")
    assert tracked
    assert [entry for entry in tracked if entry.startswith(LINK)] == []


def test_what_set_up_makes_stays_out_even_as_a_link() -> None:
    """A pattern that ends with a slash lets a link of that name in."""
    made = [".venv", ".tools", "tests/js/node_modules"]
    assert git("check-ignore", "--no-index", *made) == made
