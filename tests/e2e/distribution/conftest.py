import os
from pathlib import Path

import pytest

from tools.release import build


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with both sdists and both wheels: those of `make release`, which names it, or some built here."""
    if given := os.environ.get("DISTRIBUTIONS"):
        return Path(given)
    target = tmp_path_factory.mktemp("distributions") / "dist"
    build(target)
    return target
