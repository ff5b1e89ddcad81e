"""A pooled transaction and the numbers that place it among the others. Lower is better throughout.

    bid    inverse gas price (256 bits) | seq (64 bits)     what the transaction offers by itself: price, then arrival
    rank   worst bid up to it (320 bits) | nonce (64 bits)  its place in the mining order

Mining takes, again and again, the best bid among the senders' first transactions. A transaction with a good bid
behind one with a bad bid is reached right after the bad one, so ranking each by the worst bid in its sender's chain
up to itself gives the very same order, and none of it depends on what other senders do.
"""

import msgspec

from cairn.domain.types import MAX_UINT256, Tx

WAITING = -1
"""The rank of a transaction that is not executable: an earlier nonce of its sender is missing."""


class Entry(msgspec.Struct, gc=False, eq=False):
    """`rank` follows the chain that the transaction stands in; the rest never changes."""

    tx: Tx
    received_at: int
    """Unix time in whole seconds."""
    seq: int
    """Order of arrival in this pool."""
    bid: int
    rank: int = WAITING


def bid_of(gas_price: int, seq: int) -> int:
    return (MAX_UINT256 - gas_price) << 64 | seq


def rank_of(worst_bid: int, nonce: int) -> int:
    return worst_bid << 64 | nonce


def worst_bid_of(rank: int) -> int:
    return rank >> 64


def pays_more(bid: int, other: int) -> bool:
    """Whether the price in `bid` is higher, whichever came first."""
    return bid >> 64 < other >> 64
