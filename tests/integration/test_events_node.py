"""The event channel of a whole worker: its own server, a real core, and a reader of the real store beside it."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus

from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.api.worker import make_server
from cairn.core.service import Core
from cairn.domain.types import Tx
from tests.support.core_fixtures import CHAIN_ID, GWEI, make_block, opened_core, settings, signed
from tests.support.event_client import ask, connect_patiently, read_to_the_end, receive, receive_many
from tests.support.rest_node import hash_of


@dataclass
class Node:
    core: Core
    view: ChainView
    hub: EventHub
    port: int

    def url(self, query: str = "") -> str:
        return f"ws://127.0.0.1:{self.port}/events{query}"

    def mine(self) -> int:
        return make_block(self.core)

    def open_view(self) -> None:
        """What a worker does when the core greets it."""
        self.view.on_info(self.core.info())
        self.view.on_commit(self.core.head)
        self.view.on_phase("ready", "")


@asynccontextmanager
async def serve_node(directory: Path) -> AsyncIterator[Node]:
    scratch = directory / "scratch"
    scratch.mkdir(exist_ok=True)
    view = ChainView(scratch, CHAIN_ID)
    async with opened_core(directory / "data", listener=view) as core:
        hub = EventHub(view, settings())
        view.subscribe(hub)
        core.feed.subscribe_blocks(view.on_commit)
        listener = socket.create_server(("127.0.0.1", 0))
        server = make_server(core, view, hub, settings())
        port = int(listener.getsockname()[1])
        serving = asyncio.create_task(server.serve(listener))
        try:
            yield Node(core, view, hub, port)
        finally:
            hub.close_all(1001)
            server.stop()
            await serving
            view.close()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with serve_node(tmp_path) as served:
        yield served


async def test_a_socket_is_refused_until_the_store_is_open(node: Node) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await connect_patiently(node.url())
    response = refused.value.response
    assert response.status_code == 503
    assert response.headers["x-chain-id"] == str(CHAIN_ID)
    assert response.headers["content-type"] == "application/problem+json"
    node.open_view()
    async with connect_patiently(node.url("?newBlock&fromHeight=0")) as client:
        assert client.response is not None
        assert client.response.headers["x-chain-id"] == str(CHAIN_ID)
        assert (await receive(client))["fromHeight"] == 0
        genesis = await receive(client)
        assert genesis["hash"] == "0x" + node.view.block_hash(0).hex()
        await node.core.submit(signed(0))
        node.mine()
        assert (await receive(client))["blockHeight"] == 1


async def test_a_drop_is_reported_whether_it_was_before_or_after_following(node: Node) -> None:
    node.open_view()
    first, second = signed(0), signed(0, gas_price=2 * GWEI)
    await node.core.submit(first)
    dropped = {"event": "txDropped", "txHash": hash_of(first), "reason": "replaced"}
    async with connect_patiently(node.url(f"?txConfirmed={hash_of(first)}")) as client:
        assert (await receive(client))["event"] == "subscribed"
        await node.core.submit(second)
        assert await receive(client) == dropped
        answer = await ask(client, action="subscribe", event="txConfirmed", txHash=hash_of(first))
        assert answer["event"] == "subscribed"
        assert await receive(client) == dropped
        answer = await ask(client, action="subscribe", event="txConfirmed", txHash=hash_of(second))
        node.mine()
        assert await receive(client) == {"event": "txConfirmed", "txHash": hash_of(second), "blockHeight": 1}


async def test_a_confirmation_comes_once_whenever_the_transaction_is_followed(node: Node) -> None:
    node.open_view()
    txs = [signed(nonce) for nonce in range(40)]
    choose = random.Random(3)
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        clients = [await stack.enter_async_context(connect_patiently(node.url("?newBlock"))) for _ in range(8)]
        for client in clients:
            assert (await receive(client))["event"] == "subscribed"
        for index, client in enumerate(clients):
            group.create_task(follow_at_random(client, txs[index::8], random.Random(index)))
        for tx in txs:
            await node.core.submit(tx)
            await asyncio.sleep(choose.random() * 0.01)
            node.mine()


async def follow_at_random(client: ClientConnection, txs: list[Tx], choose: random.Random) -> None:
    """Follow each at some moment before, while or after it is mined; and check what comes, to the last block."""
    for tx in txs:
        await asyncio.sleep(choose.random() * 0.12)
        await client.send(f'{{"action":"subscribe","event":"txConfirmed","txHash":"{hash_of(tx)}"}}')
    heights: list[int] = []
    confirmed: list[str] = []
    answers = 0
    while len(confirmed) < len(txs) or len(heights) < 40:
        message = await receive(client)
        if message["event"] == "newBlock":
            heights.append(message["blockHeight"])
        elif message["event"] == "txConfirmed":
            assert message["blockHeight"] in heights
            confirmed.append(message["txHash"])
        else:
            answers += 1
    assert heights == list(range(1, 41))
    assert confirmed == [hash_of(tx) for tx in txs]
    assert answers == len(txs)


async def test_no_block_is_missing_after_a_stop_and_a_resume(tmp_path: Path) -> None:
    seen: list[int] = []
    async with serve_node(tmp_path) as node:
        node.open_view()
        async with connect_patiently(node.url("?newBlock&fromHeight=0")) as client:
            for nonce in range(5):
                await node.core.submit(signed(nonce))
                node.mine()
            seen.extend(message["blockHeight"] for message in (await receive_many(client, 4))[1:])
            node.hub.close_all(1001)
            rest, code = await read_to_the_end(client)
            seen.extend(message["blockHeight"] for message in rest)
            assert code == 1001
    async with serve_node(tmp_path) as node:
        node.open_view()
        async with connect_patiently(node.url(f"?newBlock&fromHeight={seen[-1] + 1}")) as client:
            await node.core.submit(signed(5))
            node.mine()
            assert (await receive(client))["event"] == "subscribed"
            while seen[-1] < 6:
                seen.append((await receive(client))["blockHeight"])
    assert seen == list(range(7))
