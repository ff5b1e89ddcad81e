"""Transfers at a steady pace, each sent again to its node until that answers: what got a 200 must never be lost."""

import threading
from collections.abc import Callable, Sequence
from random import Random
from types import TracebackType
from typing import Any

import httpx

from cairn.domain.genesis import DEV_KEYS
from cairn.domain.transactions import sign_draft
from cairn.domain.types import TRANSFER_GAS, Address, Draft
from tests.support.pace import PATIENCE_S

CHAIN_ID = 1337
GAS_PRICE = 10**9
_RETRY_S = 0.1
_ANSWER_S = 10
"""After it, the same is sent again: a node that hangs, or was killed, must not keep the load from its end for long."""


def sign_dev_transfer(sender: int, to: Address, value: int, nonce: int) -> tuple[str, dict[str, Any]]:
    """The hash and the body of a transfer of the dev account with that index."""
    address, key = DEV_KEYS[sender]
    draft = Draft(sender=address, to=to, value=value, gas=TRANSFER_GAS, gas_price=GAS_PRICE, nonce=nonce)
    tx = sign_draft(draft, key, CHAIN_ID)
    body = {
        "from": "0x" + tx.sender.hex(),
        "to": "0x" + tx.to.hex(),
        "value": tx.value,
        "nonce": tx.nonce,
        "gas": tx.gas,
        "signature": "0x" + tx.signature.hex(),
    }
    return "0x" + tx.hash.hex(), body


def next_nonce(sender: int, url: str) -> int:
    answer = httpx.get(f"{url}/account/0x{DEV_KEYS[sender][0].hex()}", timeout=PATIENCE_S)
    return int(answer.json()["pendingNonce"])


class SteadyLoad:
    """One dev account for each URL, which sends to that node alone, until the `with` block is left."""

    def __init__(
        self,
        urls: Sequence[str],
        per_second: float,
        before_send: Callable[[str], None] = lambda tx_hash: None,
        first_sender: int = 0,
    ) -> None:
        """`before_send` gets each hash before any node can know of it."""
        self.accepted: set[str] = set()
        """Answered with 200."""
        self.refusals: list[str] = []
        self._pause_s = 1 / per_second
        self._before_send = before_send
        self._ended = threading.Event()
        senders = list(enumerate(urls, first_sender))
        # Asked now, while all of them run: what comes next may kill one before its thread gets its first turn.
        self._first_nonces = {sender: next_nonce(sender, url) for sender, url in senders}
        self._threads = [
            threading.Thread(target=self._run, args=(sender, url), daemon=True, name=f"load on {url}")
            for sender, url in senders
        ]

    def _run(self, sender: int, url: str) -> None:
        random = Random(sender)
        nonce = self._first_nonces[sender]
        with httpx.Client(base_url=url, timeout=_ANSWER_S) as client:
            while not self._ended.wait(self._pause_s):
                to = Address(random.randbytes(20))
                tx_hash, body = sign_dev_transfer(sender, to, random.randrange(10**15), nonce)
                self._before_send(tx_hash)
                if not self._send(client, tx_hash, body):
                    return
                nonce += 1

    def _send(self, client: httpx.Client, tx_hash: str, body: dict[str, Any]) -> bool:
        """Whether the node took it; it did not when the load ended first, or when it was refused."""
        while True:
            try:
                answer = client.post("/tx", json=body)
            except httpx.TransportError:
                pass
            else:
                if answer.status_code == 200:
                    self.accepted.add(tx_hash)
                    return True
                if answer.status_code != 503:
                    self.refusals.append(answer.text)
                    return False
            if self._ended.wait(_RETRY_S):
                return False

    def __enter__(self) -> "SteadyLoad":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        if kind is None:
            assert not self.refusals, self.refusals
