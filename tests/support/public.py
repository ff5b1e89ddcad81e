"""A client that uses the public interface only, so that the suites can be pointed at any node."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
from eth_account.signers.local import LocalAccount
from websockets.sync.client import ClientConnection, connect

from tests.support.pace import PATIENCE_S
from tests.support.wallet import COIN, Signed, dev_account, new_account, sign_transfer

PROBLEM_FIELDS = {"type", "title", "status", "detail", "code"}
WAIT_S = 20


class PublicNode:
    """A node of a chain with the accounts of a dev chain, known by its URL."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE_S)

    @property
    def engine(self) -> str:
        """What it says of itself: `embedded`, or `cometbft` when it is one of a network."""
        return str(self.read("/chain")["engine"])

    def get(self, path: str, **params: str | int) -> httpx.Response:
        return self.http.get(path, params=params)

    def read(self, path: str, **params: str | int) -> Any:
        """The JSON of a 200."""
        answer = self.get(path, **params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, body: object, path: str = "/tx") -> httpx.Response:
        return self.http.post(path, json=body)

    def submit(self, transfer: Signed) -> str:
        """Post, and demand that it is accepted."""
        answer = self.post(transfer.body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["txHash"] == transfer.tx_hash
        return transfer.tx_hash

    def await_confirmed(self, tx_hash: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            tx: dict[str, Any] = self.read(f"/tx/{tx_hash}", wait=WAIT_S)
            if tx["status"] == "confirmed":
                return tx
            assert time.monotonic() < deadline, tx

    def await_idle(self) -> None:
        """Return once all that is executable has been mined."""
        deadline = time.monotonic() + PATIENCE_S
        while self.read("/chain")["mempool"]["pending"]:
            assert time.monotonic() < deadline, "the mempool does not drain"
            time.sleep(0.05)

    def balance(self, address: str) -> int:
        return int(self.read(f"/account/{address}")["balance"])

    def next_nonce(self, address: str) -> int:
        return int(self.read(f"/account/{address}")["pendingNonce"])

    def fund(self, coins: int = 10) -> LocalAccount:
        """A fresh account with money, so that a test depends on no other."""
        rich, account = dev_account(0), new_account()
        transfer = sign_transfer(rich, account.address, coins * COIN, self.next_nonce(rich.address))
        self.await_confirmed(self.submit(transfer))
        return account

    def events(self, query: str = "") -> ClientConnection:
        return connect_patiently("ws" + self.url.removeprefix("http") + "/events" + query)

    def close(self) -> None:
        self.http.close()


def get_anew(url: str, **params: str | int) -> httpx.Response:
    """Over a connection of its own."""
    return httpx.get(url, params=params, timeout=PATIENCE_S, verify=False)


def post_anew(url: str, body: object) -> httpx.Response:
    """Over a connection of its own."""
    return httpx.post(url, json=body, timeout=PATIENCE_S, verify=False)


def connect_patiently(url: str, **options: Any) -> ClientConnection:
    """A socket that never takes the node for dead because it is slow."""
    socket: ClientConnection = connect(url, open_timeout=PATIENCE_S, ping_interval=None, **options)
    return socket


def receive(socket: ClientConnection) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(socket.recv(PATIENCE_S))
    return message


def receive_until(socket: ClientConnection, event: str) -> Iterator[dict[str, Any]]:
    """Every message up to and including the first of that kind."""
    while True:
        message = receive(socket)
        yield message
        if message["event"] == event:
            return


def assert_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The answer is that problem and nothing else: a body of RFC 9457 and the headers that every response has."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-chain-id"] == "1337"
    problem: dict[str, Any] = answer.json()
    assert set(problem) >= PROBLEM_FIELDS
    assert problem["code"] == code, problem
    assert problem["status"] == status
    assert problem["detail"]
    if status in (429, 503):
        assert int(answer.headers["retry-after"]) > 0
    return problem
