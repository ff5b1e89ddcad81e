"""What another address waits for GET /health and POST /tx beside one that floods a node with bytes.

`sudo .venv/bin/python -m bench.greedy.floods`. The node, the flood and the other client are in network namespaces of
their own (`tests.support.machines`), so each has its address, and all limits are the default ones. `--source DIR` also
measures the program whose `src` that is, in the same run.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import uvloop

from bench.greedy.cases import get, handshake, post, signed_tx
from bench.greedy.chain import PAYER, PAYER_KEY, SENDERS
from bench.greedy.clients import PATIENCE_S, _ask, percentile_ms
from cairn.domain.genesis import GWEI
from cairn.domain.types import TRANSFER_GAS, Draft
from tests.support.machines import Machine, Machines

ADDRESSES = {"node": "10.77.0.1", "flood": "10.77.0.2", "other": "10.77.0.3"}
PORT = 8650
PAUSE_S = 0.01
"""Between two requests of the other client."""
WARM_S = 2.0
ROOT = Path(__file__).parents[2]

PONG = b"\x8a\x80\0\0\0\0"
CHUNKED = (
    b"POST /txs HTTP/1.1\r\nHost: 10.77.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)

# Of each: how many connections, what each sends first, and what it repeats for ever.
FLOODS: dict[str, tuple[int, bytes, bytes]] = {
    "pongs": (250, handshake("/events"), PONG * 10_000),
    "pongs after a close frame": (250, handshake("/events") + b"\x88\x82\0\0\0\0\x03\xe8", PONG * 10_000),
    "unfinished heads": (100, b"GET /health HTTP/1.1\r\n" + b"a:\r\n" * 8_500 + b"b: ", b"c"),
    "unfinished heads of 200 headers": (100, b"GET /health HTTP/1.1\r\n" + b"a:\r\n" * 200 + b"b: ", b"c"),
    "chunks of a byte": (50, CHUNKED, b"1\r\na\r\n" * 43_000),
    "probes": (100, b"", get("/health") * 16),
    "probes on 500 connections": (500, b"", get("/health")),
    "requests for /chain": (100, b"", get("/chain") * 16),
}


class Flood(asyncio.Protocol):
    """One connection: it writes whenever it can, and begins again when it is closed."""

    def __init__(self, kind: str) -> None:
        _, self._opening, self._repeated = FLOODS[kind]
        self._kind = kind
        self._is_paused = self._is_gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._opening)
        self._go_on()

    def _go_on(self) -> None:
        if not self._is_gone:
            if not self._is_paused:
                self.transport.write(self._repeated)
            asyncio.get_running_loop().call_later(0.0005 if len(self._repeated) < 100 else 0.0, self._go_on)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_gone = True
        asyncio.get_running_loop().call_later(0.1, connect, self._kind)


def connect(kind: str) -> None:
    loop = asyncio.get_running_loop()
    task = loop.create_task(loop.create_connection(lambda: Flood(kind), ADDRESSES["node"], PORT))
    task.add_done_callback(lambda done: done.exception() and loop.call_later(0.1, connect, kind))


async def flood(kind: str) -> None:
    for _ in range(FLOODS[kind][0]):
        connect(kind)
    await asyncio.Event().wait()


async def measure(seconds: float, nonce: int) -> None:
    """Print the waits of the other client."""
    waits: dict[str, list[float]] = {"health": [], "submit": []}
    ends_at = time.perf_counter() + seconds

    async def probe() -> None:
        while time.perf_counter() < ends_at:
            began = time.perf_counter()
            reader, writer = await asyncio.open_connection(ADDRESSES["node"], PORT)
            answer = await _ask(reader, writer, get("/health"))
            waits["health"].append(time.perf_counter() - began)
            writer.close()
            assert answer.startswith(b"HTTP/1.1 200"), answer
            await asyncio.sleep(PAUSE_S)

    async def pay() -> None:
        reader, writer = await asyncio.open_connection(ADDRESSES["node"], PORT)
        while time.perf_counter() < ends_at:
            draft = Draft(PAYER, SENDERS[0], 1, TRANSFER_GAS, GWEI, nonce + len(waits["submit"]))
            request = post("/tx", json.dumps(signed_tx(draft, PAYER_KEY)).encode())
            began = time.perf_counter()
            answer = await _ask(reader, writer, request)
            waits["submit"].append(time.perf_counter() - began)
            assert answer.startswith(b"HTTP/1.1 200"), answer
            await asyncio.sleep(PAUSE_S)
        writer.close()

    await asyncio.gather(probe(), pay())
    print(json.dumps(waits))


@contextmanager
def flooded(machine: Machine, kind: str | None) -> Iterator[None]:
    if kind is None:
        yield
        return
    program = machine.spawn(f"cd {ROOT} && exec nice -n 5 {sys.executable} -m {__spec__.name} --flood '{kind}'")
    time.sleep(WARM_S)
    try:
        yield
        assert program.poll() is None, "the flood has ended"
    finally:
        machine.end(program)


def measure_node(machines: Machines, source: str, kinds: list[str], seconds: float) -> None:
    node, other = machines.each["node"], machines.each["other"]
    data = f"{node.directory}/{abs(hash(source))}"
    node.start(f"env PYTHONPATH={source} cairn dev --host {ADDRESSES['node']} --port {PORT} --data-dir {data} --quiet")
    deadline, nonce = time.monotonic() + PATIENCE_S, 0
    while other.try_run(f"curl -sf http://{ADDRESSES['node']}:{PORT}/ready").returncode != 0:
        assert time.monotonic() < deadline, node.node and node.node.stderr
    print(f"\n{source or 'this program'}: medians and 99th percentiles in ms\n")
    print("| flood | `/health` | `POST /tx` | requests |")
    print("|---|---|---|---|")
    for kind in [None, *kinds]:
        with flooded(machines.each["flood"], kind):
            done = other.try_run(f"cd {ROOT} && {sys.executable} -m {__spec__.name} --other {seconds} --nonce {nonce}")
        if done.returncode != 0:
            print(f"| {kind or 'none'} | {done.stderr.strip().splitlines()[-1]} | | |", flush=True)
            nonce += 10_000
            continue
        waits = json.loads(done.stdout)
        nonce += len(waits["submit"])
        shown = [
            f"{percentile_ms(waits[what], 50):.1f} / {percentile_ms(waits[what], 99):.1f}"
            for what in ("health", "submit")
        ]
        print(f"| {kind or 'none'} | {shown[0]} | {shown[1]} | {len(waits['health'])} |", flush=True)
    node.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", action="append", default=[""], help="of another version, too")
    parser.add_argument("--only", help="floods whose name contains this")
    parser.add_argument("--seconds", type=float, default=6.0, help="for each")
    parser.add_argument("--flood", help=argparse.SUPPRESS)
    parser.add_argument("--other", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--nonce", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.flood:
        uvloop.run(flood(options.flood))
    elif options.other:
        uvloop.run(measure(options.other, options.nonce))
    else:
        kinds = [kind for kind in FLOODS if not options.only or options.only in kind]
        with tempfile.TemporaryDirectory(prefix="cairn-floods-") as scratch:
            Path(scratch).chmod(0o755)
            with Machines(Path(scratch), ADDRESSES) as machines:
                for source in options.source:
                    measure_node(machines, source, kinds, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
