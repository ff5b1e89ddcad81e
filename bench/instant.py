"""How long a client waits on a dev chain that makes a block at once, by each way in which it can learn of the block.

python -m bench.instant --transactions 300
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from websockets.asyncio.client import connect

from bench.machine import run_time_s
from bench.peers.connection import Connection
from cairn.domain.genesis import DEV_CHAIN_ID, DEV_KEYS, GWEI
from cairn.domain.transactions import encode_tx, sign_draft
from cairn.domain.types import Draft, Tx
from tests.support.node_process import NodeProcess

WARM_UP = 20


def post(path: str, body: object) -> bytes:
    text = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(text) + text


def calling(method: str, *params: str) -> bytes:
    return post("/rpc", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def get(client: Connection, path: str) -> bytes:
    return client.ask(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


class Payments:
    """One payment after the other, of one account of the dev chain."""

    def __init__(self) -> None:
        self._nonce = 0

    def sign(self) -> Tx:
        (sender, key), (to, _) = DEV_KEYS[:2]
        draft = Draft(sender=sender, to=to, value=1, gas=21_000, gas_price=GWEI, nonce=self._nonce)
        self._nonce += 1
        return sign_draft(draft, key, DEV_CHAIN_ID)


def submission(tx: Tx) -> bytes:
    fields = {"from": "0x" + tx.sender.hex(), "to": "0x" + tx.to.hex(), "value": tx.value, "nonce": tx.nonce}
    return post("/tx", fields | {"gas": tx.gas, "signature": "0x" + tx.signature.hex()})


def raw(tx: Tx) -> str:
    return "0x" + encode_tx(tx, DEV_CHAIN_ID).hex()


def post_and_poll(client: Connection, tx: Tx, request: bytes) -> None:
    assert b"pending" in client.ask(request)
    while b'"confirmed"' not in get(client, f"/tx/0x{tx.hash.hex()}"):
        continue


def post_and_wait(client: Connection, tx: Tx, request: bytes) -> None:
    assert b"pending" in client.ask(request)
    assert b'"confirmed"' in get(client, f"/tx/0x{tx.hash.hex()}?wait=5")


def raw_and_poll(client: Connection, tx: Tx, request: bytes) -> None:
    assert b"result" in client.ask(request)
    question = calling("eth_getTransactionReceipt", "0x" + tx.hash.hex())
    while b"blockHash" not in client.ask(question):
        continue


def raw_sync(client: Connection, tx: Tx, request: bytes) -> None:
    assert b"blockHash" in client.ask(request)


def by_rest(tx: Tx) -> bytes:
    return submission(tx)


def by_call(method: str) -> Callable[[Tx], bytes]:
    return lambda tx: calling(method, raw(tx))


WAYS = {
    "POST /tx, then GET /tx until confirmed": (by_rest, post_and_poll),
    "POST /tx, then GET /tx?wait": (by_rest, post_and_wait),
    "eth_sendRawTransaction, then the receipt": (by_call("eth_sendRawTransaction"), raw_and_poll),
    "eth_sendRawTransactionSync": (by_call("eth_sendRawTransactionSync"), raw_sync),
}
EVENT = "POST /tx, and the event txConfirmed"


def measure(port: int, payments: Payments, count: int, way: str) -> list[float]:
    """Seconds for each payment."""
    if way == EVENT:
        return asyncio.run(measure_events(port, payments, count))
    make, confirm = WAYS[way]
    client, waits = Connection(port), []
    for _ in range(count):
        tx = payments.sign()
        request = make(tx)
        began = time.perf_counter()
        confirm(client, tx, request)
        waits.append(time.perf_counter() - began)
    client.close()
    return waits


async def measure_events(port: int, payments: Payments, count: int) -> list[float]:
    waits = []
    async with connect(f"ws://127.0.0.1:{port}/events", ping_interval=None) as events:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(count):
            tx = payments.sign()
            request, tx_hash = submission(tx), "0x" + tx.hash.hex()
            await events.send(json.dumps({"action": "subscribe", "event": "txConfirmed", "txHash": tx_hash}))
            await events.recv()
            began = time.perf_counter()
            writer.write(request)
            assert json.loads(await events.recv())["event"] == "txConfirmed"
            waits.append(time.perf_counter() - began)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
        writer.close()
    return waits


@contextmanager
def instant_node(data_dir: Path | None = None) -> Iterator[NodeProcess]:
    node = NodeProcess.start_dev("--block-time", "0", "--quiet", data_dir=data_dir)
    try:
        yield node
    finally:
        node.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.instant", description=__doc__)
    parser.add_argument("--transactions", type=int, default=300, help="of each way and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=[*WAYS, EVENT], action="append", help="only this one")
    parser.add_argument("--kept", action="store_true", help="on a chain that is kept, where each block is synced")
    arguments = parser.parse_args()
    ways = arguments.way or [*WAYS, EVENT]
    waits: dict[str, list[float]] = {way: [] for way in ways}
    ran_s = dict.fromkeys(ways, 0.0)
    with tempfile.TemporaryDirectory() as scratch, instant_node(Path(scratch) if arguments.kept else None) as node:
        port, payments = urlsplit(node.url).port or 0, Payments()
        measure(port, payments, WARM_UP, ways[0])
        for _ in range(arguments.rounds):
            for way in ways:
                before = run_time_s(node.pids())
                waits[way] += measure(port, payments, arguments.transactions, way)
                ran_s[way] += run_time_s(node.pids()) - before
    for way in ways:
        taken = sorted(1_000 * wait for wait in waits[way])
        cpu_ms = 1_000 * ran_s[way] / len(taken)
        print(
            f"{way:45} p10 {taken[len(taken) // 10]:6.2f}  p50 {statistics.median(taken):6.2f}"
            f"  p90 {taken[9 * len(taken) // 10]:6.2f} ms; the node ran {cpu_ms:.2f} ms"
        )


if __name__ == "__main__":
    main()
