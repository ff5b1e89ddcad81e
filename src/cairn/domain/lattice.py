"""The state root: a lattice hash (LtHash: 1,024 lanes of 16 bits) of all accounts that are not empty.

An account's vector is the first 2,048 bytes of BLAKE3 over address (20), balance (32) and nonce (8); the sum of all
vectors, lane by lane modulo 2^16, is the state's. So a block costs as much as the accounts it changes, whatever the
size of the state, and the order of changes has no part in the result. Lanes are little-endian. On a chain with
validators their record is one more element, hashed in BLAKE3's mode of its own, so that no account can be mistaken for
it.
"""

from collections.abc import Iterable
from struct import Struct

import msgspec
from blake3 import blake3

from cairn.domain.crypto import keccak256
from cairn.domain.lru_cache import LruCache
from cairn.domain.types import Account, Address

LANES = 1024
SUM_SIZE = 2 * LANES

# Every other lane, each with 16 free bits above it, so that sums do not carry into the next lane.
_EVEN = int.from_bytes(b"\xff\xff\0\0" * (LANES // 2), "little")
# 2^16 in each of these lanes: added before a subtraction, so that nothing is borrowed from the next lane.
_GUARD = int.from_bytes(b"\0\0\1\0" * (LANES // 2), "little")
_FOLD_EVERY = 65_536
"""So many lanes of 16 bits add up to less than 2^32."""

RECENT_VECTORS = 8_192
"""Some 2 KB each."""
_RECORD_CONTEXT = "cairn 2026 state lattice: governance record"

_pack_account = Struct(">20s32sQ").pack

AccountChange = tuple[Address, Account, Account]
"""An account's address, old value and new value."""


class Lattice(msgspec.Struct, frozen=True):
    """The lattice hash of one state."""

    sum: bytes
    """2,048 bytes."""

    @classmethod
    def empty(cls) -> "Lattice":
        return cls(bytes(SUM_SIZE))

    @property
    def root(self) -> bytes:
        return keccak256(self.sum)

    def updated(self, changes: Iterable[AccountChange]) -> "Lattice":
        """The hash of the state after `changes`; each must start from the value that this state holds."""
        added, removed = _Lanes(), _Lanes()
        for address, old, new in changes:
            if old.balance or old.nonce:
                data = _encode(address, old)
                removed.add_vector(_recent_vectors.get(data) or _vector(data))
            if new.balance or new.nonce:
                data = _encode(address, new)
                # An account that has sent will send again, and a later block subtracts what this one adds.
                added.add_vector(_kept_vector(data) if new.nonce else _vector(data))
        return self._plus(added, removed)

    def with_accounts(self, accounts: Iterable[tuple[Address, Account]]) -> "Lattice":
        """The hash of the state with these accounts, which it does not hold yet: how a whole state is summed."""
        added = _Lanes()
        for address, account in accounts:
            if account.balance or account.nonce:
                # Without the cache: so many would displace the accounts that the next blocks change.
                added.add_vector(_vector(_encode(address, account)))
        return self._plus(added, _Lanes())

    def with_record(self, old: bytes | None, new: bytes | None) -> "Lattice":
        """The hash of the state after its one record that is not an account went from `old` to `new`."""
        added, removed = _Lanes(), _Lanes()
        if new is not None:
            added.add_vector(_record_vector(new))
        if old is not None:
            removed.add_vector(_record_vector(old))
        return self._plus(added, removed)

    def _plus(self, added: "_Lanes", removed: "_Lanes") -> "Lattice":
        total = int.from_bytes(self.sum, "little")
        plus_even, plus_odd = added.folded()
        minus_even, minus_odd = removed.folded()
        even = ((total & _EVEN) + plus_even + _GUARD - minus_even) & _EVEN
        odd = (((total >> 16) & _EVEN) + plus_odd + _GUARD - minus_odd) & _EVEN
        return Lattice((even | odd << 16).to_bytes(SUM_SIZE, "little"))


def _encode(address: Address, account: Account) -> bytes:
    return _pack_account(address, account.balance.to_bytes(32, "big"), account.nonce)


def _vector(data: bytes) -> int:
    return int.from_bytes(blake3(data).digest(SUM_SIZE), "little")


def _record_vector(record: bytes) -> int:
    return int.from_bytes(blake3(record, derive_key_context=_RECORD_CONTEXT).digest(SUM_SIZE), "little")


_recent_vectors: LruCache[bytes, int] = LruCache(RECENT_VECTORS)
"""By what was hashed. The oldest goes first even if it was just used: what was subtracted is not needed again."""


def _kept_vector(data: bytes) -> int:
    vector = _recent_vectors.get(data)
    if vector is None:
        vector = _vector(data)
        _recent_vectors.keep(data, vector)
    return vector


class _Lanes:
    """A running sum of account vectors."""

    def __init__(self) -> None:
        self._count = 0
        self._even = 0
        self._total = 0

    def add_vector(self, vector: int) -> None:
        # The odd lanes are what is left of the total, so one mask a vector is enough.
        self._even += vector & _EVEN
        self._total += vector
        self._count += 1
        if self._count == _FOLD_EVERY:
            even, odd = self.folded()
            self._even, self._total, self._count = even, even + (odd << 16), 1

    def folded(self) -> tuple[int, int]:
        """The even and the odd lanes, each modulo 2^16."""
        return self._even & _EVEN, ((self._total - self._even) >> 16) & _EVEN
