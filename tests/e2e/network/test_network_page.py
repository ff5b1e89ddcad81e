"""docs/network.md, command by command, on a real network."""

import re
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from cairn.cli.network.homes import PORTS_BETWEEN_NODES
from tests.support.network import is_any_stopped
from tests.support.node_process import NodeProcess, clean_environment, command, wait_until
from tests.support.pace import PATIENCE_S, Pace
from tests.support.pages import Page, Step
from tests.support.ports import free_base_port
from tests.support.programs import need_program
from tests.support.public import get_anew

PAGE = Page("docs/network.md")
NODES = 5
DOCUMENTED_BASE = 8650
STOP_LIMIT_S = 8


def steps_on(base_port: int) -> list[Step]:
    """Each command of the page, on ports that are free here."""
    return [
        Step(re.sub(r":(86\d0)", lambda port: f":{int(port[1]) - DOCUMENTED_BASE + base_port}", line), output)
        for line, output in PAGE.steps()
    ]


def run(line: str, directory: Path) -> subprocess.CompletedProcess[str]:
    own = shlex.quote(command([])[0])
    # However long a block takes here.
    line = re.sub(r"^(cairn (?:validators|admins) (?:add|remove|submit)) ", rf"\1 --timeout {PATIENCE_S} ", line)
    return subprocess.run(
        re.sub(r"^cairn ", f"{own} ", line),
        shell=True,
        cwd=directory,
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=PATIENCE_S,
    )


def await_same_height(base_port: int) -> None:
    """Return once every node is as far as the highest is now: what one of them has confirmed, all of them show."""
    urls = [f"http://127.0.0.1:{base_port + PORTS_BETWEEN_NODES * index}" for index in range(NODES)]
    top = max(map(head_of, urls))
    wait_until(lambda: min(map(head_of, urls)) >= top, PATIENCE_S, f"block {top} at every node")


def head_of(url: str) -> int:
    return int(get_anew(f"{url}/chain").json()["head"]["blockHeight"])


def test_the_commands_of_the_page_work_in_their_order(
    cometbft_tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_program("curl")
    base_port = free_base_port(NODES)
    (make, _), (start, _), *others = steps_on(base_port)
    made = run(f"{make} --base-port {base_port}", tmp_path)
    assert made.returncode == 0, made.stderr
    monkeypatch.chdir(tmp_path)
    with NodeProcess.start(start.split()[1:]) as network:
        wait_until(lambda: network.stdout.count(": ready") >= NODES, PATIENCE_S, network.stdout)
        for line, shown in others:
            done = run(line, tmp_path)
            if shown:
                assert (done.returncode, done.stderr) == (1, shown)
            else:
                assert done.returncode == 0, f"{line}: {done.stderr}"
            await_same_height(base_port)
        validators = get_anew(f"http://127.0.0.1:{base_port}/validators").json()
        assert [each["name"] for each in sorted(validators["validators"], key=lambda each: str(each["name"]))] == [
            "node1", "node2", "node3", "node4"
        ]  # fmt: skip
        groups = [network.process.pid, *network.children()]
        with Pace(lambda: is_any_stopped(groups)) as pace:
            began = time.monotonic()
            assert network.stop(PATIENCE_S) == 0
            assert time.monotonic() - began < pace.stretch(STOP_LIMIT_S)
