"""A bundle: many transfers as one CometBFT transaction. A node under load sends bundles, and CometBFT's blocks hold
them.

CometBFT's work for a transaction (check, gossip, block, recheck) does not depend on its size. A bundle only transports
transfers: in a block of the chain each transfer is on its own.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from cairn.domain.errors import InvalidField
from cairn.domain.governance import UPDATE_PREFIX
from cairn.domain.types import Tx

BUNDLE_PREFIX = b"\x82"
"""No transfer of any type, and no validator update, begins with this byte."""
FEWEST = 2
"""A single transfer is sent without a bundle."""
MOST = 512
TRANSFER_BYTES = 224
"""The most that a transfer takes in a bundle, without its data."""
MOST_BYTES = MOST * TRANSFER_BYTES
"""The most in a bundle that is sent: with their data, 512 would not fit into a transaction of CometBFT (128 KiB)."""
_LENGTH = struct.Struct(">H")
_OTHER_PREFIXES = (BUNDLE_PREFIX, UPDATE_PREFIX)


class Bundle(NamedTuple):
    raws: tuple[bytes, ...]
    txs: tuple[Tx, ...]
    """The parsed transactions, in the same order."""


def encode_batches(raws: Sequence[bytes]) -> list[bytes]:
    """The transfers in as few CometBFT transactions as possible, in their order."""
    return [encode_batch(raws[start : start + MOST]) for start in range(0, len(raws), MOST)]


def encode_batch(raws: Sequence[bytes]) -> bytes:
    """One or more transfers as one CometBFT transaction."""
    return encode_bundle(raws) if len(raws) >= FEWEST else raws[0]


def encode_bundle(raws: Sequence[bytes]) -> bytes:
    parts = [BUNDLE_PREFIX]
    for raw in raws:
        parts += _LENGTH.pack(len(raw)), raw
    return b"".join(parts)


def is_bundle(raw: bytes) -> bool:
    return raw[:1] == BUNDLE_PREFIX


def open_bundle(raw: bytes) -> list[bytes]:
    """The transfers in an untrusted bundle, not parsed. Raises `InvalidField`."""
    # No more than needed: an attacker can send one of millions.
    raws = list(islice(_cut(raw), MOST + 1))
    if not FEWEST <= len(raws) <= MOST:
        raise InvalidField("bundle", f"must hold {FEWEST} to {MOST} transactions")
    if any(inner[:1] in _OTHER_PREFIXES for inner in raws):
        raise InvalidField("bundle", "holds what is no transfer")
    if len(set(raws)) < len(raws):
        raise InvalidField("bundle", "holds a transaction twice")
    return raws


def first_in(raw: bytes, count: int) -> list[bytes]:
    """The first transfers in an untrusted bundle; the rest is not read. Raises `InvalidField`."""
    return list(islice(_cut(raw), count))


def _cut(raw: bytes) -> Iterator[bytes]:
    at, end = len(BUNDLE_PREFIX), len(raw)
    while at < end:
        start = at + _LENGTH.size
        if start > end:
            raise InvalidField("bundle", "ends within a length")
        at = start + _LENGTH.unpack_from(raw, start - _LENGTH.size)[0]
        if at > end:
            raise InvalidField("bundle", "ends within a transaction")
        yield raw[start:at]
