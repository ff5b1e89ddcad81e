"""Measure Cairn beside geth, anvil, hardhat and ganache, and write the page of the docs."""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.machine import this_machine
from bench.peers.alone import ALONE_ROWS, measure_alone
from bench.peers.chains import ROOT, TARGETS, is_installed, versions
from bench.peers.plots import save_plot
from bench.peers.report import bars_table, notes, page, table
from bench.peers.rounds import ROWS, Comparison
from bench.peers.samples import Results, Sample, added, load
from bench.peers.session import FULL, SMOKE

DOCS = ROOT / "docs"
RAW = "benchmarks.json"


def names(known: Sequence[str], text: str) -> list[str]:
    """Some of the known names, separated by commas. Raises `ArgumentTypeError` for another."""
    chosen = text.split(",")
    for name in chosen:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
    return [name for name in known if name in chosen]


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def command(arguments: Sequence[str]) -> str:
    """The command to repeat it with. Directories of this machine say nothing to others."""
    shown = list(arguments)
    for option in ("--output", "--chains"):
        if option in shown:
            at = shown.index(option)
            del shown[at : at + 2]
    shown = [each for each in shown if not each.startswith(("--output=", "--chains="))]
    return f'make bench-peers ARGS="{" ".join(shown)}"' if shown else "make bench-peers"


def main() -> int:
    everything = [*ROWS, *ALONE_ROWS]
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: shows that it works, not how fast")
    parser.add_argument("--only", type=lambda text: names(everything, text), default=everything, metavar="ROW,…",
                        help=f"some rows: {', '.join(everything)}")  # fmt: skip
    parser.add_argument("--peers", type=lambda text: names(list(TARGETS), text), metavar="NAME,…",
                        help=f"some of {', '.join(TARGETS)}; all that are installed if left out")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of each row (3)")
    parser.add_argument("--output", type=Path, default=DOCS, metavar="DIR",
                        help="where benchmarks.md, benchmarks.json and images/benchmarks.svg go (docs)")  # fmt: skip
    parser.add_argument("--add", action="store_true", help="keep what the last run has measured and this one does not")
    parser.add_argument("--chains", type=Path, metavar="DIR",
                        help="where the chains of depth are kept for the next run; none are if left out")  # fmt: skip
    options = parser.parse_args()
    if sys.platform != "linux":
        parser.error("the processes' cost is read from /proc: run it on Linux")
    targets = options.peers or [name for name in TARGETS if is_installed(name)]
    missing = [name for name in TARGETS if name not in targets]
    began = time.monotonic()
    # A run that is stopped ends its chains, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    def tell(message: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {message}", file=sys.stderr, flush=True)

    last = load(options.output / RAW) if options.add else None
    if missing:
        tell(f"left out: {', '.join(missing)}")
    found_versions = versions(targets)
    head = command(sys.argv[1:])

    def results(samples: Sequence[Sample]) -> Results:
        date = time.strftime("%Y-%m-%d", time.gmtime())
        took_s = time.monotonic() - began
        found = Results(date, commit(), head, took_s, this_machine(), found_versions, list(samples))
        return found if last is None else added(last, found)

    def keep(samples: Sequence[Sample]) -> None:
        results(samples).save(options.output / RAW)

    sizes = SMOKE if options.smoke else FULL
    with tempfile.TemporaryDirectory(prefix="cairn-peers-") as scratch:
        rows = [row for row in ROWS if row in options.only]
        comparison = Comparison(Path(scratch), sizes, rows, targets, options.rounds, tell, keep)
        comparison.run()
        samples = comparison.samples
        for row in [row for row in ALONE_ROWS if row in options.only]:
            chains = options.chains if row == "depth" else None
            samples.append(measure_alone(row, chains or Path(scratch) / row, options.smoke, tell))
            keep(samples)
    final = results(samples)
    (options.output / "benchmarks.md").write_text(page(final))
    save_plot(final.samples, options.output / "images" / "benchmarks.svg")
    print(table(final.samples), bars_table(final.samples), notes(final.samples), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
