"""A pooled transaction and the two numbers that place it in the mining order. Lower is better.

    bid    inverse gas price (256 bits) | seq (64 bits)    what it offers by itself: its price, then its arrival
    lead   the worst bid in its sender's chain up to it    what it has to wait for

Mining takes, again and again, the best bid among the senders' first transactions. A good bid behind a bad one is
reached right after the bad one, so sorting by lead, then nonce, gives the very same order; and a lead depends on the
sender's own chain only. A transaction whose lead is its own bid leads a run: itself and those after it with that lead.
"""

from enum import Enum, auto

import msgspec

from cairn.domain.types import MAX_UINT64, Tx

WAITING = -1
"""The lead of a transaction that is not executable: an earlier nonce of its sender is missing."""


class Delivery(Enum):
    """How far a transaction is on its way to those who make blocks, where this node does not make them itself."""

    HERE = auto()
    """It has not been sent, or whoever it was sent to has lost everything."""
    SENT = auto()
    RETURNED = auto()
    """It was refused or thrown out, and has not been sent again."""


# By name alone: through the class each costs five times as much.
HERE, SENT, RETURNED = Delivery.HERE, Delivery.SENT, Delivery.RETURNED


class Entry(msgspec.Struct, gc=False, eq=False):
    """`lead` and `waits_since` follow the sender's chain, `delivery` and `sent_at` what becomes of it elsewhere.

    `local` may become true; the rest never changes.
    """

    tx: Tx
    received_at: int
    """Unix time in whole seconds."""
    bid: int
    lead: int = WAITING
    local: bool = True
    """This node answers for it; False for one that only other nodes have taken in."""
    waits_since: int = 0
    """While it waits for a missing nonce: since when, in seconds that the node has been up."""
    delivery: Delivery = HERE
    sent_at: float = 0.0
    """When it was sent last, by the clock of whoever sends it; of others' transactions, when they were first seen."""

    @property
    def seq(self) -> int:
        return self.bid & MAX_UINT64

    def send(self, at: float) -> None:
        self.delivery = SENT
        self.sent_at = at
