"""Where a witness keeps its key and what it has seen."""

from pathlib import Path

import pytest

from cairn.cli.proofs.files import parse_genesis_of
from cairn.cli.witness.memory import default_directory
from tests.support.proof_chain import COIN, ProofChain
from tests.support.proven import ALICE, toy_network


def test_each_chain_has_a_directory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    chains = [toy_network(), *(ProofChain(name, balances={ALICE.address: COIN}) for name in ("one", "other"))]
    one, *others = (default_directory(parse_genesis_of(chain.genesis, "it")) for chain in chains)
    assert one.parent == Path("/home/me/.local/state/cairn/witness")
    assert len({one, *others}) == 3
