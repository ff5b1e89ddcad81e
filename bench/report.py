"""The figures against the bars that the node must hold."""

import statistics
from dataclasses import dataclass

from bench.phases import MainFigures, Sizes, median_ratio

MAX_COST_RATIO = 3.0
MAX_START_S = 1.5
MAX_IDLE_MB = 200


@dataclass(frozen=True, slots=True)
class Line:
    """One figure; with a bar, it must not be above it, and with a floor not below that."""

    key: str
    label: str
    value: float
    unit: str
    bar: float | None = None
    floor: float | None = None

    @property
    def is_met(self) -> bool:
        return (self.bar is None or self.value <= self.bar) and (self.floor is None or self.value >= self.floor)

    def __str__(self) -> str:
        bounds = [f"at most {self.bar:g}"] if self.bar is not None else []
        bounds += [f"at least {self.floor:g}"] if self.floor is not None else []
        verdict = f"  {' and '.join(bounds)}: {'ok' if self.is_met else 'MISSED'}" if bounds else ""
        return f"{self.label:<58}{self.value:>12,.2f} {self.unit:<5}{verdict}".rstrip()


def main_lines(figures: MainFigures, sizes: Sizes) -> list[Line]:
    posts, gets, parts = figures.posts, figures.gets, figures.parts
    recovery_us = statistics.median(part.recovery.mean_us for part in parts)
    best_recovery_us = min(part.recovery.best_us for part in parts)
    cpu_us = statistics.median(part.cpu_us for part in parts)
    core_us = statistics.median(part.core_cpu_us for part in parts)
    return [
        Line("recovery_us", "one bare libsecp256k1 recovery, beside the load", recovery_us, "us"),
        Line("recovery_best_us", "  ... the fastest seen", best_recovery_us, "us"),
        Line("cpu_us_per_tx", "CPU of all processes, per confirmed transaction", cpu_us, "us"),
        Line("core_cpu_us_per_tx", "  ... of which the core", core_us, "us"),
        Line("cost_ratio", "  ... in recoveries", median_ratio(parts), "x", MAX_COST_RATIO),
        Line("best_cost_ratio", "  ... in recoveries, the fastest seen", cpu_us / best_recovery_us, "x"),
        Line("strangers_ratio", "  ... in recoveries, each to a new account", figures.strangers.cost_ratio, "x"),
        Line("data_ratio", "  ... in recoveries, each with a reference", figures.with_data.cost_ratio, "x"),
        *(
            Line(f"type_{kind}_ratio", f"  ... in recoveries, of type {kind}", median_ratio(costs), "x", MAX_COST_RATIO)
            for kind, costs in figures.typed.items()
        ),
        Line("accepted_per_s", "transactions accepted", posts.per_second, "/s"),
        Line("confirmed_per_s", "transactions confirmed", figures.confirmed_per_s, "/s"),
        Line("post_p50_ms", "POST /tx, p50", posts.percentile_ms(50), "ms"),
        Line("post_p99_ms", "POST /tx, p99", posts.percentile_ms(99), "ms"),
        Line("get_per_s", "GET /tx answered", gets.per_second, "/s"),
        Line("get_p50_ms", "GET /tx, p50", gets.percentile_ms(50), "ms"),
        Line("get_p99_ms", "GET /tx, p99", gets.percentile_ms(99), "ms"),
        Line("start_s", "start to /ready, median", statistics.median(figures.start_s), "s", MAX_START_S),
        Line("start_max_s", "start to /ready, slowest", max(figures.start_s), "s"),
        Line("idle_rss_mb", "memory idle, sum of RSS", figures.idle.rss_mb, "MB", MAX_IDLE_MB),
        Line("idle_pss_mb", "memory idle, shared pages once (PSS)", figures.idle.pss_mb, "MB"),
        Line("loaded_rss_mb", f"memory after {sizes.load:,} transactions, RSS", figures.loaded.rss_mb, "MB"),
        Line("loaded_pss_mb", f"memory after {sizes.load:,} transactions, PSS", figures.loaded.pss_mb, "MB"),
    ]
