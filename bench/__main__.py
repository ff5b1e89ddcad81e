"""Run every measurement, print the figures, and exit with 1 when a bar is missed."""

import argparse
import json
import platform
import sys
import tempfile
import time
from pathlib import Path

from bench.phases import FULL, SMOKE, measure_main
from bench.report import Line, main_lines

RESULTS = Path(__file__).parent / "results"


def tell(message: str) -> None:
    print(f"  {message} ...", file=sys.stderr, flush=True)


def save(lines: list[Line], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = {line.key: line.value for line in lines}
    machine = {"machine": platform.machine(), "python": platform.python_version()}
    path.write_text(json.dumps(machine | figures, indent=2) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: shows that it works, not how fast; no bars")
    parser.add_argument("--output", type=Path, default=RESULTS / f"{time.strftime('%Y%m%d-%H%M%S')}.json")
    options = parser.parse_args()
    if sys.platform != "linux":
        parser.error("the processes' cost is read from /proc: run it on Linux")
    sizes = SMOKE if options.smoke else FULL
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as scratch:
        lines = main_lines(measure_main(Path(scratch), sizes, tell), sizes)
    print(*lines, sep="\n")
    save(lines, options.output)
    return 0 if options.smoke or all(line.is_met for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
