"""What `make interop` installs. A part that no registry gave is skipped by its name, which CI takes for a failure."""

import os
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

import pytest

from tests.conftest import OWN_NODE
from tests.support.cometbft import TOOLS
from tests.support.pace import PATIENCE_S

HERE = Path(__file__).parent
INSTALLED = TOOLS / "interop"
RUN_TIMEOUT_S = 5 * PATIENCE_S
"""Compilers and suites of hundreds of tests take long where they share a processor with many others."""
OFFLINE_GO = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOPROXY": "off", "CGO_ENABLED": "0"}
"""Builds with what `make interop` has fetched, and nothing else."""


def missing(what: str, registry: str) -> str:
    return f"{what} is not here: run `make interop`, which fetches it from {registry}"


def run(
    command: Sequence[str | Path],
    directory: Path,
    env: Mapping[str, str] | None = None,
    accepted: Collection[int] = (0,),
    said: Literal["stdout", "stderr"] = "stdout",
) -> str:
    """What the program says there. Fails when it ends with another code than those."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=directory,
        env=os.environ | dict(env or {}),
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
    )
    assert done.returncode in accepted, f"{command}\n{done.stdout[-5000:]}{done.stderr[-5000:]}"
    return done.stderr if said == "stderr" else done.stdout


@pytest.fixture(scope="session")
def python_programs() -> Path:
    """The programs of requirements/interop.txt, with the Python that has them."""
    programs = INSTALLED / "python" / "bin"
    if not (INSTALLED / "python" / ".installed").exists():
        pytest.skip(missing("openapi-generator", "PyPI"))
    return programs


@pytest.fixture(scope="session")
def js_programs() -> Path:
    """The programs of tests/interop/js."""
    programs = HERE / "js" / "node_modules" / ".bin"
    if not (programs / "spectral").exists():
        pytest.skip(missing("a package of tests/interop/js", "the npm registry"))
    if OWN_NODE.exists():
        os.environ["PATH"] = f"{OWN_NODE}{os.pathsep}{os.environ['PATH']}"
    return programs


@pytest.fixture(scope="session")
def go() -> str:
    """A Go, with the modules of tests/interop/go and tests/interop/geth in its cache."""
    noted = INSTALLED / "go"
    if not noted.exists():
        pytest.skip(missing("a module of tests/interop", "the Go module proxy"))
    return noted.read_text().strip()
