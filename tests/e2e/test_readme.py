"""The README's first run, command by command, against a real node: its output is what a newcomer sees."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.node_process import NodeProcess, command, wait_until

README = (Path(__file__).parents[2] / "README.md").read_text()
ROOT = Path(__file__).parents[2]
DOCUMENTED_URL = "127.0.0.1:8645"


def console_steps() -> list[tuple[str, str]]:
    """Each command of the README's console blocks, with the output shown below it."""
    steps = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = step.partition("\n")
            steps.append((line, output))
    return steps


def steady(text: str) -> str:
    """Without what depends on the moment: the time is in every block's hash but the first."""
    return re.sub(r'"(blockHash|hash)":"0x(?!dbf31bca)[0-9a-f]{64}"', r'"\1":"…"', text)


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start(["dev", "--port", "0"]) as started:
        started.wait_ready()
        yield started


def test_every_command_is_known_to_this_test() -> None:
    starts = [line.split()[0] for line, _ in console_steps()]
    assert set(starts) == {"make", "curl", ".venv/bin/python", ".venv/bin/cairn"}


def test_curl_prints_what_the_readme_shows(node: NodeProcess) -> None:
    address = node.url.removeprefix("http://")
    steps = [step for step in console_steps() if step[0].startswith("curl ")]
    assert len(steps) == 3
    for line, shown in steps:
        own_line = line.replace(DOCUMENTED_URL, address)
        run = subprocess.run(own_line, shell=True, capture_output=True, text=True, timeout=20)
        assert steady(run.stdout) == steady(shown.strip())


def test_events_print_what_the_readme_shows(node: NodeProcess) -> None:
    """After the transfers of the test before: the README tells one story."""
    address = node.url.removeprefix("http://")
    [(line, shown)] = [step for step in console_steps() if "websockets" in step[0]]
    shell_line = line.replace(DOCUMENTED_URL, address).replace(".venv/bin/python", sys.executable)
    with subprocess.Popen(shell_line, shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as events:
        time.sleep(2)
        # The end of its input ends the client, as Ctrl-D does.
        output, _ = events.communicate(timeout=10)
    printed = re.findall(r"\{.*\}", output)
    assert events.returncode == 0
    assert [steady(message) for message in printed] == [steady(text) for text in re.findall(r"\{.*\}", shown)]


def test_the_signing_example_gives_the_same_hash(node: NodeProcess) -> None:
    [example] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    answer = httpx.post(f"{node.url}/tx", json=names["submission"])
    assert answer.status_code == 200
    assert answer.json()["txHash"] == "0x" + bytes(names["signed"].hash).hex()  # type: ignore[attr-defined]


def test_a_chain_of_ones_own(tmp_path: Path) -> None:
    steps = [line for line, _ in console_steps() if line.startswith(".venv/bin/cairn ")]
    assert len(steps) == 2
    init, run = [command(line.split()[1:]) for line in steps]
    subprocess.run(init, cwd=tmp_path, check=True, capture_output=True, timeout=20)
    assert sorted(path.name for path in (tmp_path / "my-chain").iterdir()) == ["cairn.toml", "genesis.json"]
    home = str(tmp_path / "my-chain")
    with NodeProcess.start([*[home if part == "my-chain" else part for part in run[1:]], "--port", "0"]) as chain:
        wait_until(lambda: chain.probe("/ready") == 200, 15, "the node to be ready")
        account = httpx.get(f"{chain.url}/account/0x70997970C51812dc3A010C7d01b50e0d17dc79C8").json()
        assert account["balance"] == 1000 * 10**18


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
