"""A client that proves what it is told, and does not wait for a lie to become true."""

from pathlib import Path

from cairn.client import AsyncClient
from cairn.domain.genesis import Genesis
from tests.support.pace import PATIENCE_S


def impatient(url: str, genesis: Genesis, head_file: Path | None = None) -> AsyncClient:
    """However slow the machine is, a request gets its answer; but the same thing is asked once."""
    client = AsyncClient(url, timeout_s=PATIENCE_S, silence_timeout_s=PATIENCE_S, genesis=genesis, head_file=head_file)
    prover = client._prover
    assert prover is not None
    prover._patience_s = prover._signing_patience_s = 0.0
    return client
