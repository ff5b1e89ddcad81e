"""docs/ceremony.md and docs/validators.md, command by command: four empty machines become a network."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cairn.domain.certificates import engine_address
from cairn.domain.update_json import parse_public_key
from tests.support.cometbft import TOOLS
from tests.support.machines import Machine, Machines, await_there
from tests.support.pace import PATIENCE_S
from tests.support.pages import Page, Step

CEREMONY, OPERATION = Page("docs/ceremony.md"), Page("docs/validators.md")
OPERATORS = dict(re.findall(r"^\| (\w+) \| (10[.\d]+) \|$", CEREMONY.text, re.MULTILINE))
OTHERS = {"erin": "10.0.0.5", "frank": "10.0.0.6", "gina": "10.0.0.7", "signer": "10.0.0.8"}
EVERYONE = "every operator"
URL = "http://127.0.0.1:8650"
POOR = "0x2222222222222222222222222222222222222222"
SNAPSHOT_INTERVAL = 2
LAST_WORDS = 1_500
AS_A_SERVICE = """
while :; do
    {} &
    sleep 2
    while ss -Htn state established '( dport = :26659 )' | grep -q .; do sleep 0.5; done
    kill -9 $!
    wait $!
done
"""
"""CometBFT's own signer gives up after a second without its node, and then does nothing for ever."""


class Site:
    """The machines, and what the people at them do."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines.each
        self.signer: Any = None

    def __getitem__(self, name: str) -> Machine:
        return self.machines[name]

    def do(
        self, page: Page, heading: str, *, only: str = "", first: int = 0, last: int | None = None
    ) -> dict[str, str]:
        """Type the section's commands, or those of one person, or a part of them. Returns what each person sees."""
        printed = dict.fromkeys(self.machines, "")
        steps = [(who, step) for who, step in page.section(heading).titled_steps() if only in ("", who)]
        assert steps, f"{page.name}: {heading} has no commands"
        for who, step in steps[first:last]:
            for name in OPERATORS if who == EVERYONE else [who]:
                printed[name] += self.type(self[name], step)
        return printed

    def type(self, machine: Machine, step: Step) -> str:
        """One command. What a service manager does, and a signer that runs on, are done here."""
        line = re.sub(r"\b(ERIN|ALICE|BOB)\b", lambda found: self.node_id(found[1].lower()), step.line)
        # However long a block takes here: whoever reads the page has a machine for each node.
        line = re.sub(r"^cairn (validators submit|send) ", rf"cairn \1 --timeout {PATIENCE_S} ", line)
        if line.startswith("cairn run ") or line == "systemctl start --no-block cairn":
            machine.start("cairn run --home home")
        elif line == "systemctl start cairn":
            machine.start("cairn run --home home")
            # The command returns only then.
            machine.await_ready()
        elif line == "systemctl stop cairn":
            machine.stop()
        elif line == "systemctl restart cairn":
            machine.stop()
            machine.start("cairn run --home home")
            machine.await_ready()
        elif line.startswith("priv_val_server "):
            self.signer_command = AS_A_SERVICE.format(line.replace("NETWORK", self.network_name()))
            self.signer = machine.spawn(self.signer_command)
        else:
            assert "NETWORK" not in line
            try:
                printed = machine.run(line)
            except AssertionError as failed:
                failed.add_note(self.state())
                raise
            if "update.json" in line:
                self.pass_on(machine, "update.json")
            if " submit " in line:
                # The next update is made at alice's node, which may be a block behind.
                head = self.height(machine.name)
                await_there(lambda: self.height("alice") >= head, f"block {head} at alice")
            return printed
        return ""

    def state(self) -> str:
        """What each node says of itself, for a failure."""
        running = [machine for machine in self.machines.values() if machine.node is not None]
        return "\n".join(
            f"{machine.name}: {machine.try_run(f'curl -s {URL}/ready; curl -s {URL}/chain').stdout}\n"
            f"{machine.node.stderr[-LAST_WORDS:] if machine.node else ''}\n{cometbft_log(machine)[-LAST_WORDS:]}"
            for machine in running
        )

    def pass_on(self, sender: Machine, file: str, saved_as: str = "") -> None:
        """Send a file to all others."""
        for name, machine in self.machines.items():
            if name != sender.name:
                shutil.copy(sender.directory / file, machine.directory / (saved_as or file))

    def node_id(self, name: str) -> str:
        return self[name].run("cairn peers --home home").split()[2].partition("@")[0]

    def network_name(self) -> str:
        found = re.search(r"^network +(\S+)$", self["alice"].run("cairn genesis show genesis.json"), re.MULTILINE)
        assert found is not None
        return found[1]

    def get(self, name: str, path: str, at: str = URL) -> Any:
        return json.loads(self[name].run(f"curl -s '{at}{path}'"))

    def validators(self) -> dict[str, dict[str, Any]]:
        shown = self.get("alice", "/validators")["validators"]
        assert len(shown) == len({each["name"] for each in shown})
        return {each["name"]: each for each in shown}

    def height(self, name: str) -> int:
        return int(self.get(name, "/chain")["head"]["blockHeight"])

    def balance(self, name: str) -> int:
        return int(self.get(name, f"/account/{POOR}")["balance"])

    def pay(self) -> None:
        """A payment that every node of an operator shows in the end."""
        expected = self.balance("alice") + 10**18
        self["alice"].run(f"cairn send alice {POOR} 1coin --timeout {PATIENCE_S} --node {URL}")
        for name in OPERATORS:
            await_there(lambda name=name: self.balance(name) == expected, f"the payment at {name}")  # type: ignore[misc]

    def commit(self) -> Any:
        """The votes for the newest block that has any."""
        return self.get("alice", "/commit", "http://127.0.0.1:8652")["result"]["signed_header"]["commit"]

    def settle(self) -> None:
        """Return once those who vote are the validators that the chain names: two blocks after an update."""
        await_there(lambda: len(self.commit()["signatures"]) == len(OPERATORS), "the update to take effect")

    def votes(self, name: str) -> bool:
        """Whether its vote is in the newest commit."""
        commit = self.commit()
        address = engine_address(parse_public_key(self.validators()[name]["publicKey"])).hex().upper()
        return address in {each["validator_address"] for each in commit["signatures"]}

    def await_votes(self, name: str) -> None:
        await_there(lambda: self.votes(name), f"a vote of {name}")

    def has_snapshot(self, name: str) -> bool:
        return any((self[name].directory / "home" / "data" / "snapshots").glob("*[0-9]"))


@pytest.fixture(scope="module")
def site(cometbft_tools: Path, scratch: Path) -> Iterator[Site]:
    with Machines(scratch, OPERATORS | OTHERS) as machines:
        yield Site(machines)


def test_four_empty_machines_become_a_network_by_the_commands_of_the_page(site: Site) -> None:
    assert len(OPERATORS) == 4
    directories = {name: site[name].directory for name in OPERATORS}
    assert [list(directory.iterdir()) for directory in directories.values()] == [[]] * 4

    site.do(CEREMONY, "Make your keys")
    for name, directory in directories.items():
        if name != "alice":
            shutil.copy(directory / "home" / "validator.json", directories["alice"] / f"{name}.json")

    site.do(CEREMONY, "Collect the files")
    for file in ("genesis.json", "peers.json"):
        site.pass_on(site["alice"], file)

    shown = site.do(CEREMONY, "Compare the digest")
    assert len(set(re.findall(r"0x[0-9a-f]{64}", "".join(shown.values())))) == 1
    assert all(f"is that of {name}" in shown[name] for name in OPERATORS)

    joined = site.do(CEREMONY, "Join and start")
    assert all(f"the validator {name}, with power 10 of 40" in joined[name] for name in OPERATORS)
    for name in OPERATORS:
        site[name].await_ready()

    said = site.do(CEREMONY, "Use the network")
    assert all(name in said["bob"] for name in OPERATORS)
    for name in OPERATORS:
        await_there(lambda name=name: site.balance(name) == 5 * 10**18, f"the payment at {name}")  # type: ignore[misc]


def test_a_full_node_follows_once_a_validator_lists_it(site: Site) -> None:
    # A snapshot is due every thousand blocks, which no test waits for.
    for name in ("alice", "bob"):
        site[name].run(f"sed -i 's/^snapshot_interval = .*/snapshot_interval = {SNAPSHOT_INTERVAL}/' home/cairn.toml")
    site.do(OPERATION, "Add a full node", only="erin", last=1)
    site["erin"].run(f"sed -i 's/^snapshot_interval = .*/snapshot_interval = {SNAPSHOT_INTERVAL}/' home/cairn.toml")
    site.do(OPERATION, "Add a full node", only="erin", first=1)
    site.do(OPERATION, "Add a full node", only="alice")
    site["erin"].await_ready()


def test_an_unknown_node_follows_through_a_sentry_and_never_reaches_the_validator(site: Site) -> None:
    site.do(OPERATION, "Put sentries in front of a validator")
    site["frank"].await_ready()
    assert site.balance("frank") == site.balance("alice")
    frank = site.node_id("frank")
    peers = {
        name: {
            each["node_info"]["id"] for each in site.get(name, "/net_info", "http://127.0.0.1:8652")["result"]["peers"]
        }
        for name in ("erin", *OPERATORS)
    }
    assert [name for name, ids in peers.items() if frank in ids] == ["erin"]
    site["frank"].stop()


def test_a_node_starts_from_a_snapshot_of_another_machine(site: Site) -> None:
    heading = "Start a node from another machine's snapshot"
    site.do(OPERATION, heading, last=4)
    await_there(lambda: paid_until_snapshot(site), "a snapshot")
    await_there(lambda: offers(site), "an offered snapshot")
    site.do(OPERATION, heading, only="gina")
    site["gina"].await_ready()
    assert site["gina"].try_run(f"curl -sf {URL}/block/1").returncode != 0
    assert site.balance("gina") == site.balance("alice")
    site["gina"].stop()
    site.do(OPERATION, heading, first=6)


def paid_until_snapshot(site: Site) -> bool:
    site.pay()
    return all(map(site.has_snapshot, ("alice", "bob", "erin")))


def offers(site: Site) -> bool:
    """Whether alice's node names a snapshot, with the two blocks after it that verify it."""
    answer = site.get("alice", "/abci_query?path=%22snapshots%22", "http://10.0.0.1:8652")
    return bool(answer["result"]["response"]["value"])


def test_a_validator_with_a_new_key_votes_and_keeps_its_fee_recipient(site: Site) -> None:
    heading = "Give a validator a new key"
    before = site.validators()
    site.do(OPERATION, heading, only="dave")
    site.pass_on(site["dave"], "home/validator.json", "dave-2.json")
    await_there(lambda: "by another key" in site["dave"].try_run(f"curl -s {URL}/ready").stdout, "dave's /ready")
    site.do(OPERATION, heading, first=3)
    after = site.validators()
    assert after["dave"]["publicKey"] != before["dave"]["publicKey"]
    assert {name: each["feeRecipient"] for name, each in after.items()} == {
        name: each["feeRecipient"] for name, each in before.items()
    }
    site["dave"].await_ready()
    site.settle()
    site.await_votes("dave")


def test_a_rebuilt_validator_fetches_the_chain_and_votes_with_its_key(site: Site) -> None:
    record = site["carol"].directory / "home/cometbft/data/priv_validator_state.json"
    heading = "Rebuild a validator from the network"
    site.do(OPERATION, heading, last=1)
    signed = int(json.loads(record.read_text())["height"])
    site.do(OPERATION, heading, first=1, last=4)
    assert int(json.loads(record.read_text())["height"]) == signed > 0
    site.do(OPERATION, heading, first=4)
    site["carol"].await_ready()
    assert site.get("carol", "/block/1") == site.get("alice", "/block/1")
    site.await_votes("carol")


def test_a_lost_validator_is_replaced(site: Site) -> None:
    heading = "Restore or replace a validator"
    before = site.validators()
    site["bob"].close()
    shutil.rmtree(site["bob"].directory / "home")
    site.do(OPERATION, heading, last=9)
    await_there(lambda: "by another key" in site["bob"].try_run(f"curl -s {URL}/ready").stdout, "bob to have caught up")
    site.pass_on(site["bob"], "home/validator.json", "bob-2.json")
    site.do(OPERATION, heading, first=9)
    site["bob"].await_ready()
    site.settle()
    after = site.validators()
    assert after["bob"]["publicKey"] != before["bob"]["publicKey"]
    assert after["bob"]["feeRecipient"] == before["bob"]["feeRecipient"]
    site.await_votes("bob")
    site.pay()


def test_a_remote_signer_and_its_node_start_in_any_order(site: Site) -> None:
    if not (TOOLS / "bin" / "priv_val_server").exists():
        pytest.skip("no priv_val_server here: run `make cometbft`")
    heading = "Keep the key on another machine"
    dave, signer = site["dave"], site["signer"]
    site.do(OPERATION, heading, only="dave", last=2)
    for file in ("config/priv_validator_key.json", "data/priv_validator_state.json"):
        shutil.move(dave.directory / "home/cometbft" / file, signer.directory)
    # The node first: its CometBFT has nobody to sign, and is started again until it has.
    site.do(OPERATION, heading, only="dave", first=2)
    await_there(lambda: "can't get pubkey" in cometbft_log(dave), "CometBFT without its signer")
    site.do(OPERATION, heading, only="signer")
    dave.await_ready()
    site.await_votes("dave")
    # The signer is away for a while, and comes back.
    signer.end(site.signer)
    await_there(lambda: not site.votes("dave"), "a block without dave's vote")
    site.signer = signer.spawn(site.signer_command)
    site.await_votes("dave")
    # The node is restarted beside a signer that runs: now the signer was first.
    dave.stop()
    dave.start("cairn run --home home")
    dave.await_ready()
    site.await_votes("dave")


def cometbft_log(machine: Machine) -> str:
    return (machine.directory / "home/cometbft/cometbft.log").read_text()


def test_clocks_are_compared(site: Site) -> None:
    said = site.do(OPERATION, "Keep the clock right")
    assert all(said[name].split()[0].isdigit() for name in OPERATORS)


def test_a_halted_network_says_so_and_goes_on_when_validators_are_back(site: Site) -> None:
    for name in ("bob", "carol"):
        site[name].stop()
    # While CometBFT is slow to answer, the node says that instead.
    await_there(
        lambda: "no block for" in site.do(OPERATION, "When the network stands still")["alice"], "alice to notice"
    )
    for name in ("bob", "carol"):
        site[name].start("cairn run --home home")
    for name in OPERATORS:
        site[name].await_ready()
    site.pay()


def test_nobody_has_signed_twice(site: Site) -> None:
    assert site.get("alice", "/validators")["evidenceCount"] == 0
