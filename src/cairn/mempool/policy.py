"""How much the mempool holds, and on what terms."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolLimits:
    size: int = 100_000
    per_sender: int = 10_000
    nonce_gap: int = 64
    """How far ahead of its sender's next nonce a transaction may be."""
    lifetime_s: int = 10_800
    """How long a transaction may be queued, in seconds of the node's uptime."""
