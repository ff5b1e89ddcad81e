"""Ports that a test may give to processes which it is about to start."""

import random
import socket

from cairn.cli.network.homes import PORTS_BETWEEN_NODES

FIRST, LAST = 15_000, 32_000
"""Below those that systems hand out to clients."""
PORTS_OF_A_NODE = 5
"""API, p2p, CometBFT's RPC, metrics, CometBFT's metrics."""


def free_ports(count: int, first: int = FIRST, last: int = LAST) -> list[int]:
    """Ports that nobody listens on now, different from each other."""
    found: set[int] = set()
    while len(found) < count:
        port = random.randrange(first, last)
        if is_free(port):
            found.add(port)
    return list(found)


def free_base_port(nodes: int) -> int:
    """A base whose nodes' ports nobody listens on now."""
    while True:
        base = random.randrange(FIRST, LAST, 100)
        if all(
            is_free(base + PORTS_BETWEEN_NODES * node + port)
            for node in range(nodes)
            for port in range(PORTS_OF_A_NODE)
        ):
            return base


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
