"""WS /rpc of a running node with two workers: order, bounds, and who may connect."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.rpc import RpcRefused, rpc
from tests.support.wallet import COIN, DEV_CHAIN_ID, GWEI, dev_account, new_account

EXTENSION = "chrome-extension://nkbihfbeogaeaoehlefnkodbefgpgknn"


class Session:
    """One socket; what is told unasked is kept by subscription."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = count(1)
        self._told: dict[str, list[Any]] = {}

    async def call(self, method: str, *params: object) -> Any:
        request_id = next(self._ids)
        request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        await self._socket.send(json.dumps(request))
        while (message := await self._next()).get("id") != request_id:
            pass
        return message["result"] if "result" in message else message["error"]

    async def first_told(self, subscription: str, count: int) -> list[Any]:
        """The first results of a subscription, once there are so many."""
        while len(self._told.get(subscription, ())) < count:
            await self._next()
        return self._told[subscription][:count]

    async def _next(self) -> Any:
        message = json.loads(await asyncio.wait_for(self._socket.recv(), PATIENCE_S))
        if message.get("method") == "eth_subscription":
            params = message["params"]
            self._told.setdefault(params["subscription"], []).append(params["result"])
        return message


def calmly_connected(node: NodeProcess, **options: Any) -> connect:
    return connect(node.ws_url + "/rpc", open_timeout=PATIENCE_S, ping_interval=None, **options)


@asynccontextmanager
async def session(node: NodeProcess, origin: str | None = None) -> AsyncIterator[Session]:
    named = None if origin is None else Origin(origin)
    async with calmly_connected(node, origin=named, max_size=None) as socket:
        yield Session(socket)


async def test_heads_and_transactions_reach_every_worker(node: NodeProcess) -> None:
    async with session(node) as first, session(node) as second, session(node) as sending:
        listening = [first, second]
        heads = [await each.call("eth_subscribe", "newHeads") for each in listening]
        pending = [await each.call("eth_subscribe", "newPendingTransactions") for each in listening]
        sender = dev_account(8)
        nonce = int(await sending.call("eth_getTransactionCount", sender.address, "pending"), 16)
        hashes = []
        for number in range(20):
            fields: Any = {
                "to": new_account().address, "value": COIN, "gas": 21_000, "gasPrice": GWEI,
                "nonce": nonce + number, "chainId": DEV_CHAIN_ID,
            }  # fmt: skip
            signed = sender.sign_transaction(fields)
            hashes.append(await sending.call("eth_sendRawTransaction", "0x" + signed.raw_transaction.hex()))
        for each, head, transactions in zip(listening, heads, pending, strict=True):
            assert await each.first_told(transactions, 20) == hashes
            headers = await each.first_told(head, 3)
            numbers = [int(header["number"], 16) for header in headers]
            assert numbers == list(range(numbers[0], numbers[0] + 3))
            assert [header["parentHash"] for header in headers[1:]] == [header["hash"] for header in headers[:-1]]


async def test_batches_notifications_and_rubbish_over_a_socket(node: NodeProcess) -> None:
    async with calmly_connected(node) as socket:
        await socket.send(b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}')
        assert json.loads(await socket.recv())["result"] == "0x539"
        await socket.send('{"jsonrpc":"2.0","method":"eth_chainId"}')
        await socket.send("{")
        assert json.loads(await socket.recv())["error"]["code"] == -32700
        calls = [
            {"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": [name]} for name in ("newHeads", "no")
        ]
        await socket.send(json.dumps(calls))
        subscribed, refused = json.loads(await socket.recv())
        assert refused["error"]["message"] == 'no "no" subscription in eth namespace'
        told = json.loads(await asyncio.wait_for(socket.recv(), PATIENCE_S))
        assert told["params"]["subscription"] == subscribed["result"]


def test_plain_http_has_no_subscriptions(node: NodeProcess) -> None:
    with pytest.raises(Exception, match="notifications not supported"):
        rpc(node.url, "eth_subscribe", "newHeads")


async def test_extensions_may_connect_and_other_pages_may_not(node: NodeProcess) -> None:
    async with session(node, EXTENSION) as wallet:
        assert await wallet.call("eth_chainId") == "0x539"
    for origin in ("https://evil.example", "null"):
        with pytest.raises(InvalidStatus) as refused:
            async with session(node, origin):
                pass
        assert refused.value.response.status_code == 403


async def test_a_full_batch_of_ordinary_calls_is_answered(node: NodeProcess) -> None:
    calls = [
        {"jsonrpc": "2.0", "id": each, "method": "eth_getTransactionReceipt", "params": ["0x" + "ab" * 32]}
        for each in range(1_000)
    ]
    async with calmly_connected(node) as socket:
        await socket.send(json.dumps(calls))
        answers = json.loads(await asyncio.wait_for(socket.recv(), PATIENCE_S))
        assert [each["result"] for each in answers] == [None] * 1_000


async def test_a_message_that_is_too_long_ends_the_socket(node: NodeProcess) -> None:
    async with calmly_connected(node) as socket:
        await socket.send("[" + " " * 2 * 1024 * 1024 + "]")
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(socket.recv(), PATIENCE_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


def pay(node: NodeProcess) -> Any:
    """The hash; one worker has the new core a moment before another."""
    transfer = {"from": dev_account(9).address, "to": new_account().address, "value": "0x1"}
    hashes: list[Any] = []

    def is_taken() -> bool:
        with suppress(RpcRefused):
            hashes.append(rpc(node.url, "eth_sendTransaction", transfer))
        return bool(hashes)

    wait_until(is_taken, PATIENCE_S, "a worker with a core")
    return hashes[0]


async def test_subscriptions_outlive_the_core(node: NodeProcess) -> None:
    async with session(node) as listening:
        heads = await listening.call("eth_subscribe", "newHeads")
        pending = await listening.call("eth_subscribe", "newPendingTransactions")
        await listening.first_told(heads, 1)
        await asyncio.to_thread(node.replace_core)
        tx_hash = await asyncio.to_thread(pay, node)
        told = 1
        # One that was refused because a slow core did not answer may have been accepted all the same.
        while tx_hash not in await listening.first_told(pending, told):
            told += 1
        mined = await listening.first_told(heads, 5)
        numbers = [int(header["number"], 16) for header in mined]
        assert numbers == list(range(numbers[0], numbers[0] + 5))
