"""Follows the events of one node through its crashes, as a client does that wants each of them exactly once."""

import json
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S

RETRY_S = 0.1
MOST_AT_ONCE = 500
"""Confirmations waited for on one socket: a node allows a client only so many."""


class Follower:
    """Subscribes to every block from `first` on, and to whatever transactions it is told to follow."""

    def __init__(self, url: str, first: int = 0) -> None:
        self._first = first
        self._url = "ws" + url.removeprefix("http") + "/events"
        self.blocks: list[tuple[int, str]] = []
        """Height and hash, in the order in which they were told."""
        self.told_at: list[float] = []
        """When each of them was, by the monotonic clock."""
        self.confirmed: Counter[str] = Counter()
        self.heights: dict[str, int] = {}
        self.dropped: set[str] = set()
        """What was followed and told as dropped."""
        self.errors: list[dict[str, Any]] = []
        self._to_follow: dict[str, None] = {}
        """Not subscribed to on the present socket, in order."""
        self._followed: set[str] = set()
        """Subscribed to on the present socket and not confirmed."""
        self._lock = threading.Lock()
        self._socket: ClientConnection | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"follower of {url}")
        self._thread.start()

    def follow(self, tx_hash: str) -> None:
        with self._lock:
            self._to_follow[tx_hash] = None
            self._subscribe()

    def _subscribe(self) -> None:
        if self._socket is None:
            return
        while self._to_follow and len(self._followed) < MOST_AT_ONCE:
            tx_hash = next(iter(self._to_follow))
            del self._to_follow[tx_hash]
            self._followed.add(tx_hash)
            # A connection that broke just now is made again, and this transaction with it.
            with suppress(WebSocketException, OSError):
                self._socket.send(_subscription(tx_hash))

    def await_confirmed(self, hashes: set[str]) -> None:
        missing = hashes - self.confirmed.keys()

        def is_done() -> bool:
            missing.difference_update(self.confirmed.keys())
            return not missing

        wait_until(is_done, PATIENCE_S, f"txConfirmed of {len(hashes)} transactions at {self._url}")

    def await_height(self, height: int) -> None:
        wait_until(lambda: self._next > height, PATIENCE_S, f"block {height} at {self._url}, which told {self._next}")

    @property
    def _next(self) -> int:
        return self.blocks[-1][0] + 1 if self.blocks else self._first

    def _run(self) -> None:
        while not self._ended.is_set():
            with suppress(WebSocketException, OSError, EOFError, TimeoutError):
                self._read(f"{self._url}?newBlock&fromHeight={self._next}")
            self._ended.wait(RETRY_S)

    def _read(self, url: str) -> None:
        with connect(url, open_timeout=20, close_timeout=1, ping_interval=1, ping_timeout=10) as socket:
            with self._lock:
                self._to_follow = dict.fromkeys(self._followed) | self._to_follow
                self._followed.clear()
                self._socket = socket
                self._subscribe()
            try:
                for message in socket:
                    self._note(json.loads(message))
            finally:
                with self._lock:
                    self._socket = None

    def _note(self, message: dict[str, Any]) -> None:
        if message["event"] == "newBlock":
            self.told_at.append(time.monotonic())
            self.blocks.append((message["blockHeight"], message["hash"]))
        elif message["event"] == "txConfirmed":
            self.confirmed[message["txHash"]] += 1
            self.heights[message["txHash"]] = message["blockHeight"]
            self._unfollow(message["txHash"])
        elif message["event"] == "txDropped":
            self.dropped.add(message["txHash"])
            self._unfollow(message["txHash"])
        elif message["event"] == "error" and message["status"] == 503:
            # A subscription that was not taken, as a disk that fails may cause: the next socket asks for all anew.
            raise EOFError(message["detail"])
        elif message["event"] != "subscribed":
            self.errors.append(message)

    def _unfollow(self, tx_hash: str) -> None:
        with self._lock:
            self._followed.discard(tx_hash)
            self._subscribe()

    def close(self) -> None:
        self._ended.set()
        with self._lock:
            if self._socket is not None:
                self._socket.close_socket()
        self._thread.join(PATIENCE_S)

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _subscription(tx_hash: str) -> str:
    return json.dumps({"action": "subscribe", "event": "txConfirmed", "txHash": tx_hash})
