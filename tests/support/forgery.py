"""Transfers that nobody signed: they cost nothing to make, and a recovery each to refuse."""

from itertools import count, islice

from cairn.domain.transactions import encode_tx
from cairn.engine.network.bundle import BUNDLE_PREFIX, MOST, encode_bundle
from tests.support.core_fixtures import CHAIN_ID, signed

_MARK = 0xC0FFEE00C0FFEE01
"""Stands where the value goes; as long as every other value that is used."""


class Forger:
    """One signature under ever other amounts: each is then by another account, which does not exist."""

    def __init__(self, first: int = 1 << 63) -> None:
        """`first` is the first amount, of eight bytes. Two with different ones make different transfers."""
        marked = encode_tx(signed(0, value=_MARK), CHAIN_ID)
        self._before, self._after = marked.split(_MARK.to_bytes(8, "big"))
        self._values = count(first)
        head = encode_bundle([marked])[: -len(marked)]
        self._bundle_start = head + self._before
        self._between = self._after + head.removeprefix(BUNDLE_PREFIX) + self._before

    def transfer(self) -> bytes:
        return self._before + next(self._values).to_bytes(8, "big") + self._after

    def bundle(self, transfers: int = MOST) -> bytes:
        # All of them differ in their amounts alone, so only those are put together: a flood needs many a second.
        values = [value.to_bytes(8, "big") for value in islice(self._values, transfers)]
        return self._bundle_start + self._between.join(values) + self._after
