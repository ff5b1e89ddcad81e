"""Runs the tests of the API on the oldest versions that pyproject.toml allows of what the API subclasses.

The newest ones are those that the locked requirements name, and every other test runs on them. `--with NAME==VERSION`
tries another version, to find out what a bound can be.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
UV = ROOT / ".tools" / "uv" / "bin" / "uv"
SUBCLASSED = ("httptools", "starlette", "uvicorn", "websockets")
"""Their inner parts are ours to extend, so a release of theirs can break ours without being wrong."""
TESTS = [
    "tests/unit/api",
    "tests/property/test_http_differential.py",
    "tests/integration/test_events_node.py",
    "tests/integration/test_events_slow.py",
    "tests/integration/test_events_socket.py",
    "tests/integration/test_rest_worker.py",
    "tests/integration/test_rpc_calls.py",
    "tests/integration/test_rpc_filters.py",
    "tests/integration/test_rpc_methods.py",
]


def lowest() -> list[str]:
    """The lower bounds, as exact versions."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = (re.match(r"([a-z0-9-]+)>=([0-9.]+)", line) for line in dependencies)
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound and bound[1] in SUBCLASSED]


def run_on(versions: list[str], tests: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="cairn-bounds-") as directory:
        python = Path(directory, "env", "bin", "python")
        install = [str(UV), "pip", "install", "--quiet", "--python", str(python), "--no-deps"]
        subprocess.run([str(UV), "venv", "--quiet", "--python", sys.executable, str(python.parents[1])], check=True)
        subprocess.run([*install, "--require-hashes", "-r", str(ROOT / "requirements" / "dev.txt")], check=True)
        subprocess.run([*install, "--no-build-isolation", "-e", str(ROOT)], check=True)
        subprocess.run([*install, *versions], check=True)
        command = [str(python), "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *tests]
        return subprocess.run(command, cwd=ROOT, check=False).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--with", action="append", dest="versions", metavar="NAME==VERSION", help="not the bounds")
    parser.add_argument("tests", nargs="*", help="instead of all that use what the API subclasses")
    given = parser.parse_args()
    versions = given.versions or lowest()
    print(f"bounds: testing with {', '.join(versions)}", flush=True)
    sys.exit(run_on(versions, given.tests or TESTS))


if __name__ == "__main__":
    main()
