"""tools/again.sh: a command that fetches something is tried again when it fails."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
COUNTING = 'echo tried >> "$1"; [ "$(wc -l < "$1")" -ge "$2" ] || exit 7'


def attempts(tmp_path: Path, succeeds_at: int) -> tuple[int, int]:
    """How often a command was run that fails with 7 until then, and how it ended."""
    log = tmp_path / "log"
    done = subprocess.run(
        ["sh", "tools/again.sh", "sh", "-c", COUNTING, "-", str(log), str(succeeds_at)],
        cwd=ROOT,
        env=os.environ | {"PAUSES_S": "0 0 0"},
        stderr=subprocess.DEVNULL,
    )
    return len(log.read_text().splitlines()), done.returncode


def test_what_succeeds_is_run_once(tmp_path: Path) -> None:
    assert attempts(tmp_path, 1) == (1, 0)


def test_what_fails_is_run_again_until_it_succeeds(tmp_path: Path) -> None:
    assert attempts(tmp_path, 3) == (3, 0)


def test_what_always_fails_ends_as_it_does(tmp_path: Path) -> None:
    assert attempts(tmp_path, 9) == (4, 7)
