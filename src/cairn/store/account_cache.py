"""A bounded cache of accounts."""

from collections.abc import Mapping

import msgspec

from cairn.domain.types import Account, Address


class Known(msgspec.Struct, frozen=True, gc=False):
    """What is known of an account as of the head."""

    account: Account
    last_used: int
    """Height of its newest version that has transactions, or `NEVER`."""


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
        self.keep_all({address: known})

    def keep_all(self, known: Mapping[Address, Known]) -> None:
        self._young.update(known)
        if len(self._young) > self._capacity:
            self._young, self._old = {}, self._young
