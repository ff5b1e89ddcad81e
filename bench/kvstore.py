"""The yardstick of a network: CometBFT with the application that it brings along, which checks next to nothing."""

import base64
import http.client
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from bench.load import Request
from cairn.cometbft import CHECKOUT_BINARY
from tests.support.network import Network
from tests.support.ports import free_ports

START_TIMEOUT_S = 120
_MOST_HEADERS = 20
"""What one call of `blockchain` gives."""


class KvstoreNetwork:
    """The CometBFTs of a network of ours, each on the built-in application. Leaving the `with` block ends them."""

    def __init__(self, network: Network) -> None:
        self.ports = free_ports(len(network.nodes))
        self._counted = 0
        self._txs = 0
        homes = [node.home / "cometbft" for node in network.nodes]
        self.processes = [self._start(home, port) for home, port in zip(homes, self.ports, strict=True)]
        try:
            self._await_first_block()
        except BaseException:
            self.close()
            raise

    def _start(self, home: Path, port: int) -> "subprocess.Popen[bytes]":
        with (home / "log").open("wb") as log:
            return subprocess.Popen(
                [
                    *(CHECKOUT_BINARY, "start", "--home", home, "--abci", "local", "--proxy_app", "kvstore"),
                    *("--rpc.laddr", f"tcp://127.0.0.1:{port}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _await_first_block(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                if all(self._height(port) for port in self.ports):
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise RuntimeError("the kvstore network makes no block")

    def _call(self, port: int, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_TIMEOUT_S)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())["result"]
        finally:
            connection.close()

    def _height(self, port: int) -> int:
        return int(self._call(port, "/status")["sync_info"]["latest_block_height"])

    def confirmed(self) -> int:
        """Transactions in all blocks so far."""
        port = self.ports[0]
        top = self._height(port)
        while self._counted < top:
            last = min(self._counted + _MOST_HEADERS, top)
            metas = self._call(port, f"/blockchain?minHeight={self._counted + 1}&maxHeight={last}")["block_metas"]
            self._txs += sum(int(meta["num_txs"]) for meta in metas)
            self._counted = last
        return self._txs

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def __enter__(self) -> "KvstoreNetwork":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def kvstore_requests(count: int, size_bytes: int, nodes: int) -> Sequence[Sequence[Request]]:
    """For each node, its share of `count` submissions of key=value pairs of that size."""
    random = Random(0)
    requests: list[list[Request]] = [[] for _ in range(nodes)]
    for number in range(count):
        key = f"{number:08d}{random.randbytes(16).hex()}="
        tx = base64.b64encode(key.encode().ljust(size_bytes, b"v")).decode()
        call = {"jsonrpc": "2.0", "id": 1, "method": "broadcast_tx_sync", "params": {"tx": tx}}
        body = json.dumps(call).encode()
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        requests[number % nodes].append((head % len(body) + body, b'"code":0'))
    return requests
