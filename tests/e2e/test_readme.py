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
    "docs/accounts.md": {"curl"},
    "docs/events.md": {".venv/bin/websockets"},
    "docs/idempotency.md": {"curl", "cairn"},
    "docs/running.md": {"cairn"},
}
OWN_TEST = {
    "docs/backup.md": "e2e/test_backup_page.py::test_the_commands_of_the_page_work_in_their_order",
    "docs/ceremony.md": "e2e/network/test_operator_pages.py"
    "::test_four_empty_machines_become_a_network_by_the_commands_of_the_page",
    "docs/cli.md": "e2e/cli/test_cli_page.py::test_every_command_prints_what_the_page_shows",
    "docs/client.md": "e2e/test_examples.py::test_an_example_prints_what_the_page_shows",
    "docs/dev-chain.md": "e2e/dev/test_dev_page.py::test_the_commands_print_what_is_shown",
    "docs/first-transaction.md": "e2e/test_newcomer.py::test_at_the_terminal",
    "docs/follow-events.md": "e2e/test_follow_page.py::test_the_watch_command",
    "docs/json-rpc.md": "e2e/rpc/test_page.py::test_the_page_works_as_it_stands",
    "docs/monitoring.md": "e2e/monitoring/test_monitoring_page.py::test_every_command_of_the_page_works",
    "docs/network.md": "e2e/network/test_network_page.py::test_the_commands_of_the_page_work_in_their_order",
    "docs/postgresql.md": "e2e/test_postgresql_page.py::test_the_page_works_as_it_stands",
    "docs/containers.md": "e2e/container/test_containers_page.py::test_the_page_runs_a_node_that_keeps_its_chain",
    "docs/production.md": "e2e/service/test_production_page.py::test_the_page_leads_to_a_node_behind_nginx",
    "docs/send.md": "e2e/test_send_page.py::test_the_commands_work_in_their_order",
    "docs/test-your-app.md": "e2e/client/test_testing_page.py::test_the_page_as_it_is_printed",
    "docs/troubleshooting.md": "e2e/operate/test_troubleshooting_page.py::test_every_section_with_commands_is_tried",
    "docs/tutorial.md": "e2e/test_tutorial.py::test_the_tutorial",
    "docs/typescript-shop.md": "e2e/test_shop.py::test_the_page_in_typescript",
    "docs/typescript.md": "e2e/typescript/test_typescript_page.py::test_the_page_works_as_it_stands",
    "docs/upgrades.md": "e2e/operate/test_upgrades_page.py"
    "::test_an_imported_chain_has_the_same_head_and_proofs_and_goes_on",
    "docs/validators.md": "e2e/network/test_operator_pages.py::test_a_lost_validator_is_replaced",
    "docs/verify.md": "e2e/operate/test_verify_page.py::test_the_commands_print_what_is_shown_beside_a_running_node",
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
    ("docs/client.md", "pip install cairn-node-client"): (
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
    ("docs/metrics.md", "curl -s http://127.0.0.1:8646/metrics"): (
        "e2e/test_metrics.py::test_the_command_of_the_docs_shows_the_metrics",
        "as printed, with a node of the test",
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
    ("docs/rest/accounts.md", 'curl "$NODE/account/$SHOP/txs?reference=invoice+4711"'): (
        "e2e/test_readme.py::test_the_searches_for_payments_are_answered",
        "as printed, with a node and accounts of the test",
    ),
    ("docs/running.md", "uv tool install ."): (
        "e2e/distribution/test_installs.py::test_an_installed_node_takes_a_payment",
        "as printed, in this checkout",
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


def written_on(page: str) -> Page:
    """A page without what it has from README.md, whose commands are run as README's."""
    from_readme = r"<!-- reference: README.*?<!-- end of reference -->"
    return Page(page, re.sub(from_readme, "", Page(page).text, flags=re.DOTALL))


def test_every_command_is_known_to_this_test() -> None:
    programs = {page: {step.line.split()[0] for step in written_on(page).steps()} for page in every_page()}
    assert {page for page, found in programs.items() if found} == {*OWN_TEST, *PROGRAMS_RUN_HERE}
    assert {page: programs[page] for page in PROGRAMS_RUN_HERE} == PROGRAMS_RUN_HERE


def test_every_block_without_a_prompt_is_known_to_this_test() -> None:
    shown = [
        (page, block.splitlines()[0].split("#")[0].strip(" \\"))
        for page in every_page()
        for block in written_on(page).code("(?:sh|bash|zsh)")
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
    steps = Page("README.md").section("Try it").steps("curl ")
    assert len(steps) == 3
    for line, shown in steps:
        assert steady(terminal.run(line)) == steady(shown.strip())
    first, *_ = steps
    assert steady(terminal.run(first.line)) == steady(first.output.strip()), "paid once, however often it is sent"
    assert get_anew(f"{terminal.environment['CAIRN_NODE']}/account/{RICH}").json()["balance"] == 10**22 + 1


@pytest.mark.parametrize("page", ["docs/accounts.md", "docs/idempotency.md"])
def test_each_command_about_nonces_and_repetitions_prints_what_the_page_shows(page: str, terminal: Terminal) -> None:
    """Each page pays from accounts that nothing else here uses, so its hashes and balances are the same everywhere."""
    steps = Page(page).steps()
    assert len(steps) >= 9
    for line, shown in steps:
        assert terminal.run(line).strip() == shown.strip(), line


def test_the_searches_for_payments_are_answered(terminal: Terminal) -> None:
    """No refusal: its problem document would have a code."""
    [block] = Page("docs/rest/accounts.md").code("sh")
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


def test_a_chain_of_ones_own_pays_from_a_key_of_ones_own(tmp_path: Path) -> None:
    *before, run, pay = [line for line, _ in Page("README.md").section("Run your own chain").steps("cairn ")]
    assert run.endswith(" --port 8648"), "the dev chain further up has the port that a node has unless told"
    own = {"CAIRN_PASSWORD": "secret", "XDG_DATA_HOME": str(tmp_path / "keys")}
    terminal = Terminal(tmp_path, "http://127.0.0.1:8648", own)
    for line in before:
        terminal.run(line)
    with NodeProcess.start([*run.replace("my-chain", f"{tmp_path}/my-chain").split()[1:-1], "0"]) as chain:
        chain.wait_ready()
        assert "the keys of the dev accounts" not in chain.stderr
        terminal.run(pay.replace("http://127.0.0.1:8648", chain.url))
        addresses = dict(re.findall(r"^(treasury|alice) +(0x\w+)", terminal.run("cairn keys list"), re.MULTILINE))
        balances = {name: get_anew(f"{chain.url}/account/{each}").json()["balance"] for name, each in addresses.items()}
    assert balances == {"treasury": 9985 * 10**17, "alice": 15 * 10**17}, "the fee goes to the payer, as proposer"


def test_a_chain_of_the_page_on_running_a_node(terminal: Terminal, tmp_path: Path) -> None:
    shown = [line.partition("#")[0].split() for line, _ in Page("docs/running.md").steps("cairn ")]
    home = str(tmp_path / "home")
    placeholders = {"DIR": home, "ADDRESS=1000coins": f"{RICH}=1000coins"}
    init, run = [[placeholders.get(part, part) for part in parts[1:]] for parts in shown]
    terminal.run("cairn " + " ".join(init))
    assert sorted(path.name for path in Path(home).iterdir()) == ["cairn.toml", "genesis.json", "signing-key.json"]
    with NodeProcess.start([*run, "--port", "0"]) as chain:
        chain.wait_ready()
        assert Path(home, "data").is_dir()
        assert get_anew(f"{chain.url}/account/{RICH}").json()["balance"] == 1000 * 10**18


@pytest.mark.parametrize("page", every_page())
def test_every_link_leads_somewhere(page: str) -> None:
    assert Page(page).broken_links() == []
