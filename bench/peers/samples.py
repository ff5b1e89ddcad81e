"""What was measured, and what is made of it: medians of the runs in which the machine was ours."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.machine import Machine


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of one measurement on one target."""

    target: str
    measurement: str
    round: int
    figures: dict[str, float] = {}
    error: str = ""
    """Why there are no figures."""
    others_cores: float = 0.0
    """What other processes of the machine had meanwhile."""
    stolen_cores: float = 0.0
    """What its host gave to other machines."""
    is_disturbed: bool = False
    """Others had too much: this run does not count if there is any other."""
    recovery_us: float = 0.0
    """The yardstick, measured meanwhile: CPU time of one bare signature recovery."""
    bare_per_s: float = 0.0
    """The yardstick, measured just before the chain was started: requests a second of a bare server."""


class Results(msgspec.Struct, frozen=True):
    """The file of raw results."""

    date: str
    commit: str
    command: str
    seconds: float
    machine: Machine
    versions: dict[str, str]
    samples: list[Sample]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written beside it and renamed: a run that is stopped leaves a whole file.
        unfinished = path.with_suffix(".new")
        unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
        unfinished.replace(path)


def load(path: Path) -> Results:
    return msgspec.json.decode(path.read_bytes(), type=Results)


def added(before: Results, after: Results) -> Results:
    """Put two runs together: what the later one has measured replaces the same of the earlier one. Both are named."""
    anew = {(each.target, each.measurement) for each in after.samples}
    kept = [each for each in before.samples if (each.target, each.measurement) not in anew]
    commits = dict.fromkeys([*before.commit.split(", "), after.commit])
    return msgspec.structs.replace(
        after,
        commit=", ".join(commits),
        command=f"{before.command}; {after.command}",
        seconds=before.seconds + after.seconds,
        versions=before.versions | after.versions,
        samples=kept + after.samples,
    )


class Figure(msgspec.Struct, frozen=True):
    """One cell of the table."""

    value: float | None
    runs: int
    """Of which it is the median."""
    thrown_away: int = 0
    is_disturbed: bool = False
    """There was no undisturbed run."""
    error: str = ""


def figure(samples: Sequence[Sample], target: str, name: str, measurement: str) -> Figure | None:
    """The median of the runs that count. None where it was not measured."""
    runs = [each for each in samples if each.target == target and each.measurement == measurement]
    found = [each for each in runs if name in each.figures]
    if not found:
        return Figure(None, 0, error=runs[-1].error) if runs and runs[-1].error else None
    quiet = [each for each in found if not each.is_disturbed]
    counted = quiet or found
    value = statistics.median(each.figures[name] for each in counted)
    return Figure(value, len(counted), len(found) - len(counted), not quiet)


def thrown_away(samples: Sequence[Sample]) -> int:
    """Disturbed runs."""
    return sum(each.is_disturbed for each in samples)
