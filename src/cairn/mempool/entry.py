"""A pooled transaction and the two numbers that place it in the mining order. Lower is better.

    bid    inverse gas price (256 bits) | seq (64 bits)    what it offers by itself: its price, then its arrival
    lead   the worst bid in its sender's chain up to it    what it has to wait for

Mining takes, again and again, the best bid among the senders' first transactions. A good bid behind a bad one is
reached right after the bad one, so sorting by lead, then nonce, gives the very same order; and a lead depends on the
sender's own chain only. A transaction whose lead is its own bid leads a run: itself and those after it with that lead.
"""

import msgspec

from cairn.domain.types import MAX_UINT64, MAX_UINT256, Tx

WAITING = -1
"""The lead of a transaction that is not executable: an earlier nonce of its sender is missing."""


class Entry(msgspec.Struct, gc=False, eq=False):
    """`lead` and `waits_since` follow the sender's chain; `local` may become true; the rest never changes."""

    tx: Tx
    received_at: int
    """Unix time in whole seconds."""
    bid: int
    lead: int = WAITING
    local: bool = True
    """This node answers for it; False for one that only other nodes have taken in."""
    waits_since: int = 0
    """While it waits for a missing nonce: since when, in seconds that the node has been up."""

    @property
    def seq(self) -> int:
        return self.bid & MAX_UINT64


def bid_of(gas_price: int, seq: int) -> int:
    return (MAX_UINT256 - gas_price) << 64 | seq


def pays_more(bid: int, other: int) -> bool:
    """Whether the price in `bid` is higher, whichever came first."""
    return bid >> 64 < other >> 64
