"""Runs mutmut, and writes what it found to reports/mutants.md.

    make mutants                                  what has changed since the last run
    make mutants ARGS="'cairn.domain.rules.*'"    these once more

Exits with 1 when fewer mutants of a part are killed than its bar says. `.venv/bin/mutmut show NAME` shows a mutant.
"""

import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

MUTMUT = Path(sys.executable).with_name("mutmut")
REPORT = Path("reports/mutants.md")
BARS_PERCENT = {"cairn.domain": 85, "cairn.mempool": 90, "cairn.store.journal": 0, "cairn.engine.network": 0}
"""By part, as modules are named. Below 100, since many mutants do the same as the code, or differ in a text only."""
KILLED = {"killed", "timeout", "segfault"}
INTRODUCTION = """# Mutants

Each is the code with one small change, made by mutmut; it is killed when a test fails on it. mutmut changes functions
and methods, but none with a decorator, and nothing at the level of a module. `.venv/bin/mutmut show NAME` shows one.
"""

Statuses = dict[str, dict[str, str]]
"""By part and by name of the mutant."""


def read_results(printed: str) -> Statuses:
    parts: Statuses = defaultdict(dict)
    for line in printed.splitlines():
        name, _, status = line.strip().partition(": ")
        part = next((part for part in BARS_PERCENT if name.startswith(f"{part}.")), None)
        if part is not None and status != "not checked":
            parts[part][name] = status
    return parts


def percent_killed(statuses: dict[str, str]) -> float:
    return 100 * sum(status in KILLED for status in statuses.values()) / len(statuses)


def report(parts: Statuses, command: str) -> str:
    lines = [
        INTRODUCTION,
        f"Written by `{command}`.",
        "",
        "| part | mutants | killed | survived | no test calls it | killed, % |",
    ]
    lines += ["|---|---|---|---|---|---|"]
    for part, statuses in parts.items():
        counts = Counter("killed" if status in KILLED else status for status in statuses.values())
        row = (part, len(statuses), counts["killed"], counts["survived"], counts["no tests"])
        lines.append(f"| {' | '.join(map(str, row))} | {percent_killed(statuses):.1f} |")
    for part, statuses in parts.items():
        alive = sorted(name for name, status in statuses.items() if status not in KILLED)
        lines += ["", f"## {part}: not killed", "", *(f"- `{name}`: {statuses[name]}" for name in alive)]
    return "\n".join(lines) + "\n"


def main() -> None:
    names = sys.argv[1:]
    # Random tests then try the same each time, so that a mutant's fate is the same too.
    environment = os.environ | {"CI": "mutants"}
    subprocess.run([MUTMUT, "run", *names], env=environment, check=True)
    listed = subprocess.run([MUTMUT, "results", "--all", "true"], capture_output=True, text=True, check=True)
    parts = read_results(listed.stdout)
    REPORT.write_text(report(parts, f'make mutants ARGS="{" ".join(names)}"' if names else "make mutants"))
    missed = [part for part, statuses in parts.items() if percent_killed(statuses) < BARS_PERCENT[part]]
    for part, statuses in parts.items():
        verdict = f", and {BARS_PERCENT[part]} % must be" if part in missed else ""
        print(f"mutants: {percent_killed(statuses):.1f} % of {len(statuses)} in {part} are killed{verdict}")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
