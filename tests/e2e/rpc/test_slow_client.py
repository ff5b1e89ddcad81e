"""A client that does not read: it is let go, and nobody else notices."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError

from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.stalls import STALL_TIMEOUT_S, assert_let_go, outlast_stall
from tests.support.wallet import dev_account, new_account

BATCH, BATCHES = 100, 20


@pytest.fixture
def node() -> Iterator[NodeProcess]:
    bounds = {"CAIRN_WS_STALL_TIMEOUT_S": str(STALL_TIMEOUT_S), "CAIRN_WS_BUFFER_BYTES": "8192"}
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
    async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
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


async def test_a_client_that_does_not_read_is_cut_off_and_others_get_every_head(node: NodeProcess) -> None:
    url = node.ws_url + "/rpc"
    # It takes one message into memory and leaves the rest to the system's buffers.
    calm: dict[str, Any] = {"open_timeout": PATIENCE_S, "ping_interval": None}
    async with connect(url, max_queue=1, **calm) as deaf, connect(url, max_queue=None, **calm) as reading:
        await deaf.send(subscribe("newPendingTransactions", True))
        await reading.send(subscribe("newHeads"))
        began = time.monotonic()
        await flood(node.url)
        await outlast_stall([reading])
        code = await asyncio.wait_for(end_of(deaf), PATIENCE_S)
        assert_let_go(code, filled_at=began)
        numbers: list[int] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(numbers) < 15:
                message = json.loads(await reading.recv())
                if "params" in message:
                    numbers.append(int(message["params"]["result"]["number"], 16))
        assert numbers == list(range(numbers[0], numbers[0] + 15))
