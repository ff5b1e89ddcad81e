"""A network goes on with another version: at a height, if its rules are others; else one validator after the other.

The operators type what docs/upgrades.md shows.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest

from cairn.config import EXIT_VERSION
from cairn.domain.rules import RULES_VERSION
from tests.support import other_rules
from tests.support.network import Asker, Network, NetworkNode
from tests.support.pace import PATIENCE_S
from tests.support.pages import DOCUMENTED_NETWORK_ADDRESS, Page, Terminal
from tests.support.ports import free_ports
from tests.support.steady_load import SteadyLoad
from tests.support.wallet import dev_account, new_account, sign_transfer

PAGE = Page("docs/upgrades.md").section("Upgrade a network")
EACH_IN_TURN, BEFORE_HALT, AFTER_HALT, WAY_BACK = dict.fromkeys(title for title, _ in PAGE.titled_steps())

NEXT_RULES = [sys.executable, "-P", other_rules.__file__, "3"]
SAME_RULES = [sys.executable, "-P", other_rules.__file__, str(RULES_VERSION)]
HALT_HEIGHT = 12
PER_SECOND = 5


class Operator:
    """Types the commands of the page at one node; what a service manager does is done here."""

    def __init__(self, node: NetworkNode, place: Path, versions: dict[str, list[str] | None]) -> None:
        """`versions` are the programs, by the names of their directories on the page."""
        self.node = node
        self._terminal = Terminal(place, node.url, documented=DOCUMENTED_NETWORK_ADDRESS)
        self._installed = place / f"{node.index}"
        self._versions = versions
        self._exit_code = 0
        self.while_stopped: Callable[[], None] = lambda: None

    def follow(self, title: str) -> None:
        for titled, (line, shown) in PAGE.titled_steps():
            if titled == title:
                printed = self._type(line)
                assert not shown or printed == shown, line

    def _type(self, line: str) -> str:
        node = self.node
        if line == "systemctl show cairn -p ExecMainStatus":
            return f"ExecMainStatus={self._exit_code}\n"
        if line in ("systemctl start cairn", "systemctl start --no-block cairn"):
            node.launch(self._versions[str(self._installed.readlink())] if self._installed.is_symlink() else None)
        elif line == "systemctl restart cairn":
            assert node.process is None, "a unit that does not run is started"
            node.launch()
        elif line == "systemctl stop cairn":
            if node.process is not None:
                node.stop()
            self.while_stopped()
        else:
            line = line.replace("120000", str(HALT_HEIGHT)).replace("/opt/cairn", str(self._installed))
            return self._terminal.run(line.replace("home/", f"{node.home}/"))
        return ""

    def await_exit(self) -> str:
        """What the node wrote before it ended because another version is needed."""
        assert self.node.process is not None
        self._exit_code = self.node.process.wait_exit(PATIENCE_S)
        assert self._exit_code == EXIT_VERSION, self.node.last_words()
        written = self.node.process.stderr
        self.node.kill()
        return written


@pytest.fixture
def network(cometbft_tools: Path, scratch: Path, request: pytest.FixtureRequest) -> Iterator[Network]:
    with Network(scratch / request.node.name[:12], linked=False) as network:
        yield network


def await_blocks(node: NetworkNode, number: int) -> None:
    node.await_height(node.height() + number)


def rules_in_header(node: NetworkNode, height: int) -> int:
    with urlopen(f"http://{node.rpc_address}/header?height={height}") as answer:
        return int(json.load(answer)["result"]["header"]["version"]["app"])


def test_four_validators_stop_at_a_height_and_go_on_by_other_rules(network: Network, tmp_path: Path) -> None:
    versions: dict[str, list[str] | None] = {"cairn-1.1.0": None, "cairn-2.0.0": NEXT_RULES}
    operators = [Operator(node, tmp_path, versions) for node in network.nodes]
    first, *_, last = network.nodes
    for node in network.nodes:
        # Payments make the blocks: without them, none of those before the halt is made while the last node starts.
        node.configure({"consensus.create_empty_blocks_interval": f"{PATIENCE_S:.0f}s"})
    network.set(halt_after_s=3 * PATIENCE_S)
    first.configure({"rpc.laddr": f"tcp://127.0.0.1:{free_ports(1)[0]}"})

    # A new node with other rules than its network was begun with does not join.
    last.launch(NEXT_RULES)
    assert "begun with rules of version 2, as CometBFT's genesis says; this program has" in operators[3].await_exit()

    for operator in operators:
        operator.follow(BEFORE_HALT)
    for node in network.nodes:
        node.await_ready()
    with SteadyLoad([first.url], PER_SECOND) as load:
        all_written = [operator.await_exit() for operator in operators]
    for written in all_written:
        assert "the last block before the upgrade is made, as halt_height says" in written
        assert f"block {HALT_HEIGHT} is made, and halt_height is {HALT_HEIGHT}" in written
    # A supervisor that gets no processor in the last seconds says no more than that.
    assert any("part=engine" in written for written in all_written), "it said that it is not ready, and why"
    # The old version does not go on, and the new one only where the operator has set the height.
    first.launch()
    assert f"the chain is at block {HALT_HEIGHT}, and halt_height is {HALT_HEIGHT}" in operators[0].await_exit()
    last.set(halt_height=0)
    last.launch(NEXT_RULES)
    assert "with rules of version 2; this program has version 3" in operators[3].await_exit()

    for operator in operators[:3]:
        operator.follow(AFTER_HALT)
    first.await_ready()
    transfer = sign_transfer(dev_account(1), new_account().address, 1, nonce=0)
    for tx_hash in (*load.accepted, first.public.submit(transfer)):
        first.public.await_confirmed(tx_hash)
    first.await_height(HALT_HEIGHT + 2)
    heights = (HALT_HEIGHT, HALT_HEIGHT + 1, HALT_HEIGHT + 2)
    assert [rules_in_header(first, height) for height in heights] == [2, 2, 3]
    assert (first.home / "data" / "RULES").read_text() == f"2 from block 0\n3 from block {HALT_HEIGHT + 1}\n"

    # One that goes back now, or was forgotten, is told by the network's own headers.
    operators[3].follow(WAY_BACK)
    written = operators[3].await_exit()
    assert re.search("blocks by rules of another version.*version_here=2 version_of_network=3", written), written


def test_validators_are_replaced_one_after_the_other_under_load_and_nothing_accepted_is_lost(
    network: Network, tmp_path: Path
) -> None:
    network.start()
    with SteadyLoad([node.url for node in network.nodes], PER_SECOND) as load:
        for node, witness in zip(network.nodes, reversed(network.nodes), strict=True):
            operator = Operator(node, tmp_path, {"cairn-1.1.0": SAME_RULES})
            # Three of four go on without it.
            operator.while_stopped = partial(await_blocks, witness, 2)
            operator.follow(EACH_IN_TURN)
            with Asker(node.url) as asker:
                assert asker.read("/chain")["version"] == other_rules.OTHER_VERSION
    assert len(load.accepted) > len(network.nodes)
    for tx_hash in load.accepted:
        network.nodes[0].public.await_confirmed(tx_hash)
