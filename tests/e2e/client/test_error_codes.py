"""Each code that a running node can be brought to answer, as the class that a program catches.

Those of a node in trouble (STARTING and its like) and of the public internet (RATE_LIMITED) are played in
tests/unit/client/test_transport.py.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest

from cairn.client import Account, AsyncClient, SignedTransfer, errors
from cairn.client.errors import BY_CODE, ApiError
from cairn.client.transport import Deadline, problem_error
from tests.e2e.client.conftest import patient
from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S

TO = Account.dev(9).address
GWEI = 10**9
UNKNOWN = "0x" + "ab" * 32

Call = Callable[[AsyncClient], Awaitable[object]]


def signed(account: int, nonce: int, **fields: Any) -> SignedTransfer:
    terms: dict[str, Any] = {"value": 1, "chain_id": 1337, "gas_price": GWEI} | fields
    return Account.dev(account).sign(TO, terms.pop("value"), nonce=nonce, **terms)


def submitting(*transfers: SignedTransfer) -> Call:
    """All are taken but the last."""

    async def call(client: AsyncClient) -> None:
        for transfer in transfers:
            await client.submit(transfer)

    return call


async def wait_for_replaced(client: AsyncClient) -> None:
    await submitting(signed(3, 2), signed(3, 2, gas_price=2 * GWEI))(client)
    await client.wait(signed(3, 2).tx_hash)


async def send_used(client: AsyncClient) -> None:
    await client.wait((await client.submit(signed(4, 0))).tx_hash)
    await client.submit(signed(4, 0, value=2))


async def follow_a_word(client: AsyncClient) -> None:
    await anext(client.confirmations(["word"]))


CALLS: dict[str, Call] = {
    "INVALID_FIELD": lambda client: client.submit({"from": TO}),
    "INVALID_HASH": lambda client: client.transaction("0x12"),
    "INVALID_QUERY": lambda client: anext(client.pending(sender="0x12")),
    "NOT_FOUND": lambda client: client.validators(),
    "TX_NOT_FOUND": lambda client: client.transaction(UNKNOWN),
    "TX_DROPPED": wait_for_replaced,
    "BLOCK_NOT_FOUND": lambda client: client.block(10**9),
    "BODY_TOO_LARGE": lambda client: client.submit({"from": "0x" * 100_000, "nonce": 0}),
    "NONCE_TOO_LOW": send_used,
    "NONCE_TOO_HIGH": submitting(signed(5, 65)),
    "REPLACEMENT_UNDERPRICED": submitting(signed(6, 3), signed(6, 3, value=2)),
    "INVALID_SIGNATURE": submitting(signed(7, 0, chain_id=1)),
    "INSUFFICIENT_FUNDS": submitting(signed(7, 0, value=10**30)),
    "GAS_TOO_LOW": submitting(signed(7, 0, gas=20_999)),
    "GAS_TOO_HIGH": submitting(signed(7, 0, gas=10**12)),
    "GAS_PRICE_TOO_LOW": submitting(signed(7, 0, gas_price=1)),
    "SENDER_LIMIT": submitting(*(signed(8, nonce) for nonce in range(1, 7))),
}
REQUESTS: dict[str, dict[str, object]] = {
    "MALFORMED_JSON": {
        "method": "POST",
        "url": "/tx",
        "content": b"{",
        "headers": {"Content-Type": "application/json"},
    },
    "UNSUPPORTED_MEDIA_TYPE": {"method": "POST", "url": "/tx", "content": b"{}", "headers": {"Content-Type": "text/x"}},
    "METHOD_NOT_ALLOWED": {"method": "DELETE", "url": "/tx"},
    "FORBIDDEN_HOST": {"method": "GET", "url": "/chain", "headers": {"Host": "evil.example"}},
    "HEADERS_TOO_LARGE": {"method": "GET", "url": "/chain", "headers": {"X-Long": "x" * 70_000}},
    "UPGRADE_REQUIRED": {"method": "GET", "url": "/events"},
}
"""What the client never sends: asked for directly, and read as the client reads it."""


@pytest.fixture(scope="module")
def small() -> Iterator[NodeProcess]:
    """A node that holds five transactions of one account."""
    env = {"CAIRN_MEMPOOL_PER_SENDER": "5"}
    with NodeProcess.start(("dev", "--port", "0", "--block-time", "0.01", "--workers", "1"), env) as node:
        node.wait_ready()
        yield node


@pytest.fixture
def tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when too little time is left to try again: what the node refuses for now is told at once."""

    async def pause(deadline: Deadline, delay_s: float) -> bool:
        return False

    monkeypatch.setattr(Deadline, "pause", pause)


@pytest.mark.usefixtures("tried_once")
@pytest.mark.parametrize("code", CALLS)
async def test_a_call_raises_the_class_of_its_code(small: NodeProcess, code: str) -> None:
    async with patient(small.url) as client:
        with pytest.raises(BY_CODE[code]) as raised:
            await CALLS[code](client)
        assert type(raised.value) is BY_CODE[code]
        assert raised.value.status == BY_CODE[code].status
        assert raised.value.detail


@pytest.mark.parametrize("code", REQUESTS)
def test_an_answer_is_the_class_of_its_code(small: NodeProcess, code: str) -> None:
    with httpx.Client(base_url=small.url, timeout=PATIENCE_S) as http:
        answer = http.request(**REQUESTS[code])  # type: ignore[arg-type]
    error = problem_error(answer.status_code, answer.content, answer.headers.get("retry-after"))
    assert type(error) is BY_CODE[code]
    assert error.status == answer.status_code


@pytest.mark.usefixtures("tried_once")
def test_a_full_mempool_error_has_retry_after() -> None:
    async def main(url: str) -> None:
        async with patient(url) as client:
            await client.submit(signed(1, 1))
            await client.submit(signed(2, 1))
            with pytest.raises(errors.MempoolFull) as full:
                await client.submit(signed(3, 1))
            assert full.value.retry_after_s == 5
            assert full.value.is_transient

    env = {"CAIRN_MEMPOOL_SIZE": "2"}
    with NodeProcess.start(("dev", "--port", "0", "--workers", "1"), env) as node:
        node.wait_ready()
        asyncio.run(main(node.url))


async def test_a_refused_subscription_raises_the_class_of_its_code(small: NodeProcess) -> None:
    async with patient(small.url) as client:
        with pytest.raises(ApiError) as raised:
            await follow_a_word(client)
        assert type(raised.value) is errors.InvalidHash
