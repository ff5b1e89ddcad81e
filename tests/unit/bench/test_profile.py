import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.load import LoadResult
from bench.phases import LoadCost
from bench.profile import SAMPLER, read_profiles, report
from bench.recovery import Recovery

PROGRAM = """
import os, time
from pathlib import Path

def busy():
    # What the host takes away counts as ours, too, and no sample is taken of it: of each step only so much counts.
    worked, before = 0.0, time.process_time()
    while worked < 0.5:
        sum(range(1_000))
        now = time.process_time()
        worked, before = worked + min(now - before, 0.001), now

if os.fork() == 0:
    Path("/proc/self/comm").write_text("cairn-core")
    busy()
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the names of processes are read from /proc")
def test_the_function_that_takes_the_time_of_a_forked_process_is_named_in_the_report(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(SAMPLER), "SAMPLES_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True)
    core = read_profiles(tmp_path)[1]
    assert core.process == "core"
    [(function, samples)] = core.seen.most_common(1)
    assert function == "<string>: busy"
    assert samples >= 25
    cost = LoadCost(100.0, 40.0, 1.0, LoadResult(1.0, []), Recovery(30.0, 30.0))
    written = report(cost, [core], 10)
    assert "60 in the worker and 40 in the core" in written
    assert any(line.startswith("| <string>: busy |") for line in written.splitlines())
