"""How long a client waits at a steady pace: from its POST until it is told that the transaction is confirmed."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence

from websockets.asyncio.client import ClientConnection, connect

from bench.network_runs import port_of
from bench.workload import Submission
from tests.support.network import Network

TIMEOUT_S = 120


def measure_confirmation(network: Network, load: Sequence[Submission], per_second: float) -> list[float]:
    """Seconds for each, submitted to the nodes in turn. Raises `TimeoutError` when one is never told."""
    return asyncio.run(_measure([port_of(node) for node in network.nodes], load, per_second))


async def _measure(ports: Sequence[int], load: Sequence[Submission], per_second: float) -> list[float]:
    waits: list[float] = []
    all_told = asyncio.Event()

    def told(wait_s: float) -> None:
        waits.append(wait_s)
        if len(waits) == len(load):
            all_told.set()

    clients = [await _Client.open(port, told) for port in ports]
    started = time.perf_counter()
    try:
        async with asyncio.timeout(TIMEOUT_S + len(load) / per_second), asyncio.TaskGroup() as group:
            for number, tx in enumerate(load):
                await asyncio.sleep(max(0, started + number / per_second - time.perf_counter()))
                group.create_task(clients[number % len(clients)].submit(tx))
            await all_told.wait()
    finally:
        for client in clients:
            await client.close()
    return waits


class _Client:
    """A client of one node: submits over one connection, and follows over another."""

    def __init__(self, port: int, events: ClientConnection, told: Callable[[float], None]) -> None:
        self._port = port
        self._events = events
        self._told = told
        self._sent_at: dict[str, float] = {}
        self._listening = asyncio.create_task(self._listen())
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    @classmethod
    async def open(cls, port: int, told: Callable[[float], None]) -> "_Client":
        return cls(
            port, await connect(f"ws://127.0.0.1:{port}/events", open_timeout=TIMEOUT_S, ping_interval=None), told
        )

    async def _listen(self) -> None:
        async for text in self._events:
            message = json.loads(text)
            if message["event"] == "txConfirmed":
                self._told(time.perf_counter() - self._sent_at[message["txHash"]])

    async def submit(self, tx: Submission) -> None:
        tx_hash = f"0x{tx.tx_hash.hex()}"
        await self._events.send(json.dumps({"action": "subscribe", "event": "txConfirmed", "txHash": tx_hash}))
        if not self._idle:
            self._idle.append(await asyncio.open_connection("127.0.0.1", self._port))
        reader, writer = self._idle.pop()
        self._sent_at[tx_hash] = time.perf_counter()
        writer.write(tx.request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"refused: {head.decode()}")
        at = head.lower().index(b"content-length:") + 15
        await reader.readexactly(int(head[at:].split(b"\r\n", 1)[0]))
        self._idle.append((reader, writer))

    async def close(self) -> None:
        self._listening.cancel()
        await self._events.close()
        for _, writer in self._idle:
            writer.close()
