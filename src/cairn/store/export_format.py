"""The lines of an exported chain: JSON, one thing a line, so that any program can read and make them.

    {"line":"chain", ...}      first: the format, genesis, which blocks follow, and the hash of the last
    {"line":"part", ...}       only where blocks were removed: the state after the oldest one that is kept, and the
                               changes of who signs before it, in parts of a snapshot
    {"line":"block", ...}      each block: its transactions as they were signed, and all that does not follow from them;
                               of the oldest one that is kept, too, if it is not genesis
    {"line":"pending", ...}    each transaction that was accepted and is not in a block
    {"line":"end", ...}        last: how many there were, and the SHA-256 of all lines before it

Everything else is computed again by whoever imports it, and must give the hash that is beside each block. So the format
says nothing of how a version of the node stores a chain: it is the way from one data format to the next.
"""

from typing import Any

import msgspec

from cairn.domain.certificates import Step
from cairn.store.rules_file import RulesSince

EXPORT_FORMAT = 1


class Line(
    msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True, tag_field="line"
):
    """A line of an export."""


class ChainLine(Line, frozen=True, tag="chain"):
    format: int
    genesis: dict[str, Any]
    """As in genesis.json."""
    oldest: int
    """The oldest block that was kept: 0 is genesis, which has no line of its own."""
    height: int
    hash: str
    """Of the last block."""
    written_by: str = ""
    """The version that wrote it, for people."""
    manifest: str = ""
    """Only where blocks were removed: what the parts of the state are, in hex."""
    absent: tuple[tuple[str, ...], ...] = ()
    """Only there, on a network: as `BlockLine.absent`, of the latest blocks before the oldest one, ascending."""
    rules: tuple[RulesSince, ...] = ()
    """On a network that has had other rules than the first: each version of them, and the first height with it."""

    @property
    def block_heights(self) -> range:
        """The heights of the blocks that have a line of their own."""
        return range(max(1, self.oldest), self.height + 1)


class PartLine(Line, frozen=True, tag="part"):
    number: int
    data: str
    """In base64."""


class BlockLine(Line, frozen=True, tag="block"):
    height: int
    hash: str
    timestamp: int
    proposer: str
    txs: tuple[str, ...] = ()
    """Raw signed transactions, in hex."""
    signature: str = ""
    """On a chain whose node makes its blocks alone."""
    step: Step | None = None
    """If who signs changes with this block, as certificates have it."""
    governance: str = ""
    """On a network, if the block changed it: the validators after it, in their canonical bytes."""
    balances: dict[str, str] = {}
    """On a dev chain: the balances that the block sets."""
    absent: tuple[str, ...] | None = None
    """On a network, of the latest blocks: who did not vote on the block before, by CometBFT's address."""


class PendingLine(Line, frozen=True, tag="pending"):
    tx: str
    received_at: int
    """Unix time in whole seconds."""
    queued: bool = False
    """Whether it waits for one with a lower nonce."""


class EndLine(Line, frozen=True, tag="end"):
    blocks: int
    transactions: int
    pending: int
    sha256: str
    """Of all bytes before this line."""


AnyLine = ChainLine | PartLine | BlockLine | PendingLine | EndLine

encode_line = msgspec.json.Encoder().encode
decode_line = msgspec.json.Decoder(AnyLine).decode
