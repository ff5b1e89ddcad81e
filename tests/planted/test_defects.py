"""Each planted defect is found by the machine that is there to find such ones."""

import subprocess
import sys

import pytest

from tests.planted.defects import DEFECTS, Defect

TESTS_FAILED = 1


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_planted_defect_is_found(defect: Defect) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.planted", defect.name], capture_output=True, text=True)
    output = done.stdout + done.stderr
    assert done.returncode == TESTS_FAILED, output
    if defect.tests:
        assert " failed" in output, output
    else:
        assert any(f" s: {kind}: " in output for kind in defect.shown_as), output
