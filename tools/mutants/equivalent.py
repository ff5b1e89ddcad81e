"""Mutants that no test can notice, because they do the same: each with the reason."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.mutants.mutations import Mutant


@dataclass(frozen=True)
class Equivalent:
    path: str
    line: str
    """As it is written there."""
    before: str
    after: str
    why: str

    def is_of(self, mutant: Mutant) -> bool:
        return (Path(self.path), self.line, self.before, self.after) == (
            mutant.path,
            mutant.text,
            mutant.before,
            mutant.after,
        )


CRYPTO = "src/cairn/domain/crypto.py"
LATTICE = "src/cairn/domain/lattice.py"

EQUIVALENTS = (
    Equivalent(
        CRYPTO,
        '_CASE_BIT_OF_LETTERS = bytes(0x20 * (chr(code) in "abcdef") for code in range(256))',
        "32",
        "33",
        "only the bits that both tables have are used",
    ),
    Equivalent(
        CRYPTO,
        '_CASE_BIT_OF_HIGH_DIGITS = bytes(0x20 * (chr(code) in "89abcdef") for code in range(256))',
        "32",
        "33",
        "only the bits that both tables have are used",
    ),
    Equivalent(
        CRYPTO,
        "_serialize(_context, point, _new(_SIZE, 65), public_key, EC_UNCOMPRESSED)",
        "65",
        "66",
        "the library writes 65 bytes wherever it has room for them",
    ),
    Equivalent(
        CRYPTO,
        "return Address(_keccak_256(_buffer(point)[1:65]).digest()[12:])",
        "65",
        "66",
        "the point has 65 bytes",
    ),
    Equivalent(LATTICE, "_FOLD_EVERY = 65_536", "65536", "65537", "so many lanes still add up to less than 2^32"),
    Equivalent(LATTICE, "RECENT_VECTORS = 8_192", "8192", "8193", "the size of a cache"),
    Equivalent(
        LATTICE,
        "self._even, self._total, self._count = even, even + (odd << 16), 1",
        "1",
        "2",
        "the sum is folded one vector earlier",
    ),
)


def set_aside(mutants: Sequence[Mutant], known: Iterable[Equivalent] = EQUIVALENTS) -> dict[Mutant, str]:
    """Those of `mutants` that are known to do the same, with the reason.

    Raises `ValueError` for a known one of their files that is none of them: the code changed.
    """
    paths = {str(mutant.path) for mutant in mutants}
    found = {}
    for equivalent in known:
        same = [mutant for mutant in mutants if equivalent.is_of(mutant)]
        if not same and equivalent.path in paths:
            raise ValueError(f"no such mutant any more: {equivalent}")
        found.update(dict.fromkeys(same, equivalent.why))
    return found
