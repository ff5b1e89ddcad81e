"""A dev chain's workers import what signs typed data soon after the start, and not with the first request for it."""

from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S

LIBRARY = "pydantic_core"
"""A compiled part of what the library for typed data brings, so that the system shows it."""
HELD_UP = """
import importlib, pathlib, sys, time

here = pathlib.Path(__file__).parent
while not (here / "go").exists():
    time.sleep(0.01)
sys.path.remove(str(here.parent))
del sys.modules[__name__]
importlib.import_module(__name__)
"""
"""A package that becomes the real one of its name once there is a file `go` beside it."""


def has_imported(pid: int) -> bool:
    return LIBRARY in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads what a process has loaded as Linux shows it")
def test_workers_of_a_dev_chain_import_the_encoder_of_typed_data_by_themselves(tmp_path: Path) -> None:
    package = tmp_path / "eth_account"
    package.mkdir()
    (package / "__init__.py").write_text(HELD_UP)
    with NodeProcess.start(("dev", "--port", "0", "--workers", "2"), {"PYTHONPATH": str(tmp_path)}) as node:
        # Nothing waits for it: the node is ready although the import cannot end.
        node.wait_ready()
        workers = node.worker_pids()
        assert not any(map(has_imported, workers))
        (package / "go").touch()
        wait_until(lambda: all(map(has_imported, workers)), PATIENCE_S, "the import")
        assert node.probe("/ready") == 200
        assert node.worker_pids() == workers
