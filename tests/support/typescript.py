"""TypeScript on pages: its commands, run with the packages that `make js` has installed."""

import shlex
import subprocess
from pathlib import Path

from tests.support.pace import PATIENCE_S
from tests.support.pages import ROOT

PINNED = ROOT / "tests" / "js" / "package.json"


def run(line: str, directory: Path) -> str:
    """What the command prints. Raises `AssertionError` when it fails."""
    program, *arguments = shlex.split(line)
    # `npx` would look for a package that is missing here elsewhere: these must be the pinned ones.
    command = [str(directory / "node_modules" / ".bin" / arguments.pop(0))] if program == "npx" else [program]
    done = subprocess.run(
        [*command, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        start_new_session=True,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def untested_packages(install: str) -> list[str]:
    """Those that `npm install …` names in another version than the one that tests use."""
    pinned = PINNED.read_text()
    packages = [package.rpartition("@") for package in install.split()[2:]]
    return [f"{name}@{version}" for name, _, version in packages if f'"{name}": "{version}.' not in pinned]
