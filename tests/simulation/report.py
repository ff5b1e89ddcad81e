"""The report of many runs: how much was tried, what was met, and what failed."""

import os
import platform
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.simulation.run import Result
from tests.simulation.setup import Tally

FIRST_LINE_CHARS = 200


class Summary:
    """What a series of runs came to."""

    def __init__(self, base: int) -> None:
        """`base` is the seed of the fresh seeds."""
        self._base = base
        self._tally = Tally()
        self._seeds: list[int] = []
        self._steps = 0
        self._virtual_s = 0.0
        self._begun_at = time.monotonic()
        self.failures: list[Result] = []

    def add(self, result: Result) -> None:
        self._seeds.append(result.seed)
        self._steps += len(result.steps)
        self._virtual_s += result.virtual_s
        self._tally.add(result.tally)
        if result.failure:
            self.failures.append(result)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun_at

    def text(self) -> str:
        """For a terminal."""
        outcome = f"{len(self.failures):,} of {len(self._seeds):,} seeds fail" if self.failures else "clean"
        met = ", ".join(f"{count:,} {what}" for what, count in _ordered(self._tally.met))
        return (
            f"{len(self._seeds):,} seeds, base {self._base}: {self._steps:,} steps in {self.seconds:,.0f} s, "
            f"{self._virtual_s / 3600:,.0f} h of virtual time: {outcome}\nmet: {met}"
        )

    def markdown(self, command: str, known: Sequence[int]) -> str:
        """To be kept. `known` are the seeds that failed before, and were tried first."""
        fresh = self._seeds[len(known) :]
        lines = [
            "# Simulation",
            "",
            f"`{command}`, Python {platform.python_version()}, hash seed {os.environ.get('PYTHONHASHSEED', 'random')}, "
            f"{os.cpu_count()} cores.",
            "",
            *_table(
                ("seconds", f"{self.seconds:,.0f}"),
                ("seeds", f"{len(self._seeds):,}: {len(known)} that failed once, {len(fresh):,} fresh ones"),
                ("base seed", f"{self._base} (`--base {self._base}` draws the same fresh seeds)"),
                ("first fresh seed", str(fresh[0]) if fresh else "none"),
                ("last fresh seed", str(fresh[-1]) if fresh else "none"),
                ("steps", f"{self._steps:,}"),
                ("virtual time", f"{self._virtual_s / 3600:,.0f} h"),
                ("failures", f"{len(self.failures):,}"),
            ),
            "",
            "## Failures",
            "",
            *([_failure(result) for result in self.failures] or ["None."]),
            "",
            "## What was met",
            "",
            *_table(*((what, f"{count:,}") for what, count in _ordered(self._tally.met))),
            "",
            "## Steps that were drawn",
            "",
            *_table(*((what, f"{count:,}") for what, count in _ordered(self._tally.steps))),
        ]
        return "\n".join(lines) + "\n"


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted((+counts).items(), key=lambda item: item[0].lower())


def _table(*rows: tuple[str, str]) -> Iterable[str]:
    return ["| | |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows)]


def _failure(result: Result) -> str:
    return f"- seed {result.seed}: {result.failure.strip().splitlines()[-1][:FIRST_LINE_CHARS]}"
