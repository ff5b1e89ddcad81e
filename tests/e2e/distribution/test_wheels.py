"""The wheels in bare environments: all that the node serves is in its own, and the client needs nothing else."""

import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from cairn.build import COMMIT, described
from cairn.explorer import STATIC_DIRECTORY
from tests.support.node_process import NodeProcess, clean_environment
from tests.support.pace import PATIENCE_S
from tests.support.pages import ROOT
from tools.release import bare_environment

ALICE, BOB = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
PAYS = """
import sys
from cairn.client import COIN, Account, Client

with Client(sys.argv[1]) as node:
    paid = node.wait(node.wallet(Account.dev(1)).send(Account.dev(2).address, 3 * COIN))
    print(paid.value // COIN)
"""
UNLOCKS = "from cairn.client import Account; Account.from_keystore('{}', '')"
NODE_ONLY = {"eth-account", "pydantic", "rich", "rocksdict", "starlette", "typer", "uvloop"}


@pytest.fixture(scope="module")
def node_python(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(distributions, "cairn_node", tmp_path_factory)


@pytest.fixture(scope="module")
def client_python(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(distributions, "cairn_node_client", tmp_path_factory)


@pytest.fixture(scope="module")
def node(node_python: Path) -> Iterator[NodeProcess]:
    with NodeProcess(["dev", "--port", "0"], program=[str(node_python.with_name("cairn"))]) as running:
        running.wait_ready()
        yield running


def installed(distributions: Path, name: str, factory: pytest.TempPathFactory) -> Path:
    [wheel] = distributions.glob(f"{name}-*.whl")
    return bare_environment(wheel, factory.mktemp(name) / "env")


def run(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # Away from the checkout: what is imported must be what was installed.
    return subprocess.run(
        [str(python), *words],
        cwd=python.parent,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def test_the_command_is_that_of_the_wheel(node_python: Path) -> None:
    assert run(node_python.with_name("cairn"), "--version").stdout == f"cairn {described()}\n"
    assert run(node_python, "-c", "import cairn; print(cairn.__file__)").stdout.startswith(str(node_python.parents[1]))


def test_the_node_of_the_wheel_names_the_commit_that_it_was_built_from(node: NodeProcess) -> None:
    assert httpx.get(node.url + "/chain", timeout=PATIENCE_S).json()["commit"] == COMMIT


def test_one_request_is_a_payment_and_it_is_confirmed(node: NodeProcess) -> None:
    sent = httpx.post(node.url + "/tx", json={"from": ALICE, "to": BOB, "value": 1, "gas": 21000}, timeout=PATIENCE_S)
    assert (sent.status_code, sent.json()["status"]) == (200, "pending")
    confirmed = httpx.get(f"{node.url}/tx/{sent.json()['txHash']}", params={"wait": 60}, timeout=PATIENCE_S)
    assert confirmed.json()["status"] == "confirmed"


@pytest.mark.parametrize("page", ["/", "/docs"])
def test_a_page_has_all_that_it_loads(node: NodeProcess, page: str) -> None:
    with httpx.Client(base_url=node.url, timeout=PATIENCE_S) as browser:
        shown = browser.get(page)
        assert shown.headers["content-type"].startswith("text/html")
        loaded = re.findall(r'<(?:script|link|img)\b[^>]*\b(?:src|href)="([^"#:]+)"', shown.text)
        assert loaded
        answers = {path: browser.get(urljoin(page, path)).status_code for path in loaded}
        assert answers == dict.fromkeys(answers, 200)


def test_the_whole_explorer_is_in_the_wheel(distributions: Path) -> None:
    [wheel] = distributions.glob("cairn_node-*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("cairn/explorer/static/")}
    files = [path for path in STATIC_DIRECTORY.rglob("*") if path.is_file()]
    assert held == {f"cairn/explorer/static/{path.relative_to(STATIC_DIRECTORY).as_posix()}" for path in files}


def test_what_watches_a_node_is_in_the_wheel(distributions: Path) -> None:
    [wheel] = distributions.glob("cairn_node-*.whl")
    place = ".data/data/share/cairn/monitoring/"
    held = {name.partition(place)[2] for name in zipfile.ZipFile(wheel).namelist() if place in name}
    assert held == {path.name for path in (ROOT / "packaging" / "monitoring").iterdir()}


def test_a_program_pays_with_the_client_alone(client_python: Path, node: NodeProcess) -> None:
    paid = run(client_python, "-c", PAYS, node.url)
    assert (paid.stdout, paid.stderr) == ("3\n", "")
    listing = "import importlib.metadata as m; print(*(d.name for d in m.distributions()))"
    assert NODE_ONLY & set(run(client_python, "-c", listing).stdout.split()) == set()


def test_a_keystore_without_eth_account_names_the_extra_to_install(client_python: Path) -> None:
    refused = run(client_python, "-c", UNLOCKS)
    assert refused.stderr.endswith("No module named 'eth_account': pip install 'cairn-node-client[keystore]'\n")
