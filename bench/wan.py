"""Validators that are far from each other: each CometBFT is in a network namespace of its own, with a delay between.

The API of every node stays on this machine's loopback, so clients are near. Linux, with /dev/net/tun and a C compiler;
needs root. `bench/wan.c` carries the packets: not every kernel has netem.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.support.cometbft import BINARY
from tests.support.machines import Namespace
from tests.support.network import Network

SOURCE = Path(__file__).with_name("wan.c")
COMPILERS = ("cc", "gcc", "clang")
P2P_PORT = 26656
MTU_BYTES = 1_500
QUEUED_PACKETS = 10_000
"""On each device, until the carrier reads them. With the usual 500, bursts of so many peers would be dropped there."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What went from one place to another since the beginning."""

    packets: int
    size_bytes: int
    dropped: int


class Distance:
    """The delay between the places; it can be changed while packets are on their way."""

    def __init__(self, told: IO[str], answers: IO[str]) -> None:
        self._told = told
        self._answers = answers
        self._delay_ms = 0.0

    def become(self, delay_ms: float) -> None:
        """From now on a packet takes so long from one place to another."""
        self._delay_ms = delay_ms
        self.carried()

    def carried(self) -> Carried:
        self._told.write(f"{round(self._delay_ms * 1_000)}\n")
        self._told.flush()
        return Carried(*map(int, self._answers.readline().split()))


@contextmanager
def far_apart(network: Network, scratch: Path) -> Iterator[Distance]:
    """Place the CometBFTs of a network that does not run yet, without a delay at first."""
    with ExitStack() as stack:
        places = [stack.enter_context(closing(Namespace([], ["--net"]))) for _ in network.nodes]
        carrier = subprocess.Popen(
            [_compiled(scratch), *(str(place.pid) for place in places)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        # Its standard input ends with this block, and so does it.
        stack.enter_context(carrier)
        assert carrier.stdin is not None
        assert carrier.stdout is not None
        if not carrier.stdout.readline():
            raise OSError("no devices for the delayed network: that needs root and /dev/net/tun")
        for number, (node, place) in enumerate(zip(network.nodes, places, strict=True), 1):
            for line in (
                "link set lo up",
                f"link set wan mtu {MTU_BYTES} txqueuelen {QUEUED_PACKETS} up",
                f"address add 10.99.0.{number}/24 dev wan",
            ):
                subprocess.run([*place.inside("--net"), "ip", *line.split()], check=True)
            wrapper = scratch / f"cometbft{number}"
            wrapper.write_text(f'#!/bin/sh\nexec {" ".join(place.inside("--net"))} {BINARY} "$@"\n')
            wrapper.chmod(0o755)
            node.set(cometbft_binary=str(wrapper))
            node.configure(
                {
                    "p2p.laddr": f"tcp://10.99.0.{number}:{P2P_PORT}",
                    "p2p.persistent_peers": ",".join(
                        f"{other.peer_id}@10.99.0.{place}:{P2P_PORT}"
                        for place, other in enumerate(network.nodes, 1)
                        if other is not node
                    ),
                }
            )
        yield Distance(carrier.stdin, carrier.stdout)


def _compiled(scratch: Path) -> str:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise OSError("no C compiler here")
    program = scratch / "wan"
    if not program.exists():
        subprocess.run([compiler, "-O2", "-o", program, SOURCE], check=True)
    return str(program)
