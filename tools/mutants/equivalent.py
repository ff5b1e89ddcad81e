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
ORDER = "src/cairn/mempool/order.py"
POOL = "src/cairn/mempool/pool.py"

BID_BITS = "the parts of a number that only sorts are further apart"
ONLY_COMPARED = "arrivals are only compared with each other"
ONE_TOO_MANY = "that there is more than a page shows is all that is asked of the rest"

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
    Equivalent(ORDER, "self._arrivals = 0", "0", "1", ONLY_COMPARED),
    Equivalent(ORDER, "self._arrivals += 1", "1", "2", ONLY_COMPARED),
    Equivalent(ORDER, "break", "break", "continue", "leads only grow along a lane: no later one is of this run"),
    Equivalent(
        ORDER,
        "lead = ready[first - 1].lead if first else 0",
        "0",
        "1",
        "a bid of 0 has a price that nobody can pay",
    ),
    Equivalent(ORDER, "return (arrival << 64) + nonce", "64", "65", BID_BITS),
    Equivalent(ORDER, "return entry.waits_since << 64 | entry.seq", "64", "65", BID_BITS),
    Equivalent(POOL, "shown = list(islice(self._entries_after(after), limit + 1))", "1", "2", ONE_TOO_MANY),
    Equivalent(POOL, "shown = lane.entries_from(first_nonce)[: limit + 1]", "1", "2", ONE_TOO_MANY),
    Equivalent(
        POOL,
        'next_cursor = encode_cursor(Cursor("sender", 0, shown[limit - 1].tx.nonce)) if len(shown) > limit else None',
        "0",
        "1",
        "in the listing of one sender the place is not looked at",
    ),
    Equivalent(POOL, "break", "break", "continue", "what is no longer overdrawn stays so"),
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
