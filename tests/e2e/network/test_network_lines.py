"""What goes wrong on a network is in the log by name: who is gone, who does not vote, and why CometBFT ended."""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

from cairn.log import REPEAT_S
from tests.support.network import Network, NetworkNode
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S, Pace

TOLD_WITHIN_S = 5.0
HALT_AFTER_S = 6.0
"""Three times as long as blocks are apart."""
LOST = r"a peer is lost .*left=0 peer=node1"
HALTED = (r"the network makes no blocks .*missing=\['node1'\]", r"the node is not ready .*part=peers")


def log_of(node: NetworkNode) -> str:
    assert node.process is not None
    return node.process.stderr


def await_line(node: NetworkNode, line: str, after: int = 0) -> None:
    """Wait for a line of the log that has this, a regular expression, behind its first so many characters."""
    wait_until(
        lambda: re.search(line, log_of(node)[after:]) is not None, PATIENCE_S, f"{line} in {log_of(node)[after:]}"
    )


def await_untold(node: NetworkNode, *texts: str) -> None:
    """Return once no line with one of these is of the last minute: the next would be held back until that is over."""

    def count() -> int:
        return sum(log_of(node).count(text) for text in texts)

    told = 0
    while told != (told := count()):
        # On a slow machine, connections break and blocks are late before anybody does a fault.
        time.sleep(REPEAT_S + 1)


def do(fault: Callable[[], None], node: NetworkNode, *lines: str, noticed_after_s: float = 0.0) -> None:
    """Do a fault: within 5 s of the time at which it counts as one, these lines are in the log of `node`."""
    before = len(log_of(node))
    with Pace() as pace:
        began = time.monotonic()
        fault()
        for line in lines:
            await_line(node, line, before)
        told_s, limit_s = time.monotonic() - began, pace.stretch(noticed_after_s + TOLD_WITHIN_S)
    assert told_s < limit_s, lines


def test_peers_a_halt_and_the_end_of_cometbft_are_named_within_seconds(cometbft_tools: Path, scratch: Path) -> None:
    with Network(scratch / "network", validators=2, linked=False) as network:
        network.set(halt_after_s=HALT_AFTER_S)
        network.start()
        here, other = network.nodes
        await_line(here, r"a peer is connected .*peer=node1")
        await_untold(here, "a peer is lost", "the network makes no blocks", "the node is not ready ")
        do(other.kill, here, LOST)
        do(lambda: None, here, *HALTED, noticed_after_s=HALT_AFTER_S)
        assert '"mempool":"ok"' in here.readiness()[1]
        other.start()
        await_line(here, r"the network makes blocks again")
        await_line(here, r"the node is ready again")
        assert here.process is not None
        [engine] = [pid for pid, name in here.process.children().items() if name == "cometbft"]
        do(lambda: os.kill(engine, signal.SIGKILL), here, r"process ended, restarting .*SIGKILL.*process=cometbft")
