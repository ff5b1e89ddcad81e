"""The commands of docs/monitoring.md, run in their order in a copy of packaging/monitoring."""

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.monitoring import ALERTMANAGER, DIRECTORY, PROMETHEUS, replaced
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import Page
from tests.support.ports import free_ports
from tests.support.programs import need_program

SHOWN = ("127.0.0.1:9090", "127.0.0.1:9093")


@pytest.fixture
def background() -> Iterator[list[subprocess.Popen[bytes]]]:
    """What the page starts with `&`."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def answers(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def test_every_command_of_the_page_works(tmp_path: Path, background: list[subprocess.Popen[bytes]]) -> None:
    need_program(*PROMETHEUS)
    need_program(*ALERTMANAGER)
    addresses = {shown: f"127.0.0.1:{port}" for shown, port in zip(SHOWN, free_ports(2), strict=True)}
    directory = tmp_path / "monitoring"
    shutil.copytree(DIRECTORY, directory)
    settings = directory / "prometheus.yml"
    settings.write_text(replaced(settings.read_text(), addresses.items()))
    outputs = {}
    for step in Page("docs/monitoring.md").steps():
        line = step.line
        for shown, here in addresses.items():
            line = line.replace(shown, here)
        words = shlex.split(line)
        if words[-1] == "&":
            background.append(subprocess.Popen(words[:-1], cwd=directory, stderr=subprocess.DEVNULL))
            [address] = [here for here in addresses.values() if here in line]
            wait_until(lambda address=address: answers(address), PATIENCE_S, line)  # type: ignore[misc]
        else:
            done = subprocess.run(words, cwd=directory, capture_output=True, text=True)
            assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
            outputs[words[0], words[1]] = done.stdout
    assert len(background) == 2
    # The id of the silence.
    assert len(outputs["amtool", "silence"].strip()) == 36
