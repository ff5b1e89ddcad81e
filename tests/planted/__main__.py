"""Plants a defect in a process of its own, and runs the machine that must find it.

python -m tests.planted "a drop is told before its sync"
python -m tests.planted "a drop is told before its sync" --seed 12 --trace
"""

import os
import runpy
import sys
from pathlib import Path

import pytest

from tests.planted.defects import find_defect
from tests.planted.planting import plant

SITE = Path(__file__).parent / "site"
MOST_SEEDS = 100
"""How many are tried before the simulator counts as blind."""


def main() -> int:
    name, *arguments = sys.argv[1:]
    defect = find_defect(name)
    plant(defect)
    if defect.tests:
        # Processes that the tests start have it too.
        os.environ["PLANTED"] = name
        os.environ["PYTHONPATH"] = os.pathsep.join((str(SITE), os.getcwd()))
        return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *defect.tests, *arguments]))
    first = [argument for seed in defect.seeds for argument in ("--first", str(seed))]
    search = [*first, "--no-known", "--base", "1", "--count", str(MOST_SEEDS), "--shrink", "0", *defect.arguments]
    # The process that this is has the defect; one that it starts anew, for another order of sets, would not.
    sys.argv[1:] = ["--hash-seed", os.environ["PYTHONHASHSEED"], *(arguments or search)]
    runpy.run_module("tests.simulation", run_name="__main__")
    return 0


if __name__ == "__main__":
    if "PYTHONHASHSEED" not in os.environ:
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.planted", *sys.argv[1:]], os.environ | {"PYTHONHASHSEED": "0"}
        )
    sys.exit(main())
