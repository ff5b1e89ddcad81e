"""A client that does not read: it is let go, and nobody else notices."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError

from tests.support.node_process import NodeProcess
from tests.support.wallet import dev_account, new_account

TIMEOUT_S = 60
BATCH, BATCHES = 100, 20


@pytest.fixture
def node() -> Iterator[NodeProcess]:
    bounds = {"CAIRN_WS_STALL_TIMEOUT_S": "1", "CAIRN_WS_BUFFER_BYTES": "8192"}
    arguments = ("dev", "--port", "0", "--workers", "1", "--block-time", "0.2", "--empty-blocks")
    with NodeProcess.start(arguments, bounds) as process:
        process.wait_ready()
        yield process


def subscribe(*params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": params})


async def flood(url: str) -> None:
    """As many pending transactions as fill every buffer on the way."""
    transfer = {"from": dev_account(0).address, "to": new_account().address, "value": "0x1"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "eth_sendTransaction", "params": [transfer]}
    async with httpx.AsyncClient(timeout=TIMEOUT_S) as http:
        for _ in range(BATCHES):
            answers = (await http.post(f"{url}/rpc", json=[call] * BATCH)).json()
            assert all("result" in answer for answer in answers)


async def end_of(socket: ClientConnection) -> int:
    """Read whatever is left. Returns the code that the node closed with."""
    with suppress(ConnectionClosedError):
        async for _ in socket:
            pass
    assert socket.close_code is not None
    return socket.close_code


def test_one_that_does_not_read_is_let_go_and_others_get_every_head(node: NodeProcess) -> None:
    async def main() -> None:
        url = node.ws_url + "/rpc"
        # It takes one message into memory and leaves the rest to the system's buffers.
        async with connect(url, max_queue=1) as deaf, connect(url) as reading:
            await deaf.send(subscribe("newPendingTransactions", True))
            await reading.send(subscribe("newHeads"))
            await flood(node.url)
            numbers: list[int] = []
            async with asyncio.timeout(TIMEOUT_S):
                while len(numbers) < 15:
                    message = json.loads(await reading.recv())
                    if "params" in message:
                        numbers.append(int(message["params"]["result"]["number"], 16))
            assert numbers == list(range(numbers[0], numbers[0] + 15))
            assert await asyncio.wait_for(end_of(deaf), TIMEOUT_S) == 1013

    asyncio.run(main())
