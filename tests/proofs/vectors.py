"""The vectors of proof files, read."""

import json
from pathlib import Path
from typing import NamedTuple

from tests.support.proof_chain import ProofChain, encode

PLACE = Path(__file__).parent.parent / "vectors" / "proofs"


class Case(NamedTuple):
    name: str
    genesis: bytes
    file: bytes
    valid: bool
    why: str
    at: str | None
    """HEIGHT:HASH of a block that one trusts."""
    witness: str | None
    """The public key of a witness that must have signed, in hex."""


def read_vectors() -> list[Case]:
    rows = json.loads((PLACE / "index.json").read_text())
    return [
        Case(
            row["name"],
            (PLACE / row["genesis"]).read_bytes(),
            (PLACE / row["file"]).read_bytes(),
            row["valid"],
            row["why"],
            row.get("at"),
            row.get("witness"),
        )
        for row in rows
    ]


def handed_over_by_a_dev_chain() -> Case:
    """A chain whose first key everybody has: whoever likes hands it over to a key of their own."""
    chain = ProofChain("handed over", is_dev=True)
    chain.change_validators({"anybody": 1}, 2)
    chain.add()
    chain.add()
    return Case("handed over", chain.genesis, encode(chain.finality(2, 2)), True, "all holds", None, None)
