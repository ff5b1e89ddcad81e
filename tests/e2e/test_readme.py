"""Every command that README.md and docs/ show, against a real node: its output is what a newcomer sees.

`make dev` is left out: it is `cairn dev` on a fixed port, which another node may hold. So is the probe of a Kubernetes
manifest, which needs a cluster.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import ROOT, Page, Terminal, every_page, steady
from tests.support.public import get_anew

RICH = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with NodeProcess.start_dev() as node:
        yield Terminal(tmp_path_factory.mktemp("clone"), node.url)


def test_every_command_is_known_to_this_test() -> None:
    programs = {page: {step.line.split()[0] for step in Page(page).steps()} for page in every_page()}
    assert {page: found for page, found in programs.items() if found and not has_own_test(page)} == {
        "README.md": {"make", "curl", "cairn"},
        "docs/events.md": {".venv/bin/websockets"},
        "docs/running.md": {"cairn"},
    }


def has_own_test(page: str) -> bool:
    """Whether a test reads this very page, which tells a story of its own."""
    tests = [*(ROOT / "tests" / "e2e").rglob("test_*.py"), *(ROOT / "tests" / "support").glob("*.py")]
    return any(f'Page("{page}")' in test.read_text() for test in tests if test != Path(__file__))


def test_curl_prints_what_the_readme_shows(terminal: Terminal) -> None:
    steps = Page("README.md").steps("curl ")
    assert len(steps) == 3
    for line, shown in steps:
        assert steady(terminal.run(line)) == steady(shown.strip())


def test_events_print_what_the_page_shows(terminal: Terminal) -> None:
    [(line, shown)] = Page("docs/events.md").steps("websockets ")
    expected = messages(shown)
    printed = terminal.directory / "printed"
    with (
        printed.open("w") as out,
        subprocess.Popen(terminal.own(line), shell=True, stdin=subprocess.PIPE, stdout=out) as events,
    ):
        wait_until(lambda: len(messages(printed.read_text())) >= len(expected), PATIENCE_S, f"{expected}")
        # The end of its input ends the client, as Ctrl-D does.
        events.communicate(timeout=PATIENCE_S)
    assert events.returncode == 0
    assert messages(printed.read_text())[: len(expected)] == expected


def messages(text: str) -> list[str]:
    return [steady(message) for message in re.findall(r"\{.*\}", text)]


@pytest.mark.parametrize("page", ["README.md", "docs/running.md"])
def test_a_chain_of_ones_own(page: str, terminal: Terminal, tmp_path: Path) -> None:
    shown = [line.partition("#")[0].split() for line, _ in Page(page).steps("cairn ")]
    home = str(tmp_path / "home")
    placeholders = {"my-chain": home, "DIR": home, "ADDRESS=1000coins": f"{RICH}=1000coins"}
    init, run = [[placeholders.get(part, part) for part in parts[1:]] for parts in shown]
    if page == "README.md":
        assert run[-2:] == ["--port", "8646"], "the dev chain further up has the port that a node has unless told"
    terminal.run("cairn " + " ".join(init))
    assert sorted(path.name for path in Path(home).iterdir()) == ["cairn.toml", "genesis.json"]
    with NodeProcess.start([*run, "--port", "0"]) as chain:
        chain.wait_ready()
        assert Path(home, "data").is_dir()
        assert get_anew(f"{chain.url}/account/{RICH}").json()["balance"] == 1000 * 10**18


@pytest.mark.parametrize("page", every_page())
def test_every_link_leads_somewhere(page: str) -> None:
    assert Page(page).broken_links() == []
