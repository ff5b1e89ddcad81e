"""Measure validators that are far apart, and nodes behind a proxy: writes reports/scale.md and scale.json."""

import argparse
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from bench.scale.figures import FarValidators, Figures, Reads, Sizes
from bench.scale.page import report
from bench.scale.reads import measure_reads
from bench.scale.validators import measure_validators
from tests.support.balancers import HAPROXY
from tests.support.nginx import NGINX
from tests.support.scratch import scratch_parent

REPORTS = Path("reports")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-scale", description=__doc__)
    parser.add_argument("--validators", default="4,7,16", help="of each network (4,7,16)")
    parser.add_argument("--delays", default="1,50,150", help="ms one way (1,50,150)")
    parser.add_argument("--load", type=int, default=10_000, help="transfers for each figure (10000)")
    parser.add_argument("--paced", type=int, default=400, help="transfers at a steady pace (400)")
    parser.add_argument("--rate", type=float, default=20, help="their pace, a second (20)")
    parser.add_argument("--read-nodes", type=int, default=4, help="behind a proxy; 0 for none (4)")
    parser.add_argument("--read-seconds", type=float, default=5, help="for each figure (5)")
    parser.add_argument("--output", type=Path, default=REPORTS, help="where scale.md and scale.json go (reports)")
    options = parser.parse_args()
    if sys.platform != "linux" or os.geteuid() != 0:
        parser.error("network namespaces and their devices need Linux and root")
    if options.read_nodes and not all(any(map(shutil.which, names)) for names in (HAPROXY, NGINX)):
        parser.error("HAProxy or nginx is not here: run `make programs`, or leave the reads out with --read-nodes 0")
    sizes = Sizes(options.load, options.paced, options.rate, options.read_seconds)
    command = " ".join(["python -m bench.scale", *sys.argv[1:]])
    validators: list[FarValidators] = []
    reads: list[Reads] = []
    with tempfile.TemporaryDirectory(prefix="cairn-wan-", dir=scratch_parent()) as scratch:
        for found in _measured(Path(scratch), options, sizes):
            print(found, flush=True)
            validators += [found] if isinstance(found, FarValidators) else []
            reads += [found] if isinstance(found, Reads) else []
            # Each as soon as it is there: a run of all takes long.
            _save(Figures(command, _today(), _machine(), os.getloadavg()[0], sizes, validators, reads), options.output)
    return 0


def _measured(scratch: Path, options: argparse.Namespace, sizes: Sizes) -> Iterator[FarValidators | Reads]:
    delays_ms = list(map(float, options.delays.split(",")))
    for count in map(int, filter(None, options.validators.split(","))):
        place = scratch / str(count)
        place.mkdir()
        yield from measure_validators(place, count, delays_ms, sizes)
        shutil.rmtree(place)
    if options.read_nodes:
        yield from measure_reads(scratch, options.read_nodes, sizes.read_s)


def _save(figures: Figures, directory: Path) -> None:
    figures.save(directory / "scale.json")
    (directory / "scale.md").write_text(report(figures))


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _machine() -> str:
    return f"{os.cpu_count()} cores, Python {platform.python_version()} on {platform.system()}, {platform.machine()}"


if __name__ == "__main__":
    sys.exit(main())
