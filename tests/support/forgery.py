"""Transfers that nobody signed: they cost nothing to make, and a recovery each to refuse."""

from itertools import count

from cairn.domain.codec import encode_tx
from cairn.engine.network.bundle import MOST, encode_bundle
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

    def transfer(self) -> bytes:
        return self._before + next(self._values).to_bytes(8, "big") + self._after

    def bundle(self, transfers: int = MOST) -> bytes:
        return encode_bundle([self.transfer() for _ in range(transfers)])
