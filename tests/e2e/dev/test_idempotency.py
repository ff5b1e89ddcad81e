"""Payments that the node signs, repeated with their idempotency keys: on two workers at once, and on new ones."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode, assert_problem
from tests.support.rpc import rpc
from tests.support.wallet import dev_account, new_account

AT_ONCE = 16


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


def test_a_key_outlives_the_workers(process: NodeProcess, node: PublicNode) -> None:
    to = new_account().address
    first = post(node.url, "workers", to)
    node.await_confirmed(first.json()["txHash"])
    before = process.worker_pids()
    for worker in before:
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: len({*process.worker_pids()} - {*before}) == len(before), PATIENCE_S, "the workers are not new")
    process.wait_ready()
    assert post(node.url, "workers", to).content == first.content
    node.await_idle()
    assert node.balance(to) == 1
