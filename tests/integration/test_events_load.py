"""Two hundred sockets, blocks of hundreds of transactions, and one client that stops reading."""

import asyncio
import random
from contextlib import AsyncExitStack

import pytest
from websockets.asyncio.client import ClientConnection

from cairn.config import Settings
from cairn.domain.types import TxHash
from tests.support.event_client import connect_idle, connect_to, read_to_the_end, receive, receive_many, say, wait_for
from tests.support.event_server import EventServer, block_hash_of, hex_of, tx_hash_of, virtual_event_server

SOCKETS = 200
BLOCKS = 12
BLOCK_TXS = 300
FOLLOWED = 100
IDLE_FOLLOWED = 900
TXS = [tx_hash_of(number) for number in range(BLOCKS * BLOCK_TXS)]

Message = dict[str, object]


def story(followed: set[TxHash], first: int = 1) -> list[Message]:
    """What a socket must be told, in this very order: each block, then the followed ones in it as they stand there."""
    told: list[Message] = []
    for height in range(first, BLOCKS + 1):
        told.append({"event": "newBlock", "blockHeight": height, "hash": hex_of(block_hash_of(height))})
        for tx_hash in TXS[(height - 1) * BLOCK_TXS : height * BLOCK_TXS]:
            if tx_hash in followed:
                told.append({"event": "txConfirmed", "txHash": hex_of(tx_hash), "blockHeight": height})
    return told


async def follow(client: ClientConnection, followed: list[TxHash]) -> None:
    """Follow each and read the answers, a few at a time, so that even a client with little room gets them all."""
    assert (await receive(client))["event"] == "subscribed"
    for start in range(0, len(followed), 50):
        batch = followed[start : start + 50]
        for tx_hash in batch:
            await say(client, action="subscribe", event="txConfirmed", txHash=hex_of(tx_hash))
        assert {message["event"] for message in await receive_many(client, len(batch))} == {"subscribed"}


async def read_story(client: ClientConnection, expected: list[Message]) -> None:
    assert await receive_many(client, len(expected)) == expected


async def check_idle(server: EventServer, idle: ClientConnection, expected: list[Message]) -> None:
    """It reads again: the beginning of its story, then 1013; and the rest after it has come back."""
    told, code = await read_to_the_end(idle)
    assert code == 1013
    assert told == expected[: len(told)]
    missing = expected[len(told) :]
    blocks = [message for message in missing if message["event"] == "newBlock"]
    assert blocks, "the idle client was not idle"
    async with connect_to(server, f"?newBlock&fromHeight={blocks[0]['blockHeight']}", compression=None) as resumed:
        assert (await receive(resumed))["event"] == "subscribed"
        for message in missing:
            if message["event"] == "txConfirmed":
                await say(resumed, action="subscribe", event="txConfirmed", txHash=message["txHash"])
        again = [message for message in await read_answered(resumed, len(missing)) if message["event"] != "subscribed"]
    # The replay may pass a block before its transactions are asked for; but none comes twice, and none not at all.
    assert [message for message in again if message["event"] == "newBlock"] == blocks
    assert sorted(map(str, again)) == sorted(map(str, missing))


async def read_answered(client: ClientConnection, events: int) -> list[Message]:
    """Everything up to that many events, the answers between them included."""
    messages: list[Message] = []
    while events:
        messages.append(await receive(client))
        events -= messages[-1]["event"] != "subscribed"
    return messages


# In virtual time: whoever is idle is closed after ten seconds, and a busy machine must not make idle who reads.
@pytest.mark.virtual_time
async def test_everyone_gets_every_event_in_order_and_the_idle_one_resumes() -> None:
    choose = random.Random(7)
    idle_followed = choose.sample(TXS, IDLE_FOLLOWED)
    async with virtual_event_server(settings=Settings(ws_buffer_bytes=8_192)) as server, AsyncExitStack() as stack:
        idle = await stack.enter_async_context(connect_idle(server, "?newBlock"))
        await follow(idle, idle_followed)
        async with asyncio.TaskGroup() as readers:
            for _ in range(SOCKETS - 1):
                client = await stack.enter_async_context(connect_to(server, "?newBlock", compression=None))
                followed = choose.sample(TXS, FOLLOWED)
                await follow(client, followed)
                readers.create_task(read_story(client, story(set(followed))))
            for height in range(BLOCKS):
                server.commit(TXS[height * BLOCK_TXS : (height + 1) * BLOCK_TXS])
                await asyncio.sleep(1)
        await wait_for(lambda: any(connection.close_sent for connection in server.connections))
        await check_idle(server, idle, story(set(idle_followed)))
