"""Events under load: 200 sockets, blocks with hundreds of transactions, and one client that stops reading."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from cairn.domain.genesis import DEV_KEYS
from cairn.domain.transactions import sign_draft
from cairn.domain.types import TRANSFER_GAS, Address, Draft
from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode
from tests.support.rpc import rpc
from tests.support.stalls import STALL_TIMEOUT_S, assert_let_go, outlast_stall

SOCKETS = 200
TRANSFERS_PER_SENDER = 250
FOLLOWED = 25
SLOW_FOLLOWED = 1_000
BATCH = 100
BLOCKS = 4
# Small bounds, so that megabytes need not be sent to pass them.
LIMITS = {"CAIRN_WS_BUFFER_BYTES": "16384", "CAIRN_WS_STALL_TIMEOUT_S": str(STALL_TIMEOUT_S)}
WITNESSES = 40
"""So many sockets are at every worker."""


@dataclass(slots=True)
class Seen:
    """What one socket was told."""

    heights: list[int] = field(default_factory=list)
    confirmed: dict[str, int] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    """The confirmed transactions as they came."""

    def note(self, message: dict[str, Any]) -> None:
        if message["event"] == "newBlock":
            self.heights.append(message["blockHeight"])
        elif message["event"] == "txConfirmed":
            assert message["txHash"] not in self.confirmed, "told twice"
            # The block comes first, and its transactions before the next block.
            assert self.heights[-1] == message["blockHeight"]
            self.confirmed[message["txHash"]] = message["blockHeight"]
            self.order.append(message["txHash"])
        else:
            assert message["event"] == "subscribed", message


def sign_all() -> list[dict[str, Any]]:
    """Transfers of the ten dev accounts, in an order in which each can be mined at once."""
    transfers = []
    for nonce in range(TRANSFERS_PER_SENDER):
        for sender, key in DEV_KEYS:
            tx = sign_draft(Draft(sender, Address(b"\x44" * 20), 1, TRANSFER_GAS, 10**9, nonce), key, 1337)
            transfers.append(
                {
                    "txHash": "0x" + tx.hash.hex(),
                    "from": "0x" + sender.hex(),
                    "to": "0x" + tx.to.hex(),
                    "value": tx.value,
                    "nonce": nonce,
                    "gas": tx.gas,
                    "signature": "0x" + tx.signature.hex(),
                }
            )
    return transfers


async def follow(client: ClientConnection, hashes: Iterable[str], from_height: int = 0) -> None:
    await client.send(json.dumps({"action": "subscribe", "event": "newBlock", "fromHeight": from_height}))
    for tx_hash in hashes:
        await client.send(json.dumps({"action": "subscribe", "event": "txConfirmed", "txHash": tx_hash}))


async def read_until(client: ClientConnection, wanted: set[str], seen: Seen) -> None:
    """Read until every wanted transaction is confirmed."""
    while not wanted <= seen.confirmed.keys():
        seen.note(json.loads(await client.recv()))


async def read_to_the_end(client: ClientConnection, seen: Seen) -> int | None:
    """Read what is left until the node closes the socket. Returns the code that it gave."""
    try:
        while True:
            seen.note(json.loads(await client.recv()))
    except ConnectionClosed as closed:
        return None if closed.rcvd is None else closed.rcvd.code


async def submit_all(url: str, transfers: list[dict[str, Any]]) -> None:
    bodies = [{name: value for name, value in transfer.items() if name != "txHash"} for transfer in transfers]
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        for start in range(0, len(bodies), BATCH):
            answer = await client.post("/txs", json=bodies[start : start + BATCH])
            assert answer.status_code == 200
            assert {result["status"] for result in answer.json()} == {"pending"}, answer.text


def connect_fast(node: NodeProcess) -> connect:
    return connect(node.ws_url + "/events", open_timeout=PATIENCE_S, ping_interval=None)


@asynccontextmanager
async def connect_slow(node: NodeProcess) -> AsyncIterator[ClientConnection]:
    """A client whose receive buffer is small, so that the node soon notices that it does not read."""
    host, _, port = node.url.removeprefix("http://").partition(":")
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, (host, int(port)))
    async with connect(
        node.ws_url + "/events", sock=raw, max_queue=1, open_timeout=PATIENCE_S, ping_interval=None
    ) as client:
        yield client


async def run_all(node: NodeProcess, transfers: list[dict[str, Any]]) -> tuple[list[Seen], Seen]:
    hashes = [str(transfer["txHash"]) for transfer in transfers]
    slow_wanted = hashes[:SLOW_FOLLOWED]
    seen, slow_seen = [Seen() for _ in range(SOCKETS - 1)], Seen()
    async with AsyncExitStack() as stack:
        clients: list[ClientConnection] = []
        async with asyncio.TaskGroup() as group:
            for index, one in enumerate(seen):
                client = await stack.enter_async_context(connect_fast(node))
                clients.append(client)
                wanted = hashes[index::SOCKETS][:FOLLOWED] + hashes[-1:]
                await follow(client, wanted)
                group.create_task(read_until(client, set(wanted), one))
            # Last: from its first full buffer on, the node gives it only so much time.
            slow = await stack.enter_async_context(connect_slow(node))
            await follow(slow, slow_wanted)
            began = time.monotonic()
            for part in range(BLOCKS):
                await submit_all(node.url, transfers[part * len(transfers) // BLOCKS :][: len(transfers) // BLOCKS])
                await asyncio.to_thread(rpc, node.url, "evm_mine")
        # Everyone else has all of it by now; the slow one has read nothing yet, and the node must see that first.
        await outlast_stall(clients[:WITNESSES])
        code = await read_to_the_end(slow, slow_seen)
        assert_let_go(code, filled_at=began)
        missing = set(slow_wanted) - slow_seen.confirmed.keys()
        assert missing, "the slow client was not slow"
        resumed = await stack.enter_async_context(connect_fast(node))
        told = set(slow_seen.confirmed)
        await follow(resumed, [tx_hash for tx_hash in slow_wanted if tx_hash not in told], slow_seen.heights[-1] + 1)
        later = Seen(heights=[slow_seen.heights[-1]])
        # Those of the last block that it saw may still be missing: they are confirmed, so they are told at once.
        await resume_until(resumed, missing, later)
    slow_seen.heights += later.heights[1:]
    slow_seen.confirmed |= later.confirmed
    return seen, slow_seen


async def resume_until(client: ClientConnection, wanted: set[str], seen: Seen) -> None:
    while not wanted <= seen.confirmed.keys():
        message = json.loads(await client.recv())
        if message["event"] == "newBlock":
            seen.heights.append(message["blockHeight"])
        elif message["event"] == "txConfirmed":
            seen.confirmed[message["txHash"]] = message["blockHeight"]


def test_everyone_gets_every_event_and_the_slow_one_resumes() -> None:
    transfers = sign_all()
    # A block only when it is told to: each gets hundreds of transactions, however slow the machine is.
    with NodeProcess.start(("dev", "--port", "0", "--block-time", "86400", "--workers", "2"), LIMITS) as process:
        process.wait_ready()
        seen, slow_seen = asyncio.run(run_all(process, transfers))
        node = PublicNode(process.url)
        blocks = [node.read(f"/block/{height}") for height in range(node.read("/chain")["head"]["blockHeight"] + 1)]
        node.close()
    place = {
        tx_hash: (block["blockHeight"], index)
        for block in blocks
        for index, tx_hash in enumerate(block["transactions"])
    }
    assert max(len(block["transactions"]) for block in blocks) >= 300, "the blocks are too small to say anything"
    assert len(place) == len(transfers)
    for one in [*seen, slow_seen]:
        assert one.heights == list(range(len(one.heights))), "a hole, a repeat or a wrong order"
        assert all(place[tx_hash][0] == height for tx_hash, height in one.confirmed.items())
    for one in seen:
        assert one.order == sorted(one.order, key=place.__getitem__)
