"""What all tests of commands have in common."""

import pytest

from cairn.cli import remote
from cairn.cli.network import join
from cairn.cli.operate import live_node
from cairn.cli.proofs import saving
from cairn.cli.wallet import transfers
from cairn.client import transport
from tests.support.pace import PATIENCE_S


@pytest.fixture(autouse=True)
def _patient_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that a thread of the test plays answers in time, however slow the machine is."""
    for module in (live_node, remote, saving, transfers):
        monkeypatch.setattr(module, "PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(join, "ASK_TIMEOUT_S", PATIENCE_S)
    monkeypatch.setattr(transport, "CONNECT_TIMEOUT_S", PATIENCE_S)
