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

TESTED_ELSEWHERE = {
    "docs/first-transaction.md": "tests/e2e/test_newcomer.py",
    "docs/follow-events.md": "tests/e2e/test_follow_page.py",
    "docs/network.md": "tests/e2e/network/test_network_page.py",
    "docs/send.md": "tests/e2e/test_send_page.py",
    "docs/tutorial.md": "tests/e2e/test_tutorial.py",
    "docs/typescript.md": "tests/e2e/typescript/test_typescript_page.py",
}
"""Pages that tell a story of their own, and the test that runs it."""
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
    assert {page: found for page, found in programs.items() if found and page not in TESTED_ELSEWHERE} == {
        "README.md": {"make", "curl", ".venv/bin/python", ".venv/bin/cairn"},
        "docs/events.md": {".venv/bin/websockets"},
        "docs/running.md": {"cairn"},
    }


@pytest.mark.parametrize(("page", "test"), TESTED_ELSEWHERE.items())
def test_every_other_page_has_its_test(page: str, test: str) -> None:
    assert f'Page("{page}")' in (ROOT / test).read_text()


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
