"""A dev chain goes back under a client that follows it: what was taken back never mixes with what replaces it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import pytest

from cairn.client import Account, AsyncClient, Confirmed
from cairn.client.errors import ChainReverted, TxNotFound
from cairn.client.models import Block
from tests.e2e.client.conftest import patient
from tests.support.links import Link
from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.rpc import rpc

TO = Account.dev(9).address


class Chain:
    """A client, and the controls of its node; each payment is in a block of its own."""

    def __init__(self, client: AsyncClient, to: str) -> None:
        self.client = client
        self.to = to
        self.wallet = client.wallet(Account.dev(0))

    async def control(self, method: str, *params: object) -> object:
        return await asyncio.to_thread(rpc, self.client.url, method, *params)

    async def height(self) -> int:
        return (await self.client.chain()).head.block_height

    async def pay(self, *values: int) -> list[str]:
        hashes = []
        for value in values:
            hashes.append(await self.wallet.send(self.to, value))
            await self.client.wait(hashes[-1])
        return hashes


@pytest.fixture
async def chain(node: NodeProcess) -> AsyncIterator[Chain]:
    async with patient(node.url) as client:
        yield Chain(client, Account.create().address)


async def take(blocks: AsyncGenerator[Block, None], count: int) -> list[Block]:
    return [await anext(blocks) for _ in range(count)]


async def test_blocks_that_were_given_and_taken_back_are_an_error(chain: Chain) -> None:
    await chain.pay(1)
    height, snapshot = await chain.height(), await chain.control("evm_snapshot")
    async with aclosing(chain.client.blocks(from_height=height)) as blocks:
        await chain.pay(2, 3)
        kept, *void = await take(blocks, 3)
        assert await chain.control("evm_revert", snapshot) is True
        with pytest.raises(ChainReverted) as reverted:
            await anext(blocks)
    assert reverted.value.height == height == kept.block_height
    sent = await chain.pay(4, 5)
    async with aclosing(chain.client.blocks(from_height=reverted.value.height + 1)) as blocks:
        replacing = await take(blocks, 2)
    assert [block.transactions for block in replacing] == [[tx_hash] for tx_hash in sent]
    assert replacing[0].previous_hash == kept.hash
    assert not {block.hash for block in replacing} & {block.hash for block in void}


async def test_a_follower_below_the_revert_goes_on(chain: Chain) -> None:
    """Be it behind the block that is the newest then, or waiting for a height."""
    start = await chain.height()
    await chain.pay(1, 2)
    height, snapshot = await chain.height(), await chain.control("evm_snapshot")
    await chain.pay(3)
    behind, later = chain.client.blocks(start), chain.client.blocks(height + 2)
    payments = chain.client.payments(chain.to, start)
    waiting = asyncio.create_task(take(later, 1))
    [first] = await take(behind, 1)
    # With it all payments are read, also the one that is taken back.
    assert (await anext(payments)).value == 1
    assert await chain.control("evm_revert", snapshot) is True
    sent = await chain.pay(4, 5)
    given = [first, *await take(behind, height + 2 - start)]
    assert [block.block_height for block in given] == list(range(start, height + 3))
    assert [block.transactions for block in given[-2:]] == [[tx_hash] for tx_hash in sent]
    assert [(await anext(payments)).value for _ in range(3)] == [2, 4, 5]
    assert await waiting == given[-1:]
    for stream in (behind, later, payments):
        await stream.aclose()


async def test_payments_that_were_given_and_taken_back_are_an_error(chain: Chain) -> None:
    height, snapshot = await chain.height(), await chain.control("evm_snapshot")
    async with aclosing(chain.client.payments(chain.to, height)) as payments:
        await chain.pay(1)
        assert (await anext(payments)).value == 1
        assert await chain.control("evm_revert", snapshot) is True
        with pytest.raises(ChainReverted) as reverted:
            await anext(payments)
    await chain.pay(2)
    async with aclosing(chain.client.payments(chain.to, reverted.value.height + 1)) as payments:
        assert (await anext(payments)).value == 2


async def test_waits_end_when_a_revert_removes_the_transaction(chain: Chain) -> None:
    height, snapshot = await chain.height(), await chain.control("evm_snapshot")
    [confirmed] = await chain.pay(1)
    early = await chain.wallet.sign(TO, 1, nonce=(await chain.client.account(chain.wallet.address)).nonce + 2)
    await chain.client.submit(early)
    async with aclosing(chain.client.confirmations([early.tx_hash, confirmed])) as outcomes:
        assert isinstance(await anext(outcomes), Confirmed)
        # Should the revert come first, nobody has heard of that hash, and it is waited for to the end.
        waiting = asyncio.create_task(chain.client.wait(early.tx_hash, timeout_s=PATIENCE_S / 4))
        assert await chain.control("evm_revert", snapshot) is True
        with pytest.raises(ChainReverted) as reverted:
            await anext(outcomes)
    assert reverted.value.height == height
    with pytest.raises(TxNotFound):
        await waiting
    # The account's nonce is lower again, and the wallet finds that out.
    await chain.pay(2)


async def test_a_revert_while_no_socket_is_open_is_raised(node: NodeProcess, chain: Chain) -> None:
    """At once: nobody waits for the old height, or for a transaction that is gone."""
    link = Link(int(node.url.rpartition(":")[2]))
    await link.listen()
    await chain.pay(1)
    height, snapshot = await chain.height(), await chain.control("evm_snapshot")
    [confirmed] = await chain.pay(2)
    early = await chain.wallet.sign(TO, 1, nonce=(await chain.client.account(chain.wallet.address)).nonce + 2)
    await chain.client.submit(early)
    async with (
        patient(f"http://127.0.0.1:{link.port}") as far,
        aclosing(far.blocks(height)) as blocks,
        aclosing(far.confirmations([early.tx_hash, confirmed])) as outcomes,
    ):
        await take(blocks, 2)
        assert isinstance(await anext(outcomes), Confirmed)
        await link.become("cut")
        assert await chain.control("evm_revert", snapshot) is True
        await link.become("up")
        for stream in (blocks, outcomes):
            with pytest.raises(ChainReverted) as reverted:
                await anext(stream)
            assert reverted.value.height == height
    await link.close()


async def test_more_transactions_than_a_socket_follows_are_all_confirmed() -> None:
    """The node follows 1,000 at once; the one that is confirmed tells when all before it are followed."""
    with NodeProcess.start_dev("--block-time", "86400", "--workers", "2") as idle:
        async with patient(idle.url) as client:
            chain = Chain(client, Account.create().address)
            payers = [chain.client.wallet(Account.dev(number)) for number in range(1, 10)]
            confirmed = await chain.wallet.send(TO, 1)
            await chain.control("evm_mine")
            results = await asyncio.gather(*(payer.send_all([(TO, value) for value in range(120)]) for payer in payers))
            hashes = [str(result) for sent in results for result in sent]
            hashes.insert(999, confirmed)
            async with aclosing(chain.client.confirmations(hashes)) as outcomes:
                assert await anext(outcomes) == Confirmed(confirmed, 1)
                await chain.control("evm_mine")
                ended = [outcome async for outcome in outcomes]
            assert all(isinstance(outcome, Confirmed) for outcome in ended)
            assert sorted([confirmed, *(outcome.tx_hash for outcome in ended)]) == sorted(hashes)
