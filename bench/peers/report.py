"""The results as Markdown: the table, what must be reached, and the page of the docs around them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from bench.peers.chains import TARGETS
from bench.peers.rows import ALONE, BARS, BY_KEY, OURS, OWN_BARS, ROWS, Row
from bench.peers.samples import Figure, Results, Sample, figure, thrown_away

PAGE = Path(__file__).with_name("page.md")
NONE = "–"
NOT_MEASURED = "Not measured in this run."
NETWORK_LABELS = {
    ("network", "cairn_per_s"): "Cairn: transactions confirmed a second",
    ("network", "kvstore_per_s"): "kvstore: transactions confirmed a second",
    ("network", "cairn_cpu_us"): "Cairn at full load: CPU a transaction, four nodes, µs",
    ("network", "kvstore_cpu_us"): "kvstore at full load: CPU a transaction, four nodes, no signatures, µs",
    ("light", "light_cpu_ms"): "Cairn at 60/s: CPU a transaction, four nodes, ms",
    ("light", "light_p50_ms"): "Cairn at 60/s: POST to confirmed, p50, ms",
}
UNSUPPORTED = ("not supported", "not available", "does not exist")


def number(value: float) -> str:
    """As many digits as mean something."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(found: Figure | None) -> str:
    if found is None:
        return NONE
    if found.value is None:
        return NONE if any(word in found.error for word in UNSUPPORTED) else "failed"
    return number(found.value) + star([found])


def star(figures: Sequence[Figure | None]) -> str:
    """Mark what comes of runs that were all disturbed."""
    return "\\*" if any(each is not None and each.is_disturbed for each in figures) else ""


def figure_of(samples: Sequence[Sample], row: Row, target: str) -> Figure | None:
    """Get a target's figure in a row."""
    if row.peers_as and not TARGETS[target].is_ours:
        row = BY_KEY[row.peers_as]
    return figure(samples, target, row.key, row.measurement)


def best_peer(samples: Sequence[Sample], row: Row, only: str = "") -> tuple[str, float] | None:
    """The peer with the best figure, and the figure."""
    found: dict[str, float] = {}
    for name, target in TARGETS.items():
        if not target.is_ours and only in ("", name):
            each = figure_of(samples, row, name)
            if each is not None and each.value is not None:
                found[name] = each.value
    if not found:
        return None
    best = (max if row.more_is_better else min)(found, key=lambda name: found[name])
    return best, found[best]


def ratio(samples: Sequence[Sample], row: Row, target: str, against: str = "") -> float | None:
    """Divide the figure of one of our targets by that of the best peer."""
    ours, best = figure_of(samples, row, target), best_peer(samples, row, against)
    if ours is None or ours.value is None or best is None or not best[1]:
        return None
    return ours.value / best[1]


def table(samples: Sequence[Sample]) -> str:
    measured = {each.target for each in samples}
    targets = {name: target for name, target in TARGETS.items() if name in measured}
    if not targets:
        return NOT_MEASURED
    ours = [name for name in OURS if name in targets]
    heads = ["", *(target.label for target in targets.values()), *(f"{TARGETS[name].label} / best" for name in ours)]
    lines = [f"| {' | '.join(heads)} |", f"|---{'|--:' * (len(heads) - 1)}|"]
    for row in ROWS:
        cells = [cell(figure_of(samples, row, name)) for name in targets]
        if set(cells) == {NONE}:
            continue
        ratios = [ratio(samples, row, name) for name in ours]
        texts = [
            NONE if each is None else f"**{each:.2f}**" if is_behind(row, each) else f"{each:.2f}" for each in ratios
        ]
        unit = row.unit if row.unit.startswith("/") else f", {row.unit}"
        lines.append(f"| {row.label}{unit} | {' | '.join(cells + texts)} |")
    return "\n".join(lines)


def is_behind(row: Row, against_best: float) -> bool:
    return against_best < 1 if row.more_is_better else against_best > 1


@dataclass(frozen=True, slots=True)
class Verdict:
    what: str
    bar: str
    reached: str
    is_met: bool | None
    """None where there is no figure."""

    def __str__(self) -> str:
        shown = {True: "ok", False: "**MISSED**", None: "not measured"}[self.is_met]
        return f"| {self.what} | {self.bar} | {self.reached} | {shown} |"


def verdicts(samples: Sequence[Sample]) -> list[Verdict]:
    found = []
    for bar in BARS:
        row = BY_KEY[bar.key]
        for target in bar.targets:
            reached = ratio(samples, row, target, bar.against)
            best = best_peer(samples, row, bar.against)
            peer = bar.against or (best[0] if best else "the best peer")
            sign = "at least" if row.more_is_better else "at most"
            what = f"{row.label}, {TARGETS[target].label}, against {peer}"
            figures = [figure_of(samples, row, name) for name in (target, peer) if name in TARGETS]
            unit = "x" + star(figures)
            found.append(_verdict(what, f"{sign} {bar.factor:g} x", reached, unit, bar.factor, row.more_is_better))
    for own in OWN_BARS:
        each = figure(samples, ALONE, own.key, own.measurement)
        sign = "at least" if own.more_is_better else "at most"
        value = None if each is None else each.value
        bound = f"{sign} {own.bar:g} {own.unit}"
        found.append(_verdict(own.label, bound, value, own.unit + star([each]), own.bar, own.more_is_better))
    return found


def _verdict(what: str, bound: str, value: float | None, unit: str, bar: float, more_is_better: bool) -> Verdict:
    if value is None:
        return Verdict(what, bound, NONE, None)
    return Verdict(what, bound, f"{value:.2f} {unit}", value >= bar if more_is_better else value <= bar)


def bars_table(samples: Sequence[Sample]) -> str:
    lines = ["| what | must be | is | |", "|---|---|--:|---|"]
    return "\n".join([*lines, *map(str, verdicts(samples))])


def notes(samples: Sequence[Sample]) -> str:
    """How the machine was, and what failed."""
    disturbed, failed = thrown_away(samples), sum(bool(each.error) for each in samples)
    count = len(samples) - disturbed - failed
    lines = [f"- {count} runs count; {disturbed} were disturbed and do not, where there was another; {failed} failed."]
    starred = "In figures with \\* every run was disturbed."
    if any(
        cell(figure(samples, each.target, key, each.measurement)).endswith("*")
        for each in samples
        for key in each.figures
    ):
        lines.append(f"- {starred}")
    recoveries = sorted(each.recovery_us for each in samples if each.recovery_us)
    bare = sorted(each.bare_per_s for each in samples if each.bare_per_s)
    if recoveries and bare:
        lines.append(
            f"- Yardsticks, from the same seconds: a bare signature recovery took {_range(recoveries)} µs of CPU, "
            f"and a bare uvloop server answered {_range(bare)} requests/s (median, and from least to most)."
        )
    client = [each.figures["client_cores"] for each in samples if "client_cores" in each.figures]
    if client:
        lines.append(f"- The load generator took at most {max(client):.2f} of a core.")
    failures = {f"- {_label(each.target)}, {each.measurement}: {_flat(each.error)}" for each in samples if each.error}
    return "\n".join(lines + sorted(failures))


def _label(target: str) -> str:
    return TARGETS[target].label if target in TARGETS else "Cairn"


def _flat(error: str) -> str:
    if any(word in error for word in UNSUPPORTED):
        return "there is no such method"
    return " ".join(error.replace("|", "/").replace("`", "'").split())[:160]


def _range(values: Sequence[float]) -> str:
    return f"{number(values[len(values) // 2])} ({number(values[0])} to {number(values[-1])})"


def depth_table(samples: Sequence[Sample]) -> str:
    """What each kind of read, and a write, costs on a small and on a large chain; as it was measured last."""
    for each in reversed(samples):
        if each.measurement == "depth" and each.figures:
            kinds = [key.removesuffix(" ratio") for key in each.figures if key.endswith(" ratio")]
            lines = ["| CPU µs | few stored | many stored | ratio |", "|---|--:|--:|--:|"]
            for kind in kinds:
                few, many, against = (each.figures[f"{kind} {which}"] for which in ("few", "many", "ratio"))
                lines.append(f"| {kind} | {number(few)} | {number(many)} | {against:.2f} |")
            return "\n".join(lines)
    return NOT_MEASURED


def network_table(samples: Sequence[Sample]) -> str:
    lines = []
    for (measurement, key), label in NETWORK_LABELS.items():
        found = figure(samples, ALONE, key, measurement)
        if found is not None and found.value is not None:
            lines.append(f"| {label} | {cell(found)} |")
    return "\n".join(["| four validators on this machine | |", "|---|--:|", *lines]) if lines else NOT_MEASURED


def page(results: Results) -> str:
    samples = results.samples
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    return Template(PAGE.read_text()).substitute(
        table=table(samples),
        bars=bars_table(samples),
        depth=depth_table(samples),
        network=network_table(samples),
        notes=notes(samples),
        machine=results.machine,
        versions=versions,
        date=results.date,
        commit=results.commit,
        command=results.command,
        minutes=f"{results.seconds / 60:.0f}",
    )
