"""foundry's `cast`, with its defaults: no option says which type of transaction the chain takes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import run
from tests.support.node_process import NodeProcess
from tests.support.pages import Page, Terminal
from tests.support.public import PublicNode
from tests.support.wallet import COIN, GWEI, dev_account, new_account


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "0.2") as process:
        yield process


class Cast:
    def __init__(self, program: Path, node: NodeProcess, directory: Path) -> None:
        self._program = program
        self._env = {"ETH_RPC_URL": f"{node.url}/rpc"}
        self._directory = directory

    def say(self, *args: str) -> str:
        return run([self._program, *args], self._directory, self._env).strip()

    def fail(self, *args: str) -> str:
        # npm's wrapper of the program ends with 0 whatever the program ends with.
        return run([self._program, *args], self._directory, self._env, accepted=(0, 1), said="stderr")

    def read(self, *args: str) -> Any:
        return json.loads(self.say(*args, "--json"))


@pytest.fixture
def cast(js_programs: Path, node: NodeProcess, tmp_path: Path) -> Cast:
    return Cast(js_programs / "cast", node, tmp_path)


@pytest.mark.parametrize(("options", "kind"), [((), "0x2"), (("--legacy",), "0x0")])
def test_cast_sends_and_finds_what_it_sent(cast: Cast, node: NodeProcess, options: tuple[str, ...], kind: str) -> None:
    key, to = "0x" + bytes(dev_account(0).key).hex(), new_account().address
    sent = cast.read("send", "--private-key", key, "--value", "1.5ether", *options, to)
    assert (sent["type"], int(sent["status"], 16)) == (kind, 1)

    assert cast.say("balance", to) == str(3 * COIN // 2)
    assert cast.say("balance", "--ether", to) == "1.500000000000000000"
    assert cast.say("nonce", to) == "0"
    tx = cast.read("tx", sent["transactionHash"])
    assert (tx["type"], int(tx["value"], 16), tx["blockHash"]) == (kind, 3 * COIN // 2, sent["blockHash"])
    receipt = cast.read("receipt", sent["transactionHash"])
    assert (receipt["transactionHash"], receipt["blockHash"]) == (sent["transactionHash"], sent["blockHash"])

    public = PublicNode(node.url)
    assert public.read(f"/tx/{sent['transactionHash']}")["status"] == "confirmed"
    public.close()


def test_cast_sends_a_reference(cast: Cast, node: NodeProcess) -> None:
    key, to, text = "0x" + bytes(dev_account(0).key).hex(), new_account().address, "invoice 4711"
    data = "0x" + text.encode().hex()
    gas = 21_000 + 16 * len(text)
    assert cast.say("estimate", "--value", "1", to, data) == str(gas)

    sent = cast.read("send", "--private-key", key, "--value", "1", to, data)
    assert (int(sent["status"], 16), int(sent["gasUsed"], 16)) == (1, gas)
    assert cast.read("tx", sent["transactionHash"])["input"] == data

    public = PublicNode(node.url)
    assert public.read(f"/tx/{sent['transactionHash']}")["reference"] == text
    public.close()

    for options in ((), ("--gas-limit", "100000")):
        refused = cast.fail("send", "--private-key", key, "--value", "1", *options, to, "0x" + "11" * 257)
        assert "oversized data: " in refused


def test_the_page_works_as_it_stands(js_programs: Path, node: NodeProcess, tmp_path: Path) -> None:
    [block] = Page("docs/json-rpc.md").code("sh")
    terminal = Terminal(tmp_path, node.url, programs=js_programs)
    balance = block.splitlines()[-1]
    before = int(terminal.run(balance))
    assert int(terminal.run(block).splitlines()[-1]) == before + COIN


@pytest.mark.parametrize("name", ["0", "earliest", "latest", "pending", "safe", "finalized"])
def test_cast_shows_blocks(cast: Cast, name: str) -> None:
    block = cast.read("block", name)
    assert block["baseFeePerGas"] == hex(GWEI)
    assert "baseFeePerGas" in cast.say("block", name)
    if name != "pending":
        assert cast.read("block", block["hash"]) == block


def test_cast_knows_the_chain_and_its_prices(cast: Cast) -> None:
    assert (cast.say("chain-id"), cast.say("client").partition("/")[0]) == ("1337", "Cairn")
    assert (cast.say("base-fee"), cast.say("gas-price")) == (str(GWEI), str(GWEI))
    assert cast.say("estimate", "--value", "1", new_account().address) == "21000"
