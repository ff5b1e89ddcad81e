"""A peer without stake that floods a network: a full node whose application takes whatever it is given.

Its CometBFT then offers all of that to its peers, as fast as they read.
"""

import base64
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from types import TracebackType

from cairn.cometbft import TomlValue
from tests.support.forgery import Forger
from tests.support.pace import PATIENCE_S

PER_SECOND_BYTES = 5_120_000
"""As much as a peer reads: its `recv_rate`, unless somebody changes it."""
TOGETHER_BYTES = 500_000
"""In one request, which may have no more than a million."""
MOST_TOGETHER = 10
"""Calls in one request, as CometBFT allows."""
CONNECTIONS = 4
"""One waits for its answer too long to send so much."""

CONFIGURATION: dict[str, TomlValue] = {
    "mempool.recheck": False,
    "mempool.size": 1_000_000,
    "mempool.cache_size": 1_000_000,
    "mempool.max_txs_bytes": 1 << 30,
    "p2p.send_rate": 100_000_000,
}
"""Of its CometBFT: it keeps all, and sends it as fast as it can."""

Items = Callable[[], Sequence[bytes]]


def forged_bundles() -> Items:
    """Only what costs the most for its size."""
    forger = Forger()
    return lambda: [forger.bundle()]


def mixed_rubbish() -> Items:
    """Long and short bundles, single transfers, updates, and bytes that are nothing at all."""
    forger, random = Forger(3 << 62), Random(7)

    def items() -> list[bytes]:
        singles = [forger.transfer() for _ in range(5)]
        nothing = [
            prefix + random.randbytes(random.randrange(1, 2_000))
            for prefix in (b"", b"\x81{", b"\x82\x00\x10", b"\x02\xf8")
        ]
        return [forger.bundle(), forger.bundle(random.randrange(2, 100)), *singles, *nothing]

    return items


class Flood:
    """Puts items into the mempool of the CometBFT with that RPC socket, while the `with` block runs."""

    def __init__(self, rpc: Path, items: Items) -> None:
        self._rpc = rpc
        self._items = items
        self._due: list[bytes] = []
        self._lock = threading.Lock()
        self._began = 0.0
        self.sent_bytes = 0
        self.failures: list[Exception] = []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True, name="flood") for _ in range(CONNECTIONS)]

    def _run(self) -> None:
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(PATIENCE_S)
                sock.connect(str(self._rpc))
                connection = http.client.HTTPConnection("cometbft")
                connection.sock = sock
                while not self._ended.wait(self._lead_s()):
                    self._post(connection, self._next_items())
        except Exception as failure:
            self.failures.append(failure)

    def _lead_s(self) -> float:
        """How far it is ahead of its pace."""
        return max(0.0, self._began + self.sent_bytes / PER_SECOND_BYTES - time.monotonic())

    def _next_items(self) -> list[bytes]:
        with self._lock:
            while len(self._due) < MOST_TOGETHER and sum(map(len, self._due)) < TOGETHER_BYTES:
                self._due += self._items()
            together, self._due = self._due[:MOST_TOGETHER], self._due[MOST_TOGETHER:]
            self.sent_bytes += sum(map(len, together))
            return together

    def _post(self, connection: http.client.HTTPConnection, items: Sequence[bytes]) -> None:
        calls = [
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "broadcast_tx_async",
                "params": {"tx": base64.b64encode(item).decode()},
            }
            for item in items
        ]
        connection.request("POST", "/", json.dumps(calls), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        assert b'"error"' not in body, body

    def __enter__(self) -> "Flood":
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        if kind is None and self.failures:
            raise self.failures[0]
