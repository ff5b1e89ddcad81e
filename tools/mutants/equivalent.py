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


CODEC = "src/cairn/domain/transactions.py"
CRYPTO = "src/cairn/domain/crypto.py"
HEADERS = "src/cairn/domain/headers.py"
LATTICE = "src/cairn/domain/lattice.py"
RLP = "src/cairn/domain/rlp.py"
ENTRY = "src/cairn/mempool/order.py"
ORDER = "src/cairn/mempool/order.py"
POOL = "src/cairn/mempool/pool.py"
PAGES = "src/cairn/mempool/pool.py"
UNLISTED = "src/cairn/mempool/unlisted.py"

AMOUNTS_CHECKED = "if len(to) != 20 or data or len(items[1]) > 32 or len(items[4]) > 32:"
CACHE_SIZE = "the size of a cache"
CHECKED_AGAIN = "what is looked at closer is refused only there"
NO_BOUND = "nobody can send as much"
UNUSED_ROW = "a row of the table that nobody looks up"
GENERAL_ZERO = "the general way writes 0 as well"
NO_DIGIT = "x is no hexadecimal digit"
HIGHER_LANES = "lanes above all that there are: they stay empty"
EARLIER_FOLD = "the sum is folded earlier"
BID_BITS = "the parts of a number that only sorts are further apart"
ONLY_COMPARED = "such numbers are only compared with each other"
ONE_TOO_MANY = "that there is more than a page shows is all that is asked of the rest"

EQUIVALENTS = (
    Equivalent(RLP, "_PREFIX = [bytes([0x80 + length]) for length in range(56)]", "56", "57", UNUSED_ROW),
    Equivalent(RLP, '_SMALL = [b"\\x80"] + [bytes([number]) for number in range(1, 128)]', "128", "129", UNUSED_ROW),
    Equivalent(RLP, "if 0 <= number < 128:", "0 <= number < 128", "0 < number < 128", GENERAL_ZERO),
    Equivalent(RLP, "if 0 <= number < 128:", "0", "1", GENERAL_ZERO),
    Equivalent(
        RLP,
        "is_cut = end > len(raw)",
        "end > len(raw)",
        "end >= len(raw)",
        "it is asked only where the two differ",
    ),
    Equivalent(RLP, "elif first <= 0xB7:", "first <= 183", "first < 183", "the general way reads 55 bytes as well"),
    Equivalent(CODEC, "_ANY_SIZE = 2**64", "2", "3", NO_BOUND),
    Equivalent(CODEC, "_ANY_SIZE = 2**64", "64", "65", NO_BOUND),
    Equivalent(CODEC, "_encode_common = lru_cache(maxsize=1_024)(encode_uint)", "1024", "1025", CACHE_SIZE),
    Equivalent(CODEC, "_NO_CAP = bytes(32)", "32", "33", "the record takes 32 bytes of it"),
    Equivalent(CODEC, AMOUNTS_CHECKED, "len(items[1]) > 32", "len(items[1]) >= 32", CHECKED_AGAIN),
    Equivalent(CODEC, AMOUNTS_CHECKED, "len(items[4]) > 32", "len(items[4]) >= 32", CHECKED_AGAIN),
    Equivalent(HEADERS, "tx_root=items[4],", "4", "5", "the two are the same in every header that is read"),
    Equivalent(HEADERS, "HEADERS_KEPT = 1_024", "1024", "1025", CACHE_SIZE),
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
        '_CASE_BIT_OF_LETTERS = bytes(0x20 * (chr(code) in "abcdef") for code in range(256))',
        "'abcdef'",
        "'abcdefx'",
        NO_DIGIT,
    ),
    Equivalent(
        CRYPTO,
        '_CASE_BIT_OF_HIGH_DIGITS = bytes(0x20 * (chr(code) in "89abcdef") for code in range(256))',
        "'89abcdef'",
        "'89abcdefx'",
        NO_DIGIT,
    ),
    Equivalent(
        CRYPTO,
        "_serialize(ctx, point, _new(_SIZE, 65), public_key, UNCOMPRESSED)",
        "65",
        "66",
        "the library writes 65 bytes wherever it has room for them",
    ),
    Equivalent(
        CRYPTO,
        "return Address(keccak256(_buffer(point)[1:65])[12:])",
        "65",
        "66",
        "the point has 65 bytes",
    ),
    Equivalent(LATTICE, "_FOLD_EVERY = 65_536", "65536", "65537", "so many lanes still add up to less than 2^32"),
    Equivalent(LATTICE, "RECENT_VECTORS = 8_192", "8192", "8193", CACHE_SIZE),
    Equivalent(
        LATTICE,
        "self._even, self._total, self._count = even, even + (odd << 16), 1",
        "1",
        "2",
        EARLIER_FOLD,
    ),
    Equivalent(LATTICE, "self._count = 0", "0", "1", EARLIER_FOLD),
    Equivalent(
        LATTICE,
        "if self._count == _FOLD_EVERY:",
        "self._count == _FOLD_EVERY",
        "self._count != _FOLD_EVERY",
        EARLIER_FOLD,
    ),
    Equivalent(LATTICE, "self._count += 1", "1", "2", EARLIER_FOLD),
    Equivalent(LATTICE, "self._total = 0", "0", "1", "the lowest lane of the total is not looked at"),
    Equivalent(
        LATTICE,
        '_EVEN = int.from_bytes(b"\\xff\\xff\\0\\0" * (LANES // 2), "little")',
        "LANES // 2",
        "LANES * 2",
        HIGHER_LANES,
    ),
    Equivalent(
        LATTICE,
        '_GUARD = int.from_bytes(b"\\0\\0\\1\\0" * (LANES // 2), "little")',
        "LANES // 2",
        "LANES * 2",
        HIGHER_LANES,
    ),
    Equivalent(ORDER, "self._arrivals = 0", "0", "1", ONLY_COMPARED),
    Equivalent(ORDER, "self._arrivals += 1", "1", "2", ONLY_COMPARED),
    Equivalent(ORDER, "break", "break", "continue", "leads only grow along a lane: no later one is of this run"),
    Equivalent(
        ORDER,
        "lead = pending[first - 1].lead if first else 0",
        "0",
        "1",
        "a bid of 0 has a price that nobody can pay",
    ),
    Equivalent(ORDER, "return (arrival << 64) + nonce", "64", "65", BID_BITS),
    Equivalent(ORDER, "return entry.queued_since << 64 | entry.seq", "64", "65", BID_BITS),
    Equivalent(PAGES, "shown = list(islice(_entries_after(order, after), limit + 1))", "1", "2", ONE_TOO_MANY),
    Equivalent(PAGES, "shown = sender_txs.entries_from(first_nonce)[: limit + 1]", "1", "2", ONE_TOO_MANY),
    Equivalent(
        PAGES,
        'next_cursor = encode_cursor(Cursor("sender", 0, shown[limit - 1].tx.nonce)) if len(shown) > limit else None',
        "0",
        "1",
        "in the listing of one sender the place is not looked at",
    ),
    Equivalent(
        ORDER,
        "def mining_order(self, lead: int = 0, nonce: int = 0) -> Iterator[Entry]:",
        "0",
        "1",
        "no lead is as low, and the nonce matters only at one that is there",
    ),
    Equivalent(ENTRY, "sent_at: float = 0.0", "0.0", "1.0", "it is looked at only in what was sent, which sets it"),
    Equivalent(UNLISTED, "self._next_place = 0", "0", "1", ONLY_COMPARED),
    Equivalent(UNLISTED, "self._next_place += 1", "1", "2", ONLY_COMPARED),
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
