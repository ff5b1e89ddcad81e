"""Clients besides the senders: readers that ask for everything, and sockets that come and go, well behaved and not."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from tests.chaos.crowd import Crowd
from tests.chaos.ledger import Ledger
from tests.chaos.load import ANSWER_S, LOST, RECONNECT_S

READERS = 6
READ_PAUSE_S = 0.05
READS_PER_CONNECTION = 200
SOCKETS = 30
LONGEST_SOCKET_S = 20.0
FOLLOWED = 20
"""Transfers that a socket follows at most."""
POST_RPC = b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
EXPECTED = {200, 404, 503}
"""404 of a hash that nobody signed, and of one that is on its way; 503 while a process is gone."""


class Traffic(Crowd):
    """Readers and sockets."""

    def __init__(self, url: str, ledger: Ledger, seed_number: int) -> None:
        super().__init__()
        self._host, _, self._port = url.removeprefix("http://").partition(":")
        self._ws_url = "ws" + url.removeprefix("http")
        self._ledger = ledger
        self._seed_number = seed_number
        self.answers: Counter[int] = Counter()
        """By status."""
        self.sockets = 0
        self.events = 0

    def clients(self) -> list[Coroutine[Any, Any, None]]:
        readers = [self._keep(self._read, number) for number in range(READERS)]
        return readers + [self._keep(self._listen, number) for number in range(SOCKETS)]

    async def _keep(self, live: Callable[[random.Random], Any], number: int) -> None:
        """One client after the other."""
        dice = random.Random(f"{self._seed_number} {live.__name__} {number}")
        while True:
            with suppress(*LOST, WebSocketException):
                await live(dice)
            await asyncio.sleep(RECONNECT_S)

    # Readers.

    async def _read(self, dice: random.Random) -> None:
        reader, writer = await asyncio.open_connection(self._host, int(self._port))
        try:
            for _ in range(dice.randrange(READS_PER_CONNECTION)):
                writer.write(self._request(dice))
                async with asyncio.timeout(ANSWER_S):
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                    await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))
                status = int(head.split()[1])
                self.answers[status] += 1
                assert status in EXPECTED, head
                await asyncio.sleep(dice.uniform(0, 2 * READ_PAUSE_S))
        finally:
            writer.transport.abort()

    def _request(self, dice: random.Random) -> bytes:
        if dice.random() < 0.2:
            content = self._call(dice)
            return POST_RPC + b"Content-Length: %d\r\n\r\n" % len(content) + content
        return f"GET {self._path(dice)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

    def _path(self, dice: random.Random) -> str:
        tx_hash, account = self._tx_hash(dice), dice.choice(self._ledger.rich)
        height = dice.randrange(max(1, len(self._ledger.block_hashes)))
        return dice.choice(
            (
                f"/tx/{tx_hash}", f"/tx/{tx_hash}?wait=1", f"/tx/{tx_hash}/proof", f"/tx/0x{dice.randbytes(32).hex()}",
                "/block/latest", f"/block/{height}", "/blocks?limit=50", f"/account/{account}",
                f"/account/{account}/txs", "/mempool", f"/mempool?from={account}", "/chain", "/health", "/",
            )
        )  # fmt: skip

    def _call(self, dice: random.Random) -> bytes:
        account = dice.choice(self._ledger.rich)
        method, params = dice.choice(
            (
                ("eth_blockNumber", []),
                ("eth_getBalance", [account, "latest"]),
                ("eth_getBlockByNumber", ["latest", True]),
                ("eth_getTransactionReceipt", [self._tx_hash(dice)]),
                ("eth_getTransactionCount", [account, "pending"]),
                ("eth_newBlockFilter", []) if dice.random() < 0.05 else ("eth_chainId", []),
            )
        )
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()

    def _tx_hash(self, dice: random.Random) -> str:
        recent = self._ledger.recent
        return dice.choice(recent) if recent else "0x" + dice.randbytes(32).hex()

    # Sockets.

    async def _listen(self, dice: random.Random) -> None:
        """Live for a while, then leave: with a goodbye, without one, or after having stopped to read."""
        lives_s, leaving = dice.uniform(0.1, LONGEST_SOCKET_S), dice.choice(("close", "abort", "deaf"))
        is_rpc = dice.random() < 0.2
        from_height = dice.randrange(len(self._ledger.block_hashes) + 1)
        query = "/rpc" if is_rpc else f"/events?newBlock&fromHeight={from_height}"
        socket = await connect(self._ws_url + query, open_timeout=ANSWER_S, close_timeout=1, ping_interval=None)
        self.sockets += 1
        try:
            await self._subscribe(socket, is_rpc, dice)
            with suppress(TimeoutError):
                async with asyncio.timeout(lives_s):
                    await self._hear(socket, None if is_rpc else from_height)
            if leaving == "deaf":
                await asyncio.sleep(lives_s)
            if leaving == "close":
                await socket.close()
        finally:
            # Also when the run ends in the middle of a goodbye.
            socket.transport.abort()

    async def _subscribe(self, socket: ClientConnection, is_rpc: bool, dice: random.Random) -> None:
        if is_rpc:
            call = {"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]}
            await socket.send(json.dumps(call))
            return
        for _ in range(dice.randrange(FOLLOWED)):
            asked = {"action": "subscribe", "event": "txConfirmed", "txHash": self._tx_hash(dice)}
            await socket.send(json.dumps(asked))

    async def _hear(self, socket: ClientConnection, next_height: int | None) -> None:
        async for message in socket:
            self.events += 1
            if next_height is None:
                continue
            told = json.loads(message)
            if told["event"] == "newBlock":
                assert told["blockHeight"] == next_height, f"block {next_height} is missing: {told}"
                next_height += 1

    def was_served(self) -> bool:
        """Whether each kind of client had an answer."""
        self.check()
        return bool(self.answers[200] and self.sockets and self.events)
