"""The vectors of proof files, read."""

import json
from pathlib import Path
from typing import NamedTuple

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
    is_public: bool = False
    """A verifier says that everybody has the key."""


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
            row.get("everybodyHasTheKey", False),
        )
        for row in rows
    ]
