"""Payments that the node signs, repeated with their idempotency keys: on two workers at once, and over kills."""

import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode, assert_problem
from tests.support.rpc import rpc
from tests.support.wallet import dev_account, new_account

AT_ONCE = 16
KILLS = 6
PAYERS = 3


def body(to: str, value: int) -> dict[str, object]:
    return {"from": dev_account(0).address, "to": to, "value": value, "gas": 21_000}


def post(url: str, key: str, to: str, value: int = 1) -> httpx.Response:
    """Over a connection of its own, so that any worker may get it."""
    return httpx.post(
        f"{url}/tx", json=body(to, value), headers={"Idempotency-Key": f'"{key}"'}, timeout=PATIENCE_S, verify=False
    )


@pytest.fixture(scope="module")
def process() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--workers", "2", "--block-time", "0") as node:
        yield node


@pytest.fixture
def node(process: NodeProcess) -> Iterator[PublicNode]:
    public = PublicNode(process.url)
    yield public
    public.close()


def test_equal_requests_at_once_on_two_workers_are_one_payment(node: PublicNode) -> None:
    to = new_account().address
    with ThreadPoolExecutor(AT_ONCE) as clients:
        answers = list(clients.map(lambda _: post(node.url, "at once", to), range(2 * AT_ONCE)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    node.await_confirmed(answers[0].json()["txHash"])
    node.await_idle()
    assert node.balance(to) == 1
    assert_problem(post(node.url, "at once", to, value=2), 422, "IDEMPOTENCY_KEY_REUSED")


def test_a_revert_forgets_the_keys_that_came_after_the_snapshot(node: PublicNode) -> None:
    before, after = new_account().address, new_account().address
    kept = post(node.url, "before", before)
    node.await_confirmed(kept.json()["txHash"])
    snapshot = rpc(node.url, "evm_snapshot")
    node.await_confirmed(post(node.url, "after", after).json()["txHash"])
    assert rpc(node.url, "evm_revert", snapshot) is True
    assert post(node.url, "before", before).content == kept.content
    again = post(node.url, "after", before, value=5)
    assert again.status_code == 200, again.text
    node.await_confirmed(again.json()["txHash"])
    assert (node.balance(before), node.balance(after)) == (6, 0)


class Payers:
    """Each pays one account after the other, repeats a payment with its key until it is answered, and once more."""

    def __init__(self) -> None:
        self.url: str | None = None
        """None while there is no node."""
        self.answered: list[tuple[str, str, bytes]] = []
        """The key, the receiver and the answer of each payment."""
        self.some = threading.Event()
        self.ended = threading.Event()

    def pay(self, number: int) -> None:
        count = 0
        while not self.ended.is_set():
            count += 1
            key, to = f"{number}-{count}", new_account().address
            answers = [answer for _ in range(2) if (answer := self._until_answered(key, to)) is not None]
            if len(answers) == 2:
                assert answers[0] == answers[1]
                self.answered.append((key, to, answers[0]))
                self.some.set()

    def _until_answered(self, key: str, to: str) -> bytes | None:
        while not self.ended.is_set():
            try:
                answer = post(self.url or "", key, to)
            except (httpx.TransportError, httpx.UnsupportedProtocol):
                time.sleep(0.01)
                continue
            if answer.status_code == 200:
                return answer.content
            assert answer.status_code == 503, answer.text
        return None


def test_over_kills_at_any_moment_each_key_is_paid_once_with_one_answer(tmp_path: Path) -> None:
    seed = int(os.environ.get("CRASH_SEED", random.SystemRandom().randrange(2**32)))
    print(f"CRASH_SEED={seed}")
    moments = random.Random(seed)
    payers = Payers()
    with ThreadPoolExecutor(PAYERS) as threads:
        paying = [threads.submit(payers.pay, number) for number in range(PAYERS)]
        try:
            for _ in range(KILLS):
                with NodeProcess.start_dev("--workers", "2", "--block-time", "0.1", data_dir=tmp_path) as killed:
                    payers.some.clear()
                    payers.url = killed.url
                    assert payers.some.wait(PATIENCE_S)
                    # At the moment of an answer, or a little later.
                    time.sleep(moments.choice((0, moments.random() / 10)))
                    payers.url = None
                    killed.kill_group()
        finally:
            payers.ended.set()
        for each in paying:
            each.result()
    with NodeProcess.start_dev("--workers", "2", "--block-time", "0", data_dir=tmp_path) as last:
        node = PublicNode(last.url)
        assert len({key for key, _, _ in payers.answered}) == len(payers.answered) >= KILLS
        for key, to, answer in payers.answered:
            assert post(last.url, key, to).content == answer
        node.await_idle()
        for key, to, _ in payers.answered:
            assert node.balance(to) == 1, key
        node.close()
