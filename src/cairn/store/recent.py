"""A bounded cache of accounts."""

from cairn.domain.types import Account, Address

Known = tuple[Account, int]
"""An account, and the height of its newest version that has transactions (`NEVER` if none)."""


class RecentAccounts:
    """The accounts used last: at least `capacity` of them, at most twice as many.

    Two generations instead of an order of use: when the young one is full it becomes the old one, and what was in the
    old one and was not asked for since is forgotten. Nothing is moved or counted on a hit.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._young: dict[Address, Known] = {}
        self._old: dict[Address, Known] = {}

    def find(self, address: Address) -> Known | None:
        known = self._young.get(address)
        if known is None:
            known = self._old.get(address)
            if known is not None:
                self.keep(address, known)
        return known

    def keep(self, address: Address, known: Known) -> None:
        self._young[address] = known
        if len(self._young) > self._capacity:
            self._young, self._old = {}, self._young
