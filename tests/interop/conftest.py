"""What `make interop` installs. A part that no registry gave is skipped by its name, which CI takes for a failure."""

import os
from pathlib import Path

import pytest

from tests.conftest import OWN_NODE
from tests.support.cometbft import TOOLS

HERE = Path(__file__).parent
INSTALLED = TOOLS / "interop"


def missing(what: str, registry: str) -> str:
    return f"{what} is not here: {registry} could not be reached, or `make interop` was not run"


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
        pytest.skip(missing("spectral", "the npm registry"))
    if OWN_NODE.exists():
        os.environ["PATH"] = f"{OWN_NODE}{os.pathsep}{os.environ['PATH']}"
    return programs


@pytest.fixture(scope="session")
def go() -> str:
    """A Go, with the modules of tests/interop/go in its cache."""
    noted = INSTALLED / "go"
    if not noted.exists():
        pytest.skip(missing("gopkg.in/validator.v2", "the Go module proxy"))
    return noted.read_text().strip()
