"""What goes wrong on a network is in the log by name: who is gone, who does not vote, and why CometBFT ended."""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.network import Network, NetworkNode
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S, Pace

TOLD_WITHIN_S = 5.0
HALT_AFTER_S = 3.0


def await_line(node: NetworkNode, line: str) -> None:
    """Wait for a line of the log that has this, a regular expression."""
    process = node.process
    assert process is not None
    wait_until(lambda: re.search(line, process.stderr) is not None, PATIENCE_S, f"{line} in {process.stderr}")


def do(fault: Callable[[], None], node: NetworkNode, *lines: str, noticed_after_s: float = 0.0) -> None:
    """Do a fault: within 5 s of the time at which it counts as one, these lines are in the log of `node`."""
    with Pace() as pace:
        began = time.monotonic()
        fault()
        for line in lines:
            await_line(node, line)
        told_s, limit_s = time.monotonic() - began, pace.stretch(noticed_after_s + TOLD_WITHIN_S)
    assert told_s < limit_s, lines


def test_peers_a_halt_and_the_end_of_cometbft_are_named_within_seconds(tmp_path: Path) -> None:
    with Network(tmp_path, validators=2, linked=False) as network:
        network.set(halt_after_s=HALT_AFTER_S)
        network.start()
        here, other = network.nodes
        await_line(here, r"a peer is connected .*peer=node1")
        do(other.kill, here, r"a peer is lost .*left=0 peer=node1")
        do(
            lambda: None,
            here,
            r"the network makes no blocks .*missing=\['node1'\]",
            r"the node is not ready .*part=peers",
            noticed_after_s=HALT_AFTER_S,
        )
        assert '"mempool":"ok"' in here.readiness()[1]
        other.start()
        await_line(here, r"the network makes blocks again")
        await_line(here, r"the node is ready again")
        assert here.process is not None
        [engine] = [pid for pid, name in here.process.children().items() if name == "cometbft"]
        do(lambda: os.kill(engine, signal.SIGKILL), here, r"process ended, restarting .*SIGKILL.*process=cometbft")
