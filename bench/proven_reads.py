"""What a proven read costs a client beside the plain one: requests, bytes, and the client's own processor time.

    .venv/bin/cairn dev &
    .venv/bin/python -m bench.proven_reads http://127.0.0.1:8645

It pays a hundred times, with a block for each. The times are of this process alone, not of the node.
"""

import asyncio
import sys
import time
import warnings
from collections.abc import Awaitable, Callable
from unittest.mock import patch

import httpx

from cairn.client import Account, AsyncClient
from cairn.client.errors import PublicKeyWarning
from cairn.client.transport import HttpAnswer, Transport
from cairn.domain.genesis import parse_genesis

PAYMENTS = 100
REPEATED = 200

Read = Callable[[AsyncClient], Awaitable[object]]


class Counter:
    """Counts what a transport asks and gets."""

    def __init__(self) -> None:
        self.requests = self.size_bytes = 0
        self._ask = Transport.ask

    async def ask(self, transport: Transport, method: str, path: str, **more: object) -> HttpAnswer:
        answer = await self._ask(transport, method, path, **more)  # type: ignore[arg-type]
        self.requests += 1
        self.size_bytes += len(answer.response.content)
        return answer


async def measure(client: AsyncClient, read: Read) -> str:
    counter = Counter()
    await read(client)
    began = time.process_time()
    with patch.object(Transport, "ask", lambda *asked, **more: counter.ask(*asked, **more)):
        for _ in range(REPEATED):
            await read(client)
    spent_ms = 1_000 * (time.process_time() - began) / REPEATED
    return f"{counter.requests / REPEATED:.0f} requests, {counter.size_bytes / REPEATED:,.0f} bytes, {spent_ms:.1f} ms"


async def history(client: AsyncClient, address: str) -> int:
    return len([tx async for tx in client.history(address)])


async def main(url: str) -> None:
    alice, bob = Account.dev(0), Account.create().address
    async with httpx.AsyncClient() as http:
        genesis = parse_genesis((await http.get(f"{url}/genesis")).content)
    async with AsyncClient(url) as plain, AsyncClient(url, genesis=genesis) as proving:
        for number in range(PAYMENTS):
            paid = await plain.wait(await plain.wallet(alice).send(bob, number + 1))
        reads: dict[str, Read] = {
            "account": lambda client: client.account(bob),
            "transaction": lambda client: client.transaction(paid.tx_hash),
            "block": lambda client: client.block(paid.block_hash),
            f"history of {PAYMENTS} payments": lambda client: history(client, bob),
        }
        for name, read in reads.items():
            print(f"{name}: plain {await measure(plain, read)}; proven {await measure(proving, read)}")


if __name__ == "__main__":
    warnings.simplefilter("ignore", PublicKeyWarning)
    asyncio.run(main(sys.argv[1]))
