"""What only Cairn has a figure for: chains with many transfers, and a network of validators."""

from collections.abc import Callable
from pathlib import Path

from bench.peers.rounds import measured
from bench.peers.rows import ALONE
from bench.peers.samples import Sample
from bench.peers.session import Figures

Tell = Callable[[str], None]
ALONE_ROWS: tuple[str, ...] = ()


def measure_alone(row: str, scratch: Path, smoke: bool, tell: Tell) -> Sample:
    """One of the rows. An error is in the sample."""
    scratch.mkdir(parents=True, exist_ok=True)
    tell(f"{ALONE}: {row}")
    works: dict[str, Callable[[], Figures]] = {}
    return measured(ALONE, row, 0, works[row], 0.0)
