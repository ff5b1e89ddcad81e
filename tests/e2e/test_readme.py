"""Every command that README.md and docs/ show, against a real node: its output is what a newcomer sees.

`make dev` is left out: it is `cairn dev` on a fixed port, which another node may hold. So is the probe of a Kubernetes
manifest, which needs a cluster.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.client import Account
from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pages import ROOT, Page, Terminal, every_page, steady
from tests.support.public import get_anew

RICH = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
PROGRAMS_RUN_HERE = {
    "README.md": {"make", "curl", "cairn"},
    "docs/events.md": {".venv/bin/websockets"},
    "docs/running.md": {"cairn"},
}
OWN_TEST = {
    "docs/cli.md": "e2e/cli/test_cli_page.py::test_every_command_prints_what_the_page_shows",
    "docs/client.md": "e2e/test_examples.py::test_an_example_prints_what_the_page_shows",
    "docs/dev-chain.md": "e2e/dev/test_dev_page.py::test_the_commands_print_what_is_shown",
    "docs/first-transaction.md": "e2e/test_newcomer.py::test_at_the_terminal",
    "docs/follow-events.md": "e2e/test_follow_page.py::test_the_watch_command",
    "docs/json-rpc.md": "e2e/rpc/test_page.py::test_the_page_works_as_it_stands",
    "docs/network.md": "e2e/network/test_network_page.py::test_the_commands_of_the_page_work_in_their_order",
    "docs/postgresql.md": "e2e/test_postgresql_page.py::test_the_page_works_as_it_stands",
    "docs/production.md": "e2e/test_signing.py::test_the_hand_over_of_the_page_leaves_each_block_proven",
    "docs/send.md": "e2e/test_send_page.py::test_the_commands_work_in_their_order",
    "docs/test-your-app.md": "e2e/client/test_testing_page.py::test_the_page_as_it_is_printed",
    "docs/tutorial.md": "e2e/test_tutorial.py::test_the_tutorial",
    "docs/typescript-shop.md": "e2e/test_shop.py::test_the_page_in_typescript",
    "docs/typescript.md": "e2e/typescript/test_typescript_page.py::test_the_page_works_as_it_stands",
    "docs/webhooks.md": "e2e/test_webhooks_page.py::test_the_receiver_of_the_page_takes_what_is_signed_and_new_once",
}
"""Pages that tell a story of their own, with the test that follows it."""
PROOF_PAGES = "e2e/cli/test_witness.py::test_the_commands_of_the_pages_work"
STATEMENT = "cairn statement dev1 --from 2026-01-01 --to 2026-03-31 -o q1.json --csv q1.csv --html q1.html"
WITNESSED = "cairn receipt 0x7395… -o receipt.json --genesis genesis.json --witness https://witness.example"
SHELL_BLOCKS = {
    ("README.md", "uv tool install ."): (
        "e2e/distribution/test_installs.py::test_an_installed_node_takes_a_payment",
        "as printed, in directories of the test",
    ),
    ("docs/client.md", "pip install cairn-client"): (
        "e2e/distribution/test_installs.py::test_the_client_is_installed_alone_and_with_keystores",
        "as printed; the name stands for the wheel built here",
    ),
    ("docs/dev-chain.md", "sleep 60 | cairn dev --until-stdin-ends"): (
        "e2e/dev/test_dev_page.py::test_the_node_stops_with_the_program_that_holds_its_input",
        "on any free port; the test ends `sleep` itself",
    ),
    ("docs/json-rpc.md", f"cast send --rpc-url http://127.0.0.1:8645/rpc --value 1ether {RICH}"): (
        "interop/test_cast.py::test_the_page_works_as_it_stands",
        "as printed, by `make interop`, which has cast; what it prints is different each time",
    ),
    ("docs/proofs.md", "cairn receipt 0x7395… -o receipt.json"): (
        PROOF_PAGES,
        "with a payment and a genesis of the test",
    ),
    ("docs/proofs.md", STATEMENT): (
        PROOF_PAGES,
        "for the day of the test",
    ),
    ("docs/witness.md", WITNESSED): (
        PROOF_PAGES,
        "with the URLs and the key of the test",
    ),
    ("docs/witness.md", "cairn witness https://node.example --genesis genesis.json"): (
        PROOF_PAGES,
        "once, for the rest",
    ),
    ("docs/rest.md", 'curl "$NODE/account/$SHOP/txs?reference=invoice+4711"'): (
        "e2e/test_readme.py::test_the_searches_for_payments_are_answered",
        "as printed, with a node and accounts of the test",
    ),
    ("docs/running.md", "pipx install cairn-node"): (
        "e2e/distribution/test_installs.py::test_an_installed_node_takes_a_payment",
        "as printed; the name stands for the wheel built here, and `uvx` has a test beside it",
    ),
}
"""Blocks without prompt and output, by page and first command: the test that runs each, and how it does."""


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with NodeProcess.start_dev() as node:
        yield Terminal(tmp_path_factory.mktemp("clone"), node.url)


def test_every_command_is_known_to_this_test() -> None:
    programs = {page: {step.line.split()[0] for step in Page(page).steps()} for page in every_page()}
    assert {page for page, found in programs.items() if found} == {*OWN_TEST, *PROGRAMS_RUN_HERE}
    assert {page: programs[page] for page in PROGRAMS_RUN_HERE} == PROGRAMS_RUN_HERE


def test_every_block_without_a_prompt_is_known_to_this_test() -> None:
    shown = [
        (page, block.splitlines()[0].split("#")[0].strip(" \\"))
        for page in every_page()
        for block in Page(page).code("(?:sh|bash|zsh)")
    ]
    assert sorted(shown) == sorted(SHELL_BLOCKS)


@pytest.mark.parametrize(
    ("page", "test"),
    [*OWN_TEST.items(), *((page, test) for (page, _), (test, _) in SHELL_BLOCKS.items())],
)
def test_the_test_that_runs_a_page_exists_and_names_it(page: str, test: str) -> None:
    file, _, name = test.partition("::")
    text = (ROOT / "tests" / file).read_text()
    assert page in text
    assert re.search(rf"^def {name}\(", text, re.MULTILINE)


def test_curl_prints_what_the_readme_shows(terminal: Terminal) -> None:
    steps = Page("README.md").steps("curl ")
    assert len(steps) == 3
    for line, shown in steps:
        assert steady(terminal.run(line)) == steady(shown.strip())


def test_the_searches_for_payments_are_answered(terminal: Terminal) -> None:
    """No refusal: its problem document would have a code."""
    [block] = Page("docs/rest.md").code("sh")
    terminal.run(f'cairn send dev2 {RICH} 1 --reference "invoice 4711" --yes')
    own = {"$NODE": "http://127.0.0.1:8645", "$SHOP": RICH, "$CUSTOMER": Account.dev(2).address}
    lines = block.splitlines()
    for name, text in own.items():
        lines = [line.replace(name, text) for line in lines]
    found, *others = [terminal.run(line) for line in lines]
    assert '"reference":"invoice 4711"' in found
    assert len(others) == 3
    assert all('"code"' not in answer for answer in others)


@pytest.mark.parametrize("number", [0, 1])
def test_events_print_what_the_page_shows(terminal: Terminal, number: int) -> None:
    steps = Page("docs/events.md").steps("websockets ")
    assert len(steps) == 2
    line, shown = steps[number]
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
    assert sorted(path.name for path in Path(home).iterdir()) == ["cairn.toml", "genesis.json", "signing-key.json"]
    with NodeProcess.start([*run, "--port", "0"]) as chain:
        chain.wait_ready()
        assert Path(home, "data").is_dir()
        assert get_anew(f"{chain.url}/account/{RICH}").json()["balance"] == 1000 * 10**18


@pytest.mark.parametrize("page", every_page())
def test_every_link_leads_somewhere(page: str) -> None:
    assert Page(page).broken_links() == []
