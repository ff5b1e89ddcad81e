"""One greedy client, and another that must not notice it, on a real node; and every route and method has its case."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.greedy.cases import every_case, missing_cases
from bench.greedy.chain import SENDERS, Filled
from cairn.api.description.openapi import openapi_document

TRIES = 3
ROOT = Path(__file__).parents[2]
SOME = Filled(9, [9], ["0x" + "11" * 32], ["0x" + "22" * 32] * 50, dict.fromkeys(SENDERS, 0))


def test_every_route_and_method_has_a_case() -> None:
    paths = openapi_document([])["paths"]
    operations = {f"{method.upper()} {path}" for path, item in paths.items() for method in item}
    names = [case.name for case in every_case(SOME)]
    assert missing_cases(set(names), operations) == set()
    assert missing_cases(set(names) - {"GET /blocks"}, operations) == {"GET /blocks"}
    assert len(names) == len(set(names))


def test_another_client_does_not_notice_a_greedy_one() -> None:
    arguments = [sys.executable, "-m", "bench.greedy", "--quick"]
    # A machine that others use can put a process off at any moment; a fault of the node is there each time.
    for _ in range(TRIES):
        done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, start_new_session=True)
        if done.returncode == 0:
            return
    pytest.fail(done.stdout + done.stderr)
