"""A disk that cannot be read for a while: the chain is opened again in the same process when it can."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.shim import COMPILERS, Shim
from tests.chaos.unreadable_process import OPENINGS, READS
from tests.support.node_process import clean_environment
from tests.support.programs import need_program


@pytest.mark.parametrize("read", [*READS, *OPENINGS])
def test_a_failed_read_does_not_bar_the_next_opening(tmp_path: Path, read: str) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    shim = Shim(tmp_path, data_dir, need_program(*COMPILERS))
    ended = subprocess.run(
        [sys.executable, "-m", "tests.chaos.unreadable_process", str(data_dir), read],
        env=clean_environment(shim.environment), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
