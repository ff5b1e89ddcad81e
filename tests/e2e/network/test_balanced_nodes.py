"""Four nodes behind a balancer that is set up as docs/scaling.md says: some are killed, and nobody notices."""

import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from cairn.client import Account, Client
from tests.support.balancers import SERVED_BY, Balancer
from tests.support.browser import Visitor, open_browser
from tests.support.network import Network, NetworkNode
from tests.support.node_process import clean_environment, command, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.readers import Crowd, spread_of

NAME = "node.example.org"
READ_NODES = 4
CLIENTS_OF_A_NODE = 2
KILLS = 2
"""Of different nodes, one after the other. All nodes are set up alike. The page is at the first one, unless that was
left out when the page was opened: then there are more, until its node was among them."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    """A validator, and four nodes that are read."""
    with Network(scratch / "network", validators=1, args=[f"--full-nodes={READ_NODES}"], linked=False) as network:
        network.set(trusted_proxies=["127.0.0.1"], allowed_hosts=[NAME])
        network.start()
        yield network


@contextmanager
def watching(url: str, output: Path) -> Iterator[None]:
    """`cairn watch`, which writes each block to the file."""
    with output.open("wb") as out:
        process = subprocess.Popen(
            command(["watch", "--json", "--from-height", "1", "--node", url]), env=clean_environment(), stdout=out
        )
        try:
            yield
            assert process.poll() is None, "cairn watch has ended"
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def heights_in(output: Path) -> list[int]:
    """The heights that are in whole lines."""
    lines = output.read_bytes().splitlines(keepends=True)
    return [json.loads(line)["blockHeight"] for line in lines if line.endswith(b"\n")]


def patient_client(url: str) -> Client:
    """One that never takes a node for dead because it is slow; a connection that ends is lost at once all the same."""
    return Client(url, timeout_s=PATIENCE_S, silence_timeout_s=PATIENCE_S)


class Following:
    """The heights of the blocks that the Python client gives to its user. Leaving the `with` block ends it."""

    def __init__(self, url: str) -> None:
        self.heights: list[int] = []
        self.failures: list[Exception] = []
        self._url = url
        self._is_ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def _follow(self) -> None:
        try:
            with patient_client(self._url) as client:
                for block in client.blocks(from_height=1):
                    self.heights.append(block.block_height)
                    if self._is_ended.is_set():
                        break
        except Exception as failure:
            self.failures.append(failure)

    def await_height(self, height: int) -> None:
        wait_until(
            lambda: self.heights[-1:] >= [height] or bool(self.failures), PATIENCE_S, f"the client to see {height}"
        )
        assert self.failures == []

    def __enter__(self) -> "Following":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # There is a block every few seconds, if only an empty one.
        self._is_ended.set()
        self._thread.join(PATIENCE_S)


def pay(client: Client) -> int:
    """The height of a payment that is made now."""
    wallet = client.wallet(Account.dev(0))
    return client.wait(wallet.send(Account.dev(1).address, 1), PATIENCE_S).block_height


def await_shown(visitor: Visitor, height: int) -> None:
    """Return once the page shows that block, or later ones."""
    wait_until(lambda: visitor.shown_heights()[:1] >= [height], PATIENCE_S, f"the page to show block {height}")


def are_without_gap(heights: Sequence[int]) -> bool:
    return list(heights) == list(range(heights[0], heights[0] + len(heights)))


@pytest.mark.parametrize("kind", ["haproxy", "nginx"])
def test_no_answer_fails_and_no_block_is_missed_when_nodes_are_killed(
    network: Network, browser: Browser, kind: str, tmp_path: Path
) -> None:
    nodes: Sequence[NetworkNode] = network.nodes[1:]
    output = tmp_path / "watch"
    with Balancer(kind, [node.url for node in nodes]) as balancer:
        url = balancer.url
        spread = spread_of(url, READ_NODES, CLIENTS_OF_A_NODE)
        # The client, `cairn watch` and the browser have the same address, so all of them are at this one.
        answer = httpx.get(f"{url}/chain", headers={"Host": NAME}, timeout=PATIENCE_S).raise_for_status()
        first_victim = int(answer.headers[SERVED_BY])
        with (
            Crowd(url, [address for clients in spread.clients for address in clients]) as crowd,
            patient_client(url) as client,
            Following(url) as followed,
            watching(url, output),
        ):
            visitor = Visitor(browser, url)
            page = visitor.open()
            visitor.record_connection()
            crowd.await_height(pay(client))
            crowd.await_reads()
            # A balancer may leave out a node that is slow to say that it is ready, and take it in again.
            for number in range(READ_NODES):
                crowd.await_served_by(number)
            wait_until(lambda: bool(heights_in(output)), PATIENCE_S, "cairn watch to begin")
            followed.await_height(1)
            for place in range(READ_NODES):
                if place >= KILLS and "Connecting" in visitor.recorded_connection():
                    break
                number = (first_victim + place) % READ_NODES
                nodes[number].kill()
                crowd.await_reads()
                height = pay(client)
                crowd.await_height(height)
                await_shown(visitor, height)
                nodes[number].start()
                crowd.await_served_by(number)
            height = pay(client)
            crowd.await_height(height)
            wait_until(lambda: heights_in(output)[-1] >= height, PATIENCE_S, "cairn watch to see the last payment")
            followed.await_height(height)
            visitor.go(f"/block/{height}")
            expect(page.locator("h1")).to_have_text(f"Block {height}")
            visitor.go("/")
            shown = visitor.shown_heights()
            connections = visitor.recorded_connection()
            visitor.close()
    assert crowd.failures == []
    assert visitor.complaints == []
    assert "Offline" not in connections
    assert "Connecting" in connections, "the page was at no node that was killed"
    assert any(follower.gaps_s for follower in crowd.followers), "no socket was at a node that was killed"
    seen = {"client": followed.heights, "cairn watch": heights_in(output), "page": shown[::-1]}
    seen |= {f"socket {number}": each.heights for number, each in enumerate(crowd.followers)}
    assert {who: heights for who, heights in seen.items() if not are_without_gap(heights)} == {}
