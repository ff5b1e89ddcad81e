"""The tests in other environments than .venv: each supported Python, and the oldest packages that are allowed.

`make matrix` and `make matrix SESSION=bounds` run them. A Python that this machine lacks is downloaded by uv; where
that fails, nox leaves it out and says so. In CI that is a failure.
"""

import os
import re
from pathlib import Path

import nox

nox.needs_version = ">=2025.10.14"
nox.options.default_venv_backend = "uv"
nox.options.envdir = ".tools/nox"
nox.options.sessions = ["matrix"]

# pyenv's commands on PATH stand for one version only.
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
os.environ["PATH"] = os.pathsep.join([*map(str, PYENV.glob("versions/*/bin")), os.environ["PATH"]])

PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)
PYTEST = ("pytest", "-q", "-n", "2", "-p", "no:cacheprovider")
BOUNDS_TESTS = (
    "tests/unit",
    "tests/integration",
    "tests/property/test_http_differential.py",
    "tests/e2e/interface",
    "tests/e2e/client",
)


@nox.session(python=PYTHONS)
def matrix(session: nox.Session) -> None:
    """The unit tests on each Python, with exactly what the requirements pin."""
    # A package without a wheel for this Python fails here, and is not built for minutes.
    pins = ("-r", "requirements/build.txt", "-r", "requirements/dev.txt")
    session.install("--only-binary", ":all:", "--require-hashes", *pins)
    session.install("--no-deps", "--no-build-isolation", "--editable", ".")
    session.run(*PYTEST, *(session.posargs or ["tests/unit"]))


@nox.session(python=PYTHONS[0])
def bounds(session: nox.Session) -> None:
    """The tests on the oldest version of each dependency that pyproject.toml allows; all else is pinned."""
    # Not in a temporary directory of nox, which would be that of the tests too: too long for the paths of sockets.
    allowed, pins = (Path(session.virtualenv.location, name) for name in ("allowed.txt", "pins.txt"))
    # Only our own bounds count: a tool of the tests that wants a newer one would hide what a user may get.
    allowed.write_text("\n".join(PROJECT["project"]["dependencies"]))
    pins.write_text(pins_of_others(Path("requirements/dev.txt").read_text()))
    wanted = ("-r", "pyproject.toml", "-r", "requirements/dev.in", "-c", str(pins), "--override", str(allowed))
    session.install("--resolution", "lowest-direct", *wanted)
    session.install("--no-deps", "--no-build-isolation", "--editable", ".")
    session.run("uv", "pip", "freeze", "--exclude-editable", external=True)
    session.run(*PYTEST, *(session.posargs or BOUNDS_TESTS))


def pins_of_others(requirements: str) -> str:
    """The pins, each with its hashes, of all packages that we do not depend on ourselves."""
    ours = {re.split(r"[^\w-]", dependency)[0] for dependency in PROJECT["project"]["dependencies"]}
    pins = re.split(r"\n(?=\S)", requirements)
    return "\n".join(pin for pin in pins if pin.partition("==")[0] not in ours)
