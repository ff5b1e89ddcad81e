"""A CometBFT that the operator runs: either side may be restarted, and the node says what it waits for."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.abci_grammar import check_run
from tests.support.cometbft import BINARY
from tests.support.network import Network, NetworkNode
from tests.support.pace import PATIENCE_S
from tests.support.wallet import dev_account, new_account, sign_transfer

AWAY = "cometbft is not answering"


class Operator:
    """Runs one CometBFT as docs/network.md says."""

    def __init__(self, node: NetworkNode) -> None:
        self._home = node.home / "cometbft"
        self._socket = node.home / "abci.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._home / "operator.log").open("ab") as log:
            self._process = subprocess.Popen(
                [BINARY, "start", "--home", self._home, "--proxy_app", f"unix://{self._socket}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={name: value for name, value in os.environ.items() if not name.startswith("CMT")},
            )

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE_S)
        # A killed one leaves its socket, which the next one would refuse to replace.
        (self._home.parent / "rpc.sock").unlink(missing_ok=True)


@pytest.fixture
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    with Network(scratch / "network", validators=1, linked=False, traced=True) as network:
        [node] = network.nodes
        network.set(cometbft_attach=True, abci_socket=str(node.home / "abci.sock"), halt_after_s=4)
        yield network


@pytest.fixture
def operator(network: Network) -> Iterator[Operator]:
    made = Operator(network.nodes[0])
    yield made
    made.end(signal.SIGKILL)


def test_each_side_may_be_restarted(network: Network, operator: Operator) -> None:
    [node] = network.nodes
    recipient = new_account().address
    nonces = iter(range(10))

    def transfer() -> str:
        return node.public.submit(sign_transfer(dev_account(0), recipient, 1, next(nonces)))

    # The node comes first, and waits. It is up, and says why it is not ready.
    node.launch()
    node.await_reason(AWAY)
    assert node.process is not None
    assert "cometbft" not in node.process.children().values()
    operator.start()
    node.await_ready()
    node.public.await_confirmed(transfer())

    # The operator restarts CometBFT, politely and not. What is accepted meanwhile is confirmed afterwards.
    for number in (signal.SIGTERM, signal.SIGKILL):
        operator.end(number)
        node.await_reason(AWAY)
        waiting = transfer()
        operator.start()
        node.await_ready()
        node.public.await_confirmed(waiting)

    # One that is frozen, answers nothing and makes no block.
    operator.send(signal.SIGSTOP)
    node.await_reason(AWAY)
    operator.send(signal.SIGCONT)
    node.await_ready()

    # The node is restarted, and CometBFT with it: it has lost its application.
    head = node.height()
    for restart in (node.stop, node.kill):
        restart()
        operator.end(signal.SIGKILL)
        node.launch()
        node.await_reason(AWAY)
        operator.start()
        node.await_ready()
        node.public.await_confirmed(transfer())
    assert node.height() > head
    assert node.public.balance(recipient) == 5
    runs = node.abci_runs()
    assert len(runs) == 5
    for run in runs:
        check_run(run)
    assert node.public.read("/chain")["engine"] == "cometbft"
    node.stop()
