"""Following a network behind a load balancer: each answer comes from another node, and some are blocks behind."""

import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TypeVar

import msgspec
import pytest
from msgspec.json import Decoder

from cairn.client import Account, AsyncWallet
from cairn.client.async_reads import pages
from cairn.client.errors import BlockNotFound, BlockNotKept, NodeUnreachable, TxDropped, TxNotFound
from cairn.client.events import EventChannel, Rejoin
from cairn.client.following import BlockFollower, PaymentFollower
from cairn.client.models import (
    AccountState,
    Block,
    Chain,
    ConfirmedTransaction,
    Head,
    MempoolSize,
    Payment,
    PendingTransaction,
    Transaction,
)
from cairn.client.transport import ListPage, Query, Transport
from cairn.domain.answers import NewBlock
from tests.support.pool_node import PoolNode
from tests.support.virtual_time import virtual_loop
from tests.unit.client.test_following import chain_of

pytestmark = pytest.mark.virtual_time

T = TypeVar("T")
SHOP = "0x" + "51" * 20
BUYER = "0x" + "b0" * 20
BLOCK_S = 1.0
"""Between two blocks, of virtual time."""


def paying_chain(count: int, rng: random.Random) -> tuple[list[Block], list[ConfirmedTransaction]]:
    """Blocks, most of which pay the shop, and its payments in their order."""
    paid: list[ConfirmedTransaction] = []
    blocks = []
    for block in chain_of("aa", count):
        payments = [
            ConfirmedTransaction(
                tx_hash=f"0x{block.block_height:032x}{index:032x}",
                sender=BUYER,
                to=SHOP,
                value=1,
                nonce=0,
                gas=21_000,
                gas_price=1,
                block_height=block.block_height,
                block_hash=block.hash,
                transaction_index=index,
                fee=21_000,
            )
            for index in range(rng.choice([0, 1, 1, 3]) if block.block_height else 0)
        ]
        paid += payments
        hashes = [tx.tx_hash for tx in payments]
        # A second apart: by the time, too, a follower tells whether a node is behind or has another chain.
        blocks.append(msgspec.structs.replace(block, transactions=hashes, timestamp=block.block_height))
    return blocks, paid


def payment_of(tx: ConfirmedTransaction) -> Payment:
    return Payment(
        tx_hash=tx.tx_hash,
        block_height=tx.block_height,
        transaction_index=tx.transaction_index,
        sender=tx.sender,
        to=tx.to,
        value=tx.value,
    )


class Balancer(Transport):
    """Nodes that have made the blocks so far, but for the newest few."""

    def __init__(self, blocks: list[Block], paid: list[ConfirmedTransaction], rng: random.Random) -> None:
        super().__init__("http://127.0.0.1:1", timeout_s=None, silence_timeout_s=1.0, tls=None)
        self._blocks = blocks
        self.paid = paid
        self._rng = rng
        self.most_behind = 3
        self.oldest = 0

    @property
    def made(self) -> int:
        """The network's latest height."""
        return min(len(self._blocks) - 1, int(virtual_loop().time() / BLOCK_S))

    def _head(self) -> int:
        """The latest height of the node that answers now."""
        return max(0, self.made - self._rng.randint(0, self.most_behind))

    async def get(
        self, path: str, answer: Decoder[T], query: Query | None = None, *, deadline: object = None, held_s: float = 0.0
    ) -> T:
        head = self._blocks[self._head()]
        name = path.removeprefix("/block/")
        if path == "/chain":
            shown = Head(head.block_height, head.hash, head.timestamp)
            return answer.decode(
                msgspec.json.encode(Chain(1337, 1, 1, 1.0, 256, "cometbft", "1", shown, MempoolSize(0, 0, 1), None))
            )
        for block in self._blocks[self.oldest : head.block_height + 1]:
            if name in (block.hash, str(block.block_height)):
                return answer.decode(msgspec.json.encode(block))
        if name.isdecimal() and int(name) < self.oldest:
            raise BlockNotKept(f"the oldest is {self.oldest}")
        raise BlockNotFound(f"the latest is {head.block_height}")

    async def get_page(self, path: str, answer: Decoder[list[T]], query: Mapping[str, str | int]) -> ListPage[T]:
        head, after = self._head(), str(query.get("after", "1000000-0"))
        before = tuple(map(int, after.split("-")))
        found = [
            tx
            for tx in reversed(self.paid)
            if tx.block_height <= head and (tx.block_height, tx.transaction_index) < before
        ]
        shown = found[: self._rng.randint(1, 4)]
        cursor = f"{shown[-1].block_height}-{shown[-1].transaction_index}" if len(found) > len(shown) else None
        return ListPage(answer.decode(msgspec.json.encode(shown)), cursor, head)


class Announcements(EventChannel):
    """Announces each block when the network makes it. Now and then the socket is lost."""

    def __init__(self, nodes: Balancer, blocks: list[Block], rng: random.Random) -> None:
        super().__init__(nodes.url, timeout_s=1.0, outage_timeout_s=None, silence_timeout_s=1.0, tls=None)
        self._nodes = nodes
        self._blocks = blocks
        self._rng = rng

    async def blocks(self, from_height: int | None, rejoin: Rejoin) -> AsyncGenerator[NewBlock, None]:
        for block in self._blocks[from_height or 0 :]:
            while self._nodes.made < block.block_height:
                await virtual_sleep(0.01)
            yield NewBlock(block.block_height, block.hash)
            if self._rng.random() < 0.2:
                await rejoin(None)

    async def payments(
        self, addresses: Sequence[str], from_height: int | None, rejoin: Rejoin
    ) -> AsyncGenerator[Payment | NewBlock, None]:
        async with aclosing(self.blocks(from_height, rejoin)) as blocks:
            async for announced in blocks:
                yield announced
                for tx in self._nodes.paid:
                    if tx.block_height == announced.block_height:
                        yield payment_of(tx)


async def virtual_sleep(delay_s: float) -> None:
    done = virtual_loop().create_future()
    virtual_loop().call_later(delay_s, done.set_result, None)
    await done


@pytest.mark.parametrize("seed", range(40))
async def test_nodes_behind_by_up_to_three_blocks_lose_no_block_and_no_payment(seed: int) -> None:
    rng = random.Random(seed)
    blocks, paid = paying_chain(12, rng)
    nodes = Balancer(blocks, paid, rng)
    start = await nodes.get("/chain", Decoder(Chain))
    follower = BlockFollower(nodes, start, Announcements(nodes, blocks, rng))
    assert [block.block_height async for block in follower.blocks(0)] == list(range(12))
    payments = PaymentFollower(nodes, start, Announcements(nodes, blocks, rng))
    async with aclosing(payments.payments([SHOP], 0, "in")) as told:
        assert [payment.tx_hash async for payment in told] == [tx.tx_hash for tx in paid]


async def test_a_block_that_no_node_keeps_any_more_is_an_error() -> None:
    rng = random.Random(1)
    blocks, paid = paying_chain(10, rng)
    nodes = Balancer(blocks, paid, rng)
    await virtual_sleep(20 * BLOCK_S)
    nodes.oldest = 5
    start = await nodes.get("/chain", Decoder(Chain))
    follower = BlockFollower(nodes, start, Announcements(nodes, blocks, rng))
    with pytest.raises(BlockNotKept):
        await anext(follower.blocks(2))


async def test_a_list_whose_nodes_all_fall_behind_ends_with_an_error_at_its_time_limit() -> None:
    rng = random.Random(1)
    blocks, paid = paying_chain(10, rng)
    nodes = Balancer(blocks, paid, rng)
    nodes.timeout_s = 30.0
    await virtual_sleep(20 * BLOCK_S)
    with pytest.raises(NodeUnreachable, match="block 12 was seen before"):
        await anext(pages(nodes, "/account/x/txs", Decoder(list[ConfirmedTransaction]), {}, least_height=12))
    assert virtual_loop().time() < 60


class LaggingNode(PoolNode):
    """One of a network. It learns of the payments that others accepted only after a while."""

    def __init__(self) -> None:
        super().__init__()
        self.knows_from_s = 0.0

    async def chain(self) -> Chain:
        return msgspec.structs.replace(await super().chain(), engine="cometbft")

    async def account(self, address: str) -> AccountState:
        state = await super().account(address)
        return state if self._knows() else msgspec.structs.replace(state, nonce=0, pending_nonce=0)

    async def transaction(self, tx_hash: str) -> Transaction:
        if not self._knows() and tx_hash not in self.dropped:
            raise TxNotFound("it is not known here")
        return await super().transaction(tx_hash)

    def _knows(self) -> bool:
        return virtual_loop().time() >= self.knows_from_s


async def test_a_node_that_does_not_know_a_payment_yet_gives_its_nonce_to_no_other() -> None:
    node = LaggingNode()
    wallet = AsyncWallet(node, Account.dev(0))
    await wallet.send(SHOP, 1)
    node.mine()
    node.knows_from_s = 10.0
    await wallet.send(SHOP, 2)
    assert virtual_loop().time() >= 10.0
    node.mine()
    assert [(tx.nonce, tx.value) for tx in node.confirmed] == [(0, 1), (1, 2)]
    node.knows_from_s = 10_000.0
    with pytest.raises(NodeUnreachable, match="accepted before"):
        await wallet.send(SHOP, 3)
    await wallet.close()


async def test_the_nonce_of_a_dropped_payment_is_used_again() -> None:
    node = LaggingNode()
    wallet = AsyncWallet(node, Account.dev(0))
    node.dropped.add(await wallet.send(SHOP, 1))
    with pytest.raises(TxDropped):
        await node.transaction(next(iter(node.dropped)))
    node.pool = PoolNode().pool
    await wallet.send(SHOP, 2)
    node.mine()
    assert [(tx.nonce, tx.value) for tx in node.confirmed] == [(0, 2)]
    await wallet.close()


class EvictingNode(LaggingNode):
    """It holds nothing that it accepted before, and another node of its network may."""

    async def transaction(self, tx_hash: str) -> Transaction:
        return PendingTransaction(
            tx_hash=tx_hash,
            sender="0x",
            to="0x",
            value=1,
            nonce=0,
            gas=21_000,
            gas_price=1,
            not_held="evicted",
        )


async def test_the_nonce_of_a_payment_that_no_node_holds_any_more_is_used_again_in_the_end() -> None:
    node = EvictingNode()
    wallet = AsyncWallet(node, Account.dev(0))
    await wallet.send(SHOP, 1)
    node.pool = PoolNode().pool
    await wallet.send(SHOP, 2)
    assert 30.0 < virtual_loop().time() < 90.0
    node.mine()
    assert [(tx.nonce, tx.value) for tx in node.confirmed] == [(0, 2)]
    await wallet.close()


async def test_a_payment_that_the_node_no_longer_holds_and_another_confirms_keeps_its_nonce() -> None:
    node = EvictingNode()
    wallet = AsyncWallet(node, Account.dev(0))
    await wallet.send(SHOP, 1)
    node.mine()
    node.knows_from_s = 10.0
    await wallet.send(SHOP, 2)
    node.mine()
    assert [(tx.nonce, tx.value) for tx in node.confirmed] == [(0, 1), (1, 2)]
    await wallet.close()
