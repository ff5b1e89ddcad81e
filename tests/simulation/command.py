"""The simulation as its own process: there the order of hashes is what it is told, and nothing else is replaced."""

import subprocess
import sys


def run(*arguments: str) -> tuple[int, str]:
    """Its exit code, and all that it says."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr
