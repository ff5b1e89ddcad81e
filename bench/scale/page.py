"""The tables of reports/scale.md and docs/scaling.md; `python -m bench.scale.page` writes those of the page."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.scale.figures import FarValidators, Figures, Reads

FIGURES = Path("reports/scale.json")
PAGE = Path("docs/scaling.md")
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
NAMES = {"": "none", "haproxy": "HAProxy", "nginx": "nginx"}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["--:"] * (len(head) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def validators_table(rows: Sequence[FarValidators]) -> str:
    """What clients see. The ratios are to the first row, which every other one shared the machine with."""
    head = ["validators", "delay", "confirmed a second", "ratio", "confirmed after, p50", "p99", "ratio of p50"]
    base = rows[0]
    return table(
        head,
        [
            [
                str(row.validators),
                f"{row.delay_ms:g} ms",
                f"{row.confirmed_per_s:,.0f}",
                f"{row.confirmed_per_s / base.confirmed_per_s:.2f}",
                f"{row.confirmed_p50_s:.2f} s",
                f"{row.confirmed_p99_s:.2f} s",
                f"{row.confirmed_p50_s / base.confirmed_p50_s:.1f}",
            ]
            for row in rows
        ],
    )


def cost_table(rows: Sequence[FarValidators]) -> str:
    """What that costs the validators."""
    head = ["validators", "delay", "CPU a transaction, all validators", "each one's, in signature checks",
            "blocks of the load", "at a steady pace, a block every", "packets a block", "MB a block",
            "memory of one"]  # fmt: skip
    return table(
        head,
        [
            [
                str(row.validators),
                f"{row.delay_ms:g} ms",
                f"{row.cpu_us / 1e3:.2f} ms",
                f"{row.cpu_us / row.validators / row.recovery_us:.1f}",
                f"{row.load_blocks:,}",
                f"{row.block_s:.2f} s",
                f"{row.block_packets:,.0f}",
                f"{row.block_bytes / 1e6:.2f}",
                f"{row.memory_mb:.0f} MB",
            ]
            for row in rows
        ],
    )


def reads_table(rows: Sequence[Reads]) -> str:
    head = [
        "read nodes",
        "proxy",
        "answers a second",
        "ratio",
        "CPU of the nodes an answer",
        "of the proxy",
        "p50",
        "p99",
    ]
    base = rows[0]
    return table(
        head,
        [
            [
                str(row.nodes),
                NAMES[row.proxy],
                f"{row.per_s:,.0f}",
                f"{row.per_s / base.per_s:.2f}",
                f"{row.node_cpu_us:.0f} µs",
                f"{row.proxy_cpu_us:.0f} µs" if row.proxy else "–",
                f"{row.p50_ms:.1f} ms",
                f"{row.p99_ms:.1f} ms",
            ]
            for row in rows
        ],
    )


def shares_text(rows: Sequence[Reads]) -> str:
    """How evenly each proxy spreads clients over several nodes."""
    told = [
        f"{NAMES[row.proxy]} sends {100 * min(row.shares):.0f} to {100 * max(row.shares):.0f} % of all addresses to "
        f"each of {row.nodes} nodes"
        for row in rows
        if row.proxy and row.nodes > 1
    ]
    return "; ".join(told) + ".\n" if told else ""


def origin_text(figures: Figures) -> str:
    recoveries = [far.recovery_us for far in figures.validators] + [reads.recovery_us for reads in figures.reads]
    dropped = max((row.dropped_packets for row in figures.validators), default=0)
    return (
        f"{figures.date}, `{figures.command}`, {figures.machine}, shared with other programs: load average "
        f"{figures.load_average:.1f} at the end; a bare signature check took {min(recoveries):.0f} to "
        f"{max(recoveries):.0f} µs beside the loads. Packets dropped on the way: {dropped}.\n"
    )


def blocks(figures: Figures) -> dict[str, str]:
    """What stands between the marks of docs/scaling.md, by name."""
    return {
        "validators": validators_table(figures.validators),
        "cost": cost_table(figures.validators),
        "reads": reads_table(figures.reads),
        "shares": shares_text(figures.reads),
        "origin": origin_text(figures),
    }


def with_figures(page: str, figures: Figures) -> str:
    """The page with these figures. Raises `KeyError` for a mark whose name nobody knows."""
    found = blocks(figures)
    return BLOCK.sub(lambda block: f"{block[1]}\n{found[block[2]]}\n{block[3]}", page)


def report(figures: Figures) -> str:
    sizes = figures.sizes
    parts = ["# Validators that are far apart, and nodes behind a proxy\n", origin_text(figures)]
    if figures.validators:
        parts += [
            f"{sizes.load:,} transfers as fast as they are taken, spread over all validators, until all are in blocks; "
            f"then {sizes.paced:,} at {sizes.paced_per_s:g} a second, from the POST until the client is told of the "
            "block. Each validator's CometBFT is in a network namespace of its own; a packet takes the delay from one "
            "to another, so a ping takes twice as long. Ratios are to the first row.\n",
            validators_table(figures.validators),
            cost_table(figures.validators),
        ]
    if figures.reads:
        parts += [
            f"Accounts and blocks, read for {sizes.read_s:g} s over 64 connections of 16 clients. One worker a node.\n",
            reads_table(figures.reads),
            shares_text(figures.reads),
        ]
    return "\n".join(part for part in parts if part)


def main() -> int:
    PAGE.write_text(with_figures(PAGE.read_text(), Figures.load(FIGURES)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
