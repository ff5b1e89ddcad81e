"""What a verification finds: where, and what is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from cairn.domain.errors import NodeError

KEPT_FINDINGS = 1_000
"""Of each process; more are only counted."""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A difference between what is stored and what must be."""

    part: str
    """The column family, or the file beside RocksDB."""
    detail: str
    height: int | None = None
    """Of the block that it belongs to, if that can be said."""


def shown(value: bytes | None) -> str:
    return "nothing" if value is None else "0x" + value.hex()


class Findings:
    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.count = 0

    def add(self, part: str, detail: str, height: int | None = None) -> None:
        self.take([Finding(part, detail, height)], 1)

    def take(self, found: list[Finding], count: int) -> None:
        self.kept += found[: KEPT_FINDINGS - len(self.kept)]
        self.count += count

    @contextmanager
    def noted(self, part: str, height: int | None = None) -> Iterator[None]:
        """Add what the code within raises for damage, and leave out the rest of it."""
        try:
            yield
        except NodeError as damage:
            self.add(part, damage.detail, height)
