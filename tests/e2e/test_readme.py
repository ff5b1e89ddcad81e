"""Every command that README.md and docs/ show, against a real node: its output is what a newcomer sees.

`make dev` is left out: it is `cairn dev` on a fixed port, which another node may hold. So is the probe of a Kubernetes
manifest, which needs a cluster.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.node_process import START_TIMEOUT_S, NodeProcess, wait_until
from tests.support.pages import DOCUMENTED_ADDRESS, ROOT, Page, every_page, steady

RICH = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


def own(line: str, node: NodeProcess | None = None) -> str:
    """The command with the programs of this environment, and the address of this test's node."""
    programs = Path(sys.executable).parent
    line = re.sub(r"^(\.venv/bin/)?(?=cairn |python |websockets )", f"{programs}/", line)
    return line if node is None else line.replace(DOCUMENTED_ADDRESS, node.url.removeprefix("http://"))


def messages(text: str) -> list[str]:
    return [steady(message) for message in re.findall(r"\{.*\}", text)]


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start(["dev", "--port", "0"]) as started:
        started.wait_ready()
        yield started


def test_every_command_is_known_to_this_test() -> None:
    programs = {page: {step.line.split()[0] for step in Page(page).steps()} for page in every_page()}
    assert {page: found for page, found in programs.items() if found and not has_own_test(page)} == {
        "README.md": {"make", "curl", ".venv/bin/python", ".venv/bin/cairn"},
        "docs/events.md": {".venv/bin/websockets"},
        "docs/running.md": {"cairn"},
    }


def has_own_test(page: str) -> bool:
    """Whether a test reads this very page, which tells a story of its own."""
    tests = (ROOT / "tests" / "e2e").rglob("test_*.py")
    return any(f'Page("{page}")' in test.read_text() for test in tests if test != Path(__file__))


def test_curl_prints_what_the_readme_shows(node: NodeProcess) -> None:
    steps = Page("README.md").steps("curl ")
    assert len(steps) == 3
    for line, shown in steps:
        run = subprocess.run(own(line, node), shell=True, capture_output=True, text=True, timeout=60)
        assert steady(run.stdout) == steady(shown.strip())


@pytest.mark.parametrize(("page", "program"), [("README.md", "python "), ("docs/events.md", "websockets ")])
def test_events_print_what_the_page_shows(node: NodeProcess, tmp_path: Path, page: str, program: str) -> None:
    """After the transfers of the test before: the pages tell one story."""
    [(line, shown)] = Page(page).steps(program)
    expected = messages(shown)
    printed = tmp_path / "printed"
    with (
        printed.open("w") as out,
        subprocess.Popen(own(line, node), shell=True, stdin=subprocess.PIPE, stdout=out) as events,
    ):
        wait_until(lambda: len(messages(printed.read_text())) >= len(expected), START_TIMEOUT_S, f"{expected}")
        # The end of its input ends the client, as Ctrl-D does.
        events.communicate(timeout=60)
    assert events.returncode == 0
    assert messages(printed.read_text())[: len(expected)] == expected


def test_the_signing_example_gives_the_same_hash(node: NodeProcess) -> None:
    [example] = Page("README.md").code("python")
    names: dict[str, object] = {}
    exec(example, names)
    answer = httpx.post(f"{node.url}/tx", json=names["submission"])
    assert answer.status_code == 200
    assert answer.json()["txHash"] == "0x" + bytes(names["signed"].hash).hex()  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", ["README.md", "docs/running.md"])
def test_a_chain_of_ones_own(page: str, tmp_path: Path) -> None:
    shown = [line.partition("#")[0].split() for line, _ in Page(page).steps("cairn ")]
    home = str(tmp_path / "home")
    placeholders = {"my-chain": home, "DIR": home, "ADDRESS=1000coins": f"{RICH}=1000coins"}
    init, run = [[placeholders.get(part, part) for part in parts[1:]] for parts in shown]
    subprocess.run(own("cairn " + " ".join(init)), shell=True, check=True, capture_output=True, timeout=60)
    assert sorted(path.name for path in Path(home).iterdir()) == ["cairn.toml", "genesis.json"]
    with NodeProcess.start([*run, "--port", "0"]) as chain:
        chain.wait_ready()
        assert Path(home, "data").is_dir()
        assert httpx.get(f"{chain.url}/account/{RICH}").json()["balance"] == 1000 * 10**18


@pytest.mark.parametrize("page", every_page())
def test_every_link_leads_somewhere(page: str) -> None:
    assert Page(page).broken_links() == []
