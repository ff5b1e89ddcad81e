"""A transaction in the mempool, and the two numbers that give its place in the mining order. Lower is better.

    bid    inverse gas price (256 bits) | seq (64 bits)    its own price, then its arrival
    lead   the worst bid of its sender up to it             what decides when it is mined

A block repeatedly takes the best bid among the first transactions of all senders. A good bid behind a bad one of the
same sender is mined right after the bad one. So sorting by lead, then nonce, gives the same order, and a lead depends
only on the transactions of its sender. A transaction whose lead is its own bid begins a run: itself and those after it
with the same lead.
"""

from enum import Enum, auto

import msgspec

from cairn.domain.types import MAX_UINT64, Tx

QUEUED = -1
"""The lead of a queued transaction: an earlier nonce of its sender is missing."""


class Delivery(Enum):
    """Whether CometBFT has the transaction, on a node that does not make blocks itself."""

    HERE = auto()
    """It has not been sent, or CometBFT has restarted and lost it."""
    SENT = auto()
    RETURNED = auto()
    """CometBFT refused or removed it, and it has not been sent again."""


# Plain names, because access through the class costs five times as much.
HERE, SENT, RETURNED = Delivery.HERE, Delivery.SENT, Delivery.RETURNED


class Entry(msgspec.Struct, gc=False, eq=False):
    """`lead` and `queued_since` change with the sender's other transactions, `delivery` and `sent_at` with sending.

    `local` may become true; the rest never changes.
    """

    tx: Tx
    received_at: int
    """Unix time in whole seconds."""
    bid: int
    lead: int = QUEUED
    local: bool = True
    """This node accepted it and answers for it; False if only other nodes did."""
    queued_since: int = 0
    """If it is queued: since when, in seconds of the node's uptime."""
    delivery: Delivery = HERE
    sent_at: float = 0.0
    """When it was last sent, by the sender's clock. For a transaction of another node, when it was first seen."""

    @property
    def seq(self) -> int:
        return self.bid & MAX_UINT64

    def send(self, at: float) -> None:
        self.delivery = SENT
        self.sent_at = at
