"""A dev chain's workers import what signs typed data soon after the start, and not with the first request for it."""

from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S

LIBRARY = "pydantic_core"
"""A compiled part of what the library for typed data brings, so that the system shows it."""


def has_imported(pid: int) -> bool:
    return LIBRARY in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads what a process has loaded as Linux shows it")
def test_workers_of_a_dev_chain_import_the_encoder_of_typed_data_by_themselves() -> None:
    with NodeProcess.start_dev("--workers", "2") as node:
        workers = node.worker_pids()
        assert not any(map(has_imported, workers)), "it does not delay the start"
        wait_until(lambda: all(map(has_imported, workers)), PATIENCE_S, "the import")
        assert node.probe("/ready") == 200
        assert node.worker_pids() == workers
