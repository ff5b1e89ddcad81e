"""What a follower makes of a node that comes back: the same chain, one that is behind, or another one."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

import msgspec
import pytest
from msgspec.json import Decoder

from cairn.client import following
from cairn.client.errors import ChainChanged, ChainReverted
from cairn.client.events import EventChannel, Rejoin
from cairn.client.following import BlockFollower, PaymentFollower
from cairn.client.models import Block, Chain, Head, MempoolSize, Revert
from cairn.client.transport import Query, Transport
from cairn.domain.answers import NewBlock, Payment
from tests.support.virtual_time import virtual_loop

pytestmark = pytest.mark.virtual_time

T = TypeVar("T")
SECOND = 1_700_000_000
PATIENCE_S = 3_600
"""Of virtual time."""


def chain_of(seed: str, count: int, timestamp: int = SECOND) -> list[Block]:
    """Blocks of one second, from genesis on, which every chain shares."""
    hashes = ["0x" + "00" * 32, *(f"0x{seed if height else 'ge'}{height:062x}" for height in range(count))]
    return [
        Block(
            block_height=height,
            hash=hashes[height + 1],
            previous_hash=hashes[height],
            timestamp=timestamp,
            transactions_root="0x",
            receipts_root="0x",
            state_root="0x",
            mix_hash="0x",
            transaction_count=0,
            gas_used=0,
            proposer="0x",
            chain_id=1337,
            gas_limit=210_000_000,
            base_fee_per_gas=10**9,
            transactions=[],
        )
        for height in range(count)
    ]


def branched(chain: Sequence[Block], height: int, count: int) -> list[Block]:
    """A chain with the blocks of `chain` up to that height, and others from there on."""
    others = chain_of("bb", count, SECOND + 1)[height + 1 :]
    if others:
        others[0] = msgspec.structs.replace(others[0], previous_hash=chain[height].hash)
    return [*chain[: height + 1], *others]


class Node(Transport):
    """Holds one chain, and after a while another one."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        super().__init__("http://127.0.0.1:1", timeout_s=None, silence_timeout_s=1.0, tls=None)
        self.blocks = blocks
        self.later: list[tuple[float, Sequence[Block]]] = []
        self.last_revert: Revert | None = None

    def chain(self) -> Chain:
        head = self.blocks[-1]
        shown = Head(head.block_height, head.hash, head.timestamp)
        return Chain(1337, 1, 1, 1.0, 256, "embedded", "1", shown, MempoolSize(0, 0, 1), self.last_revert)

    async def get(
        self,
        path: str,
        answer: Decoder[T],
        query: Query | None = None,
        *,
        deadline: object = None,
        held_s: float = 0.0,
    ) -> T:
        while self.later and virtual_loop().time() >= self.later[0][0]:
            self.blocks = self.later.pop(0)[1]
        found: object
        if path == "/chain":
            found = self.chain()
        else:
            name = path.removeprefix("/block/")
            [found] = [block for block in self.blocks if name in (block.hash, str(block.block_height))]
        return answer.decode(msgspec.json.encode(found))


class Channel(EventChannel):
    """Tells of what the node holds, and then of what it holds after an outage."""

    def __init__(self, node: Node, after: Sequence[Block], revert: Revert | None = None) -> None:
        super().__init__(node.url, timeout_s=1.0, outage_timeout_s=None, silence_timeout_s=1.0, tls=None)
        self._node = node
        self._after = after
        self._revert = revert

    async def blocks(self, from_height: int | None, rejoin: Rejoin) -> AsyncGenerator[NewBlock, None]:
        told = from_height or 0
        for block in self._node.blocks[told:]:
            yield NewBlock(block.block_height, block.hash)
        told = len(self._node.blocks)
        self._node.blocks = self._after
        self._node.last_revert = self._revert
        reverted_to = await rejoin(None)
        if reverted_to is not None:
            told = min(told, reverted_to + 1)
        for block in self._node.blocks[told:]:
            yield NewBlock(block.block_height, block.hash)

    async def payments(
        self, addresses: Sequence[str], from_height: int | None, rejoin: Rejoin
    ) -> AsyncGenerator[Payment | NewBlock, None]:
        """One payment in each block, the oldest first; blocks only when they are new."""
        replayed = len(self._node.blocks)
        async with aclosing(self.blocks(from_height, rejoin)) as blocks:
            async for block in blocks:
                if block.block_height >= replayed:
                    yield block
                yield payment_in(block.block_height)


SHOP = "0x" + "51" * 20


def payment_in(height: int) -> Payment:
    return Payment(tx_hash=f"0x{height:064x}", block_height=height, transaction_index=0, sender="0x", to=SHOP, value=1)


async def paid(node: Node, after: Sequence[Block], from_height: int = 0, revert: Revert | None = None) -> list[int]:
    follower = PaymentFollower(node, node.chain(), Channel(node, after, revert))
    async with asyncio.timeout(PATIENCE_S):
        return [payment.block_height async for payment in follower.payments([SHOP], from_height, "in")]


async def test_payments_go_on_with_the_same_chain() -> None:
    chain = chain_of("aa", 9)
    assert await paid(Node(chain[:6]), chain, 2) == list(range(2, 9))


async def test_new_blocks_come_between_the_payments_for_those_who_ask() -> None:
    chain = chain_of("aa", 8)
    node = Node(chain[:6])
    follower = PaymentFollower(node, node.chain(), Channel(node, chain))
    events = [event async for event in follower.payments_and_blocks([SHOP], 4, "in")]
    new = [NewBlock(block.block_height, block.hash) for block in chain[6:]]
    assert events == [payment_in(4), payment_in(5), new[0], payment_in(6), new[1], payment_in(7)]


@pytest.mark.parametrize("count", [2, 6, 9])
async def test_payments_of_another_chain_raise_chain_changed(count: int) -> None:
    """Also when it is lower and not later: a node that is alone is never behind."""
    node = Node(chain_of("aa", 6))
    with pytest.raises(ChainChanged) as changed:
        await paid(node, chain_of("bb", count))
    assert not isinstance(changed.value, ChainReverted)


async def test_payments_that_a_revert_took_back_raise_chain_reverted() -> None:
    chain = chain_of("aa", 6)
    with pytest.raises(ChainReverted) as reverted:
        await paid(Node(chain), branched(chain, 2, 9), revert=Revert(1, 2))
    assert reverted.value.height == 2


async def test_payments_below_a_revert_go_on_above_it() -> None:
    """The chain was higher when it was looked at, but nothing of what was taken back was given."""
    chain = chain_of("aa", 6)
    node = Node(chain)
    channel = Channel(node, branched(chain, 3, 8), Revert(1, 3))
    follower = PaymentFollower(node, node.chain(), channel)
    node.blocks = chain[:3]
    async with asyncio.timeout(PATIENCE_S):
        given = [payment.block_height async for payment in follower.payments([SHOP], 0, "both")]
    assert given == [0, 1, 2, 3, 4, 5, 6, 7]


async def followed(node: Node, after: Sequence[Block], from_height: int = 0, revert: Revert | None = None) -> list[int]:
    follower = BlockFollower(node, node.chain(), Channel(node, after, revert))
    async with asyncio.timeout(PATIENCE_S):
        return [block.block_height async for block in follower.blocks(from_height)]


@pytest.mark.parametrize("from_height", [0, 1, 2])
async def test_another_chain_of_the_same_second_is_recognised_by_its_hashes(from_height: int) -> None:
    """It stays lower for ever, and no block of it is later: only what the blocks are tells them apart."""
    with pytest.raises(ChainChanged, match="at block 1 again, and was at 3"):
        await followed(Node(chain_of("aa", 4)), chain_of("bb", 2), from_height)


async def test_another_chain_is_recognised_by_a_later_timestamp() -> None:
    node = Node(chain_of("aa", 6))
    node.later = [(60.0, chain_of("bb", 3, SECOND + 1))]
    with pytest.raises(ChainChanged, match="at block 2 again, and was at 5"):
        await followed(node, chain_of("bb", 2), from_height=5)
    assert 60 <= virtual_loop().time() < 70


async def test_a_node_that_is_behind_is_waited_for() -> None:
    chain = chain_of("aa", 6)
    node = Node(chain[:4])
    node.later = [(60.0, chain[:3]), (600.0, chain)]
    assert await followed(node, chain[:2]) == list(range(6))
    assert virtual_loop().time() >= 600


@pytest.mark.parametrize("count", [3, 4, 6, 9])
async def test_a_revert_while_disconnected_raises_chain_reverted(count: int) -> None:
    """Be it lower than before, as high, or higher: no block must come first."""
    chain = chain_of("aa", 6)
    with pytest.raises(ChainReverted) as reverted:
        await followed(Node(chain), branched(chain, 2, count), revert=Revert(1, 2))
    assert reverted.value.height == 2
    assert virtual_loop().time() == 0


async def test_after_several_reverts_while_disconnected_the_height_is_0() -> None:
    chain = chain_of("aa", 6)
    with pytest.raises(ChainReverted) as reverted:
        await followed(Node(chain), branched(chain, 1, 4), revert=Revert(2, 3))
    assert reverted.value.height == 0


async def test_a_revert_above_the_given_blocks_is_not_raised() -> None:
    chain = chain_of("aa", 6)
    assert await followed(Node(chain), branched(chain, 5, 8), revert=Revert(1, 5)) == list(range(8))
    node = Node(chain)
    node.last_revert = Revert(3, 1)
    assert await followed(node, chain_of("aa", 8), revert=Revert(3, 1)) == list(range(8))


@pytest.mark.parametrize("revert", [None, Revert(1, 2), Revert(3, 2)])
async def test_another_chain_raises_chain_changed_and_not_reverted(revert: Revert | None) -> None:
    """Whatever became of it before anybody looked."""
    node = Node(chain_of("aa", 6))
    node.last_revert = Revert(2, 2)
    with pytest.raises(ChainChanged) as changed:
        await followed(node, chain_of("bb", 4), revert=revert)
    assert not isinstance(changed.value, ChainReverted)


async def test_only_the_newest_block_hashes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "REMEMBERED_BLOCKS", 3)
    follower = BlockFollower(node := Node(chain_of("aa", 9)), node.chain(), Channel(node, node.blocks))
    async for block in follower.blocks(0):
        last = block.block_height
    assert sorted(follower._seen._hashes) == [last - 2, last - 1, last] == [6, 7, 8]
