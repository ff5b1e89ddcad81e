"""Reverts while others read, submit and listen: every answer is one of the documented ones, and no process ends."""

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPConnection
from itertools import cycle

from websockets.exceptions import WebSocketException

from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.public import connect_patiently
from tests.support.rpc import rpc
from tests.support.wallet import dev_account

REVERTS = 10
ANSWERS_BETWEEN = 20
SENDER = dev_account(0).address
TRANSFER = json.dumps({"from": SENDER, "to": "0x" + "22" * 20, "value": 1, "gas": 21_000})
EXPECTED = {(200, ""), (404, "TX_NOT_FOUND"), (404, "BLOCK_NOT_FOUND"), (503, "STORE_UNAVAILABLE"), (503, "STARTING")}


class Clients:
    """Each in a thread of its own, until told to stop."""

    def __init__(self, node: NodeProcess) -> None:
        self._host = node.url.removeprefix("http://")
        self._ws_url = node.ws_url
        self._stopped = threading.Event()
        self._sent: deque[str] = deque(["0x" + "11" * 32], maxlen=20)
        self.answers: Counter[tuple[int, str]] = Counter()
        self.holes: list[tuple[int, int]] = []
        self._threads = [threading.Thread(target=run) for run in (self._read, self._read, self._submit, self._listen)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def await_answers(self, count: int) -> None:
        """So many more that are 200."""
        enough = self.answers[200, ""] + count
        wait_until(lambda: self.answers[200, ""] >= enough, PATIENCE_S, f"answers: {self.answers}")

    def _ask(self, connection: HTTPConnection, path: str, body: str | None = None) -> dict[str, str]:
        method, headers = ("GET", {}) if body is None else ("POST", {"Content-Type": "application/json"})
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = json.loads(answer.read())
        found: dict[str, str] = content if isinstance(content, dict) else {}
        self.answers[answer.status, found.get("code", "")] += 1
        return found

    def _repeat(self, step: Callable[[HTTPConnection], object]) -> None:
        with closing(HTTPConnection(self._host, timeout=PATIENCE_S)) as connection:
            while not self._stopped.is_set():
                step(connection)

    def _read(self) -> None:
        kinds = cycle(("tx", "proof", "/block/latest", "/blocks", f"/account/{SENDER}/txs", "/chain", "/mempool"))

        def step(connection: HTTPConnection) -> None:
            kind = next(kinds)
            tx = f"/tx/{self._sent[0]}"
            self._ask(connection, {"tx": tx, "proof": f"{tx}/proof"}.get(kind, kind))

        self._repeat(step)

    def _submit(self) -> None:
        def step(connection: HTTPConnection) -> None:
            answer = self._ask(connection, "/tx", TRANSFER)
            if "txHash" in answer:
                self._sent.append(answer["txHash"])
            else:
                time.sleep(0.01)

        self._repeat(step)

    def _listen(self) -> None:
        while not self._stopped.is_set():
            with (
                suppress(WebSocketException, TimeoutError),
                connect_patiently(f"{self._ws_url}/events?newBlock&fromHeight=0") as ws,
            ):
                last = -1
                while not self._stopped.is_set():
                    message = json.loads(ws.recv(timeout=1))
                    if message["event"] != "newBlock":
                        continue
                    height = message["blockHeight"]
                    if height != last + 1 and last >= 0:
                        self.holes.append((last, height))
                    last = height


def test_reverts_under_load() -> None:
    with NodeProcess.start_dev("--workers", "2", "--block-time", "0") as node:
        processes = node.pids()
        clients = Clients(node)
        clients.start()
        try:
            for _ in range(REVERTS):
                snapshot = rpc(node.url, "evm_snapshot")
                clients.await_answers(ANSWERS_BETWEEN)
                assert rpc(node.url, "evm_revert", snapshot) is True
        finally:
            clients.stop()
        assert clients.answers.keys() <= EXPECTED, clients.answers
        assert clients.answers[200, ""] > REVERTS
        assert clients.holes == []
        assert node.pids() == processes, node.stderr
        assert node.stop() == 0
