"""Anybody may open connections to a validator's p2p port and say nothing: its own peers get in all the same."""

import time
from pathlib import Path

from tests.support.network import Network
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S, Pace
from tests.support.promises import assert_goes_on
from tests.support.silent_connections import SilentConnections

SILENT = 150
WITHIN_S = 20
"""Peers are dialled within 3 s of a start. With CometBFT's own settings it takes until the connections end."""


def test_a_restarted_validator_finds_its_peers_while_silent_connections_fill_every_p2p_port(
    cometbft_tools: Path, scratch: Path
) -> None:
    with Network(scratch / "silent", linked=False) as network:
        network.start()
        ports = [node.p2p_port for node in network.nodes]
        with SilentConnections(ports, SILENT) as silent:
            last = network.nodes[3]
            last.kill()
            # Those that were opened before are closed by now, if CometBFT is going to.
            wait_until(lambda: silent.opened > SILENT * len(ports), PATIENCE_S, "a handshake that is given up")
            with Pace(network.is_paused) as pace:
                began = time.monotonic()
                last.launch()
                last.await_ready()
                took_s = time.monotonic() - began
            assert took_s <= pace.stretch(WITHIN_S)
            assert_goes_on(network.nodes)
