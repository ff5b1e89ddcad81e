"""A client with the genesis at a network: what four validators signed is believed, and blocks wait for signatures."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from cairn.client import COIN, Account, AsyncClient
from cairn.client.errors import InvalidProof
from cairn.domain.genesis import parse_genesis
from tests.support.lies import LyingServer
from tests.support.network import Network, NetworkNode
from tests.support.pace import PATIENCE_S

HERE, THERE = Account.dev(1).address.lower(), Account.dev(0)
PAYMENTS = 3


@pytest.fixture(scope="module")
def node(cometbft_tools: Path, scratch: Path) -> Iterator[NetworkNode]:
    with Network(scratch / "proven") as network:
        for each in network.nodes:
            each.launch()
        for each in network.nodes:
            each.await_ready()
        yield network.nodes[0]


def client_of(url: str, node: NetworkNode) -> AsyncClient:
    genesis = node.home / "genesis.json"
    return AsyncClient(url, timeout_s=PATIENCE_S, silence_timeout_s=PATIENCE_S, genesis=genesis)


def test_what_a_network_answers_is_proven(node: NetworkNode) -> None:
    async def follow(client: AsyncClient) -> list[int]:
        heights, paid = [], 0
        async with aclosing(client.blocks(0)) as blocks:
            async for block in blocks:
                heights.append(block.block_height)
                paid += len(block.transactions)
                if paid == PAYMENTS:
                    break
        return heights

    async def main() -> None:
        async with client_of(node.url, node) as client:
            before = (await client.account(HERE)).balance
            following = asyncio.create_task(follow(client))
            for number in range(PAYMENTS):
                tx = await client.wait(await client.wallet(THERE).send(HERE, COIN, reference=f"invoice {number}"))
                assert client.head is not None
                assert client.head.block_height >= tx.block_height, "it is final because it is signed"
            assert await following == list(range(tx.block_height + 1))
            # Until there are empty blocks, which nobody signs before the next payment.
            while (await client.chain()).head.block_height <= tx.block_height + 1:
                await asyncio.sleep(0.1)
            assert (await client.block()).block_height == tx.block_height
            assert (await client.account(HERE)).balance == before + PAYMENTS * COIN
            assert [each.reference async for each in client.history(HERE, PAYMENTS)][0] == tx.reference
            assert [block.block_height async for block in client.recent_blocks(1)] == [tx.block_height]
            assert (await client.full_block(tx.block_height)).transactions == [tx]

    asyncio.run(main())


def test_a_signature_too_few_is_refused(node: NetworkNode) -> None:
    """Each of the four has the same power: three must sign."""
    assert len(parse_genesis((node.home / "genesis.json").read_bytes()).validators) == 4
    server = LyingServer(node.url)
    path = f"/account/{HERE}/proof"
    truth = server.truth(path)
    signed = truth["certificate"]["signed"]
    signed["signatures"] = signed["signatures"][:2]
    server.lie(path, truth)

    async def read() -> None:
        async with client_of(server.url, node) as client:
            await client.account(HERE)

    with pytest.raises(InvalidProof, match="not by more than two thirds"):
        asyncio.run(read())
    server.close()
