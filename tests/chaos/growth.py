"""What must not grow: what processes hold while nothing is done to them, at its lowest, from one third to the next."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.report import table
from tests.chaos.usage import Usage, UsageLog

FLUSH_TRANSFERS = 45_000
"""Memtables fill up and are freed with so many transfers, and memory goes up and down by some 20 MB with them: it is at
its lowest once in as many. A peak says less: one large answer, or a client that reads slowly, is in it."""
QUIET_TRANSFERS = 3 * FLUSH_TRANSFERS
"""From here on the lowest of two thirds can be compared, on a fast machine and on a slow one."""
MOST_RSS_MB = {"cairn": 180.0, "cometbft": 300.0}
"""Of any process, ever. Ours: 40 of libraries and code; RocksDB's memtables and cache; caches of answers; and as much
again that the allocator keeps."""
SHOWN_SAMPLES = 12
LOOK_S = 1.0
"""Between two looks."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that must not grow."""

    name: str
    of: Callable[[Usage], float]
    most_growth: float
    """From the second to the last third of the quiet half. A leak takes more: each third has thousands of transfers,
    and sockets by the hundred that come and go."""
    process: str = "cairn"
    """In the names of the processes that it is for."""
    per_transfer: float = 0.0
    """How much more for each transfer of a third: a cache that fills."""


def rss(usage: Usage) -> float:
    return usage.rss_mb


def files(usage: Usage) -> float:
    return usage.files


def stale(usage: Usage) -> float:
    return usage.stale


def others(usage: Usage) -> float:
    return usage.others


MEASURES = (
    Measure("RSS, MB", rss, 8.0),
    Measure("stale files", stale, 8.0),
    Measure("sockets and pipes", others, 100.0),
)


@dataclass
class Watch:
    """What processes held, and when nothing was done to them."""

    measures: Sequence[Measure] = MEASURES
    least_transfers: int = QUIET_TRANSFERS
    """In the quiet half: with fewer, growth cannot be told from ups and downs."""
    usage: UsageLog = field(default_factory=UsageLog)
    quiet: tuple[int, int] = (0, 0)
    """How many transfers were accepted when the half without kills began, and when it ended."""

    @property
    def quiet_transfers(self) -> int:
        return self.quiet[1] - self.quiet[0]

    @property
    def shows_growth(self) -> bool:
        """Whether the quiet half was long enough to tell growth from the ups and downs of memtables."""
        return self.quiet_transfers >= self.least_transfers

    def check(self) -> None:
        """Flat at the end, and never much."""
        for name in self.usage.names():
            highest = self.usage.peak(name, rss)
            [most] = (most for process, most in MOST_RSS_MB.items() if process in name)
            assert highest < most, f"{name} had {highest:.0f} MB"
        if self.shows_growth:
            for name, measure, before, last in self._thirds():
                assert last - before < self._most_growth(measure), (
                    f"{name}, {measure.name}: grew from {before:.0f} to {last:.0f} and did not settle"
                )

    def _most_growth(self, measure: Measure) -> float:
        return measure.most_growth + measure.per_transfer * self.quiet_transfers / 3

    def _thirds(self) -> Iterator[tuple[str, Measure, float, float]]:
        """The lowest of each process and measure in the second and in the last third of the half without kills."""
        first, last = self.quiet
        third = self.quiet_transfers // 3
        for name in self.usage.names():
            for measure in self.measures:
                if measure.process in name:
                    yield (
                        name,
                        measure,
                        self.usage.trough(name, first + third, last - third, measure.of),
                        self.usage.trough(name, last - third, last, measure.of),
                    )

    def sections(self) -> list[str]:
        peaks = table(
            ("process", "peak RSS, MB", "peak of open files"),
            [(name, self.usage.peak(name, rss), int(self.usage.peak(name, files))) for name in self.usage.names()],
        )
        growth = table(
            ("process", "held", "lowest in the second third of the quiet half", "in the last third", "may grow by"),
            [
                (name, measure.name, before, last, self._most_growth(measure))
                for name, measure, before, last in self._thirds()
            ],
        )
        return ["\n### Peaks\n", peaks, "\n### Growth\n", growth]

    def over_time(self) -> str:
        """RSS and descriptors of each process, a few times from the beginning to the end."""
        names = self.usage.names()
        ended_s = max((samples[-1].at_s for samples in self.usage.samples.values()), default=0.0) + LOOK_S
        rows = []
        for number in range(SHOWN_SAMPLES):
            first_s, last_s = (ended_s * part / SHOWN_SAMPLES for part in (number, number + 1))
            row: list[object] = [f"{last_s:.0f}"]
            for name in names:
                samples = self.usage.between(name, first_s, last_s)
                row.append(
                    f"{samples[-1].rss_mb:.0f} MB, {samples[-1].files} + {samples[-1].others}" if samples else ""
                )
            rows.append(row)
        return table(("second", *(f"{name}: RSS, files + others" for name in names)), rows)
