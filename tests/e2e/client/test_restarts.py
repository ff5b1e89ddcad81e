"""The node goes away and comes back while a client follows it, sends to it and waits: nothing is missed or doubled."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cairn.client import Account, AsyncClient, Confirmed
from cairn.client.errors import ChainChanged
from cairn.client.models import Block
from tests.e2e.client.conftest import patient
from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.ports import free_ports

TO = Account.dev(9).address
PAYMENTS = 45
KILLS = 2


def start(data_dir: Path, port: int) -> NodeProcess:
    args = ("--port", str(port), "--data-dir", str(data_dir), "--block-time", "0.01", "--workers", "2")
    node = NodeProcess.start(("dev", *args))
    node.wait_ready()
    return node


def port_of(node: NodeProcess) -> int:
    port = urlsplit(node.url).port
    assert port is not None
    return port


class Watched:
    """Blocks and payments that a client is told of, from the first block on."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.values: list[int] = []

    async def follow_blocks(self, client: AsyncClient) -> None:
        """Until all payments are in."""
        held = 0
        async with aclosing(client.blocks(from_height=0)) as blocks:
            async for block in blocks:
                self.blocks.append(block)
                held += len(block.transactions)
                if held == PAYMENTS:
                    return

    async def follow_payments(self, client: AsyncClient) -> None:
        async with aclosing(client.payments(TO, from_height=0)) as payments:
            async for payment in payments:
                self.values.append(payment.value)
                if len(self.values) == PAYMENTS:
                    return


async def pay_and_confirm(client: AsyncClient) -> list[str]:
    """Send one after the other, over the outages; then hear of each confirmation, over them as well."""
    wallet = client.wallet(Account.dev(0))
    hashes = []
    for value in range(PAYMENTS):
        hashes.append(await wallet.send(TO, value))
        await asyncio.sleep(0.05)
    outcomes = [outcome async for outcome in client.confirmations(hashes)]
    assert all(isinstance(outcome, Confirmed) for outcome in outcomes)
    assert sorted(outcome.tx_hash for outcome in outcomes) == sorted(hashes)
    return hashes


async def test_blocks_and_payments_come_once_when_the_node_is_killed(tmp_path: Path) -> None:
    [port] = free_ports(1)
    node = await asyncio.to_thread(start, tmp_path, port)
    watched = Watched()
    try:
        async with patient(node.url) as client, asyncio.TaskGroup() as tasks:
            tasks.create_task(watched.follow_blocks(client))
            tasks.create_task(watched.follow_payments(client))
            paying = tasks.create_task(pay_and_confirm(client))
            for kill in range(1, KILLS + 1):
                while len(watched.values) < kill * PAYMENTS // (KILLS + 1):
                    await asyncio.sleep(0.02)
                await asyncio.to_thread(node.close)
                node = await asyncio.to_thread(start, tmp_path, port)
        assert [block.block_height for block in watched.blocks] == list(range(len(watched.blocks)))
        for parent, child in zip(watched.blocks, watched.blocks[1:], strict=False):
            assert child.previous_hash == parent.hash
        assert [tx_hash for block in watched.blocks for tx_hash in block.transactions] == paying.result()
        assert watched.values == list(range(PAYMENTS))
    finally:
        await asyncio.to_thread(node.close)


async def test_waiting_outlives_a_restart(tmp_path: Path) -> None:
    [port] = free_ports(1)
    node = await asyncio.to_thread(start, tmp_path, port)
    try:
        async with patient(node.url) as client:
            wallet = client.wallet(Account.dev(0))
            behind = await wallet.sign(TO, 1, nonce=1)
            await client.submit(behind)
            waiting = asyncio.create_task(client.wait(behind.tx_hash, timeout_s=PATIENCE_S))
            following = asyncio.create_task(anext(client.confirmations([behind.tx_hash])))
            await asyncio.to_thread(node.close)
            sending = asyncio.create_task(wallet.send(TO, 2))
            node = await asyncio.to_thread(start, tmp_path, port)
            await sending
            tx = await waiting
            assert tx.nonce == 1
            assert await following == Confirmed(behind.tx_hash, tx.block_height)
    finally:
        await asyncio.to_thread(node.close)


async def test_another_chain_at_the_same_url_raises_chain_changed(tmp_path: Path) -> None:
    [port] = free_ports(1)
    node = await asyncio.to_thread(start, tmp_path / "first", port)
    try:
        async with patient(node.url) as client:
            for value in range(3):
                await client.wait(await client.wallet(Account.dev(0)).send(TO, value))
            blocks = client.blocks(from_height=0)
            assert [(await anext(blocks)).block_height for _ in range(4)] == [0, 1, 2, 3]
            await asyncio.to_thread(node.close)
            node = await asyncio.to_thread(start, tmp_path / "second", port)
            async with patient(node.url) as anew:
                await anew.wait(await anew.wallet(Account.dev(0)).send(TO, 1))
            with pytest.raises(ChainChanged):
                await asyncio.wait_for(anext(blocks), PATIENCE_S)
    finally:
        await asyncio.to_thread(node.close)


class Tunnel:
    """A way to the node on which connections can die without either side being told."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._pumps: set[asyncio.Task[None]] = set()
        self._connections: set[asyncio.Task[None]] = set()
        self._is_over = asyncio.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[str, None]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            self._is_over.set()
            self.freeze()
            await asyncio.gather(*self._connections)

    def freeze(self) -> None:
        """Whatever is connected stays so, and hears nothing any more; new connections work."""
        for pumping in self._pumps:
            pumping.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = asyncio.current_task()
        assert own is not None
        self._connections.add(own)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        pumps = [asyncio.create_task(pump(*ends)) for ends in ((reader, far_writer), (far_reader, writer))]
        self._pumps.update(pumps)
        done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        if any(pumping.cancelled() for pumping in done):
            await self._is_over.wait()
        for pumping in pumps:
            pumping.cancel()
        await asyncio.wait(pumps)
        for end in (writer, far_writer):
            end.transport.abort()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()


async def test_a_connection_that_died_silently_is_replaced(node: NodeProcess) -> None:
    tunnel = Tunnel(port_of(node))
    async with (
        tunnel.opened() as url,
        patient(node.url) as sender,
        AsyncClient(url, timeout_s=PATIENCE_S, silence_timeout_s=2.0) as follower,
    ):
        wallet = sender.wallet(Account.dev(0))
        head = (await sender.chain()).head.block_height
        async with aclosing(follower.blocks(from_height=head)) as blocks:
            assert (await anext(blocks)).block_height == head
            tunnel.freeze()
            for value in range(3):
                await sender.wait(await wallet.send(TO, value))
            expected = (await sender.chain()).head.block_height
            heights = [head]
            while heights[-1] < expected:
                heights.append((await asyncio.wait_for(anext(blocks), PATIENCE_S)).block_height)
            assert heights == list(range(head, expected + 1))
