"""Many transfers on one ticket: what a node under load hands to CometBFT at once, and what CometBFT's blocks hold.

CometBFT's work is the same for every ticket that it checks, gossips, puts into a block or checks again after it,
however little is in it. A bundle is but a way to carry transfers: a block of the chain holds each of them by itself.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from cairn.domain.errors import InvalidField
from cairn.domain.governance import UPDATE_PREFIX
from cairn.domain.types import Tx

BUNDLE_PREFIX = b"\x82"
"""No transfer, of whatever type, and no validator update starts with it."""
FEWEST = 2
"""One alone goes as it is."""
MOST = 512
_LENGTH = struct.Struct(">H")
_OTHER_PREFIXES = (BUNDLE_PREFIX, UPDATE_PREFIX)


class Bundle(NamedTuple):
    raws: tuple[bytes, ...]
    txs: tuple[Tx, ...]
    """What they mean, in the same order."""


def encode_tickets(raws: Sequence[bytes]) -> list[bytes]:
    """Transfers in as few bundles as hold them, in their order."""
    return [encode_ticket(raws[start : start + MOST]) for start in range(0, len(raws), MOST)]


def encode_ticket(raws: Sequence[bytes]) -> bytes:
    """One or more transfers as one item."""
    return encode_bundle(raws) if len(raws) >= FEWEST else raws[0]


def encode_bundle(raws: Sequence[bytes]) -> bytes:
    parts = [BUNDLE_PREFIX]
    for raw in raws:
        parts += _LENGTH.pack(len(raw)), raw
    return b"".join(parts)


def is_bundle(raw: bytes) -> bool:
    return raw[:1] == BUNDLE_PREFIX


def open_bundle(raw: bytes) -> list[bytes]:
    """The transfers in a bundle of anybody's making. Raises `InvalidField`; what each one says is not looked at."""
    # No more than needed: anybody can make one of millions.
    raws = list(islice(_cut(raw), MOST + 1))
    if not FEWEST <= len(raws) <= MOST:
        raise InvalidField("bundle", f"must hold {FEWEST} to {MOST} transactions")
    if any(inner[:1] in _OTHER_PREFIXES for inner in raws):
        raise InvalidField("bundle", "holds what is no transfer")
    if len(set(raws)) < len(raws):
        raise InvalidField("bundle", "holds a transaction twice")
    return raws


def first_in(raw: bytes, count: int) -> list[bytes]:
    """The first transfers in a bundle of anybody's making; the rest is not looked at. Raises `InvalidField`."""
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
