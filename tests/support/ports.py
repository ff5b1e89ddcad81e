"""Ports that a test may give to processes which it is about to start.

Somebody else could take a port after it was found to be free. So each process that runs tests has a share of the ports
for itself, as long as it lives, and gives none of them again before it has given all.
"""

import random
import socket

from cairn.cli.network.homes import PORTS_BETWEEN_NODES

FIRST, LAST = 15_000, 32_000
"""Below those that systems hand out to clients."""
SHARE = 500
PORTS_OF_A_NODE = 5
"""API, p2p, CometBFT's RPC, metrics, CometBFT's metrics."""


def _claim_share() -> range:
    """Ports that no other process claims. Where more run than there are shares, they have all ports in common."""
    shares = [range(first, first + SHARE) for first in range(FIRST, LAST, SHARE)]
    # A test may have seeded the usual source of random numbers.
    random.SystemRandom().shuffle(shares)
    for share in shares:
        with socket.socket(socket.AF_UNIX) as claim:
            try:
                # A name without a file, which ends with the process, and is as local as its ports are.
                claim.bind(f"\0cairn-test-ports-{share.start}")
            except OSError:
                continue
            claim.detach()
            return share
    return range(FIRST, LAST)


class _Share:
    def __init__(self) -> None:
        self._ports = _claim_share()
        self._given = 0

    def next(self, count: int = 1) -> range:
        """So many in a row, those that were given longest ago."""
        if self._given + count > len(self._ports):
            self._given = 0
        self._given += count
        return self._ports[self._given - count : self._given]


_own = _Share()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, different from each other."""
    found: list[int] = []
    while len(found) < count:
        [port] = _own.next()
        if is_free(port):
            found.append(port)
    return found


def free_base_port(nodes: int) -> int:
    """A base whose nodes' ports nobody listens on now."""
    while True:
        ports = _own.next(PORTS_BETWEEN_NODES * nodes)
        if all(
            is_free(port) for first in ports[::PORTS_BETWEEN_NODES] for port in range(first, first + PORTS_OF_A_NODE)
        ):
            return ports.start


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
