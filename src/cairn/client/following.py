"""Following the chain: whole blocks and payments, from the events."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from cairn.client.async_reads import BLOCK, CHAIN, Direction
from cairn.client.errors import BlockNotFound, BlockNotKept, ChainChanged, ChainReverted, UnexpectedAnswer
from cairn.client.events import EventChannel
from cairn.client.models import Block, Chain
from cairn.client.prover import Prover
from cairn.client.transport import Transport, delays, path_of
from cairn.domain.answers import NewBlock, Payment

REMEMBERED_BLOCKS = 1_000
"""How many of the newest blocks are remembered, to compare with the chain when its height is lower."""
EMBEDDED = "embedded"
"""The engine of a chain that has one node."""


class RevertWatch:
    """Notices every revert of a dev chain, including one during which no socket was open.

    `transport` is one whose time limit is that of an outage: a node that restarts is waited for. `chain` is what the
    node said before the first socket was opened.
    """

    def __init__(self, transport: Transport, chain: Chain) -> None:
        self._transport = transport
        self._number = _reverts_of(chain)

    async def look(self, told: int | None) -> tuple[Chain, int | None]:
        """The chain now, and the lowest height that it was reverted to since the last look; `told` is one of them."""
        chain = await self._transport.get("/chain", CHAIN)
        missed, self._number = _reverts_of(chain) - self._number, _reverts_of(chain)
        if chain.last_revert is None or missed <= 0:
            # No revert since then, or another chain, whose count starts again.
            return chain, told
        # Of several reverts, only the height of the last is known.
        height = chain.last_revert.block_height if missed == 1 else 0
        return chain, height if told is None else min(height, told)

    def has_missed(self, chain: Chain) -> bool:
        """Whether there was a revert since the last look."""
        return _reverts_of(chain) > self._number

    async def refuse(self, told: int | None) -> None:
        """Raise `ChainReverted` if there was one: confirmations may be void, and pending transactions gone."""
        _, reverted_to = await self.look(told)
        if reverted_to is not None:
            raise ChainReverted(reverted_to)


def _reverts_of(chain: Chain) -> int:
    return 0 if chain.last_revert is None else chain.last_revert.number


class SeenChain:
    """The newest blocks that a follower has heard of, by which it knows the chain again after a lost connection.

    `transport` and `chain` are as those of a `RevertWatch`.
    """

    def __init__(self, transport: Transport, chain: Chain) -> None:
        self._transport = transport
        self._reverts = RevertWatch(transport, chain)
        self._hashes: dict[int, str] = {}
        """By height."""
        self._newest: int | None = None
        self._timestamp: int | None = None
        """Of the newest block, if it is known."""

    def remember(self, height: int, block_hash: str, timestamp: int | None = None) -> None:
        self._newest, self._timestamp = height, timestamp
        self._hashes[height] = block_hash
        if len(self._hashes) > REMEMBERED_BLOCKS:
            del self._hashes[next(iter(self._hashes))]

    async def rejoin(self, reverted_to: int | None, given: int | None) -> int | None:
        """Return once the node has the newest block. Raises `ChainChanged` when it never will.

        `given` is the newest height of which something was given to the user. Raises `ChainReverted` when that is void;
        otherwise returns the height of a revert.
        """
        for delay_s in delays():
            chain, reverted_to = await self._reverts.look(reverted_to)
            if reverted_to is not None:
                if given is not None and reverted_to < given:
                    await self._check_same(reverted_to)
                    raise ChainReverted(reverted_to)
                self._forget_above(reverted_to)
            if self._newest is None:
                break
            if chain.head.block_height < self._newest:
                self.check_behind(chain)
            elif await self._check_same(self._newest):
                break
            await asyncio.sleep(delay_s)
        return reverted_to

    def is_taken_back(self, chain: Chain) -> bool:
        """Whether a block that the node announced and does not have, as `chain` says, was taken back."""
        return chain.engine == EMBEDDED or self._reverts.has_missed(chain)

    def check_behind(self, chain: Chain) -> None:
        """Check that the lower head belongs to the same chain, on a node that is behind. Raises `ChainChanged`.

        Time never runs backwards on a chain: a block that is lower and later is of another one. One that was made
        within the same second is not later; then only its hash tells.
        """
        head = chain.head
        is_later = self._timestamp is not None and head.timestamp > self._timestamp
        # Without the time of the newest block: a node that is alone is never behind what it announced.
        is_later |= self._timestamp is None and chain.engine == EMBEDDED
        if self._newest is not None and (is_later or self._hashes.get(head.block_height, head.hash) != head.hash):
            raise ChainChanged(f"the chain is at block {head.block_height} again, and was at {self._newest}")

    async def _check_same(self, height: int) -> bool:
        """Whether the node that answers has the block. Raises `ChainChanged` when it is not the one that was seen."""
        block = await find_block(self._transport, height)
        if block is None:
            return False
        seen = self._hashes.get(height, block.hash)
        if block.hash != seen:
            raise ChainChanged(f"block {height} is {block.hash} now, and was {seen}")
        return True

    def _forget_above(self, height: int) -> None:
        if self._newest is not None and self._newest > height:
            self._hashes = {seen: block_hash for seen, block_hash in self._hashes.items() if seen <= height}
            self._newest, self._timestamp = (height, None) if height in self._hashes else (None, None)


async def find_block(transport: Transport, name: str | int) -> Block | None:
    """None if the node that answers does not have it yet, or no longer because of a revert."""
    try:
        return await transport.get(path_of("block", name), BLOCK)
    except BlockNotKept:
        raise
    except BlockNotFound:
        return None


class BlockFollower:
    """Each block from a height on, once and in order, each the child of the one before.

    Behind a load balancer each answer may come from another node, and one of a network may be a few blocks behind the
    node that announced a block. It is asked again until it has the block. A node that makes its blocks alone
    (`EMBEDDED`) is never behind itself: a block that it does not have any more was taken back.

    `transport` and `chain` are as those of a `RevertWatch`.
    """

    def __init__(self, transport: Transport, chain: Chain, channel: EventChannel, prover: Prover | None = None) -> None:
        self._transport = transport
        self._prover = prover
        self._seen = SeenChain(transport, chain)
        self._channel = channel
        self._last: Block | None = None

    async def blocks(self, from_height: int | None) -> AsyncGenerator[Block, None]:
        async with aclosing(self._channel.blocks(from_height, self._rejoin)) as announced:
            async for announcement in announced:
                block = await self._find(announcement)
                if block is None:
                    # The socket ends, too, and its reason names the height of the revert.
                    continue
                if self._last is not None and block.previous_hash != self._last.hash:
                    raise ChainChanged(f"block {block.block_height} does not follow {self._last.hash}")
                if self._last is None and block.block_height:
                    self._seen.remember(block.block_height - 1, block.previous_hash)
                self._seen.remember(block.block_height, block.hash, block.timestamp)
                if self._prover is not None:
                    await self._prover.check_block(block)
                self._last = block
                yield block

    async def _find(self, announced: NewBlock) -> Block | None:
        """None if it was taken back since. Raises `BlockNotKept` if the node no longer keeps it."""
        for delay_s in delays():
            block = await find_block(self._transport, announced.hash)
            if block is None:
                # By height a node also tells that it does not keep the block any more.
                block = await find_block(self._transport, announced.block_height)
            elif (block.hash, block.block_height) != (announced.hash, announced.block_height):
                raise UnexpectedAnswer(f"the node was asked for block {announced.hash} and answered with {block.hash}")
            if block is not None:
                return block if block.hash == announced.hash else None
            chain = await self._transport.get("/chain", CHAIN)
            if self._seen.is_taken_back(chain):
                return None
            if chain.head.block_height < announced.block_height:
                self._seen.check_behind(chain)
            # Otherwise it has got the block since, or another node answers.
            await asyncio.sleep(delay_s)
        raise AssertionError("the delays never end")

    async def _rejoin(self, reverted_to: int | None) -> int | None:
        return await self._seen.rejoin(reverted_to, None if self._last is None else self._last.block_height)


class PaymentFollower:
    """Each payment of some addresses from a height on, once and in order.

    `transport` and `chain` are as those of a `RevertWatch`.
    """

    def __init__(self, transport: Transport, chain: Chain, channel: EventChannel, prover: Prover | None = None) -> None:
        self._prover = prover
        self._seen = SeenChain(transport, chain)
        # A socket that is lost before its first block is replaced by one on the same chain, too.
        self._seen.remember(chain.head.block_height, chain.head.hash)
        self._channel = channel
        self._given: int | None = None
        """The height of the last one that was given."""

    async def payments(
        self, addresses: Sequence[str], from_height: int | None, direction: Direction
    ) -> AsyncGenerator[Payment, None]:
        async with aclosing(self._events(addresses, from_height, direction)) as events:
            async for event in events:
                if isinstance(event, Payment):
                    yield event

    async def payments_and_blocks(
        self, addresses: Sequence[str], from_height: int | None, direction: Direction
    ) -> AsyncGenerator[Payment | NewBlock, None]:
        """The payments, and each new block: all payments of the blocks below it have come."""
        async with aclosing(self._events(addresses, from_height, direction)) as events:
            async for event in events:
                if self._prover is not None and isinstance(event, NewBlock):
                    await self._prover.check_announced(event)
                yield event

    async def _events(
        self, addresses: Sequence[str], from_height: int | None, direction: Direction
    ) -> AsyncGenerator[Payment | NewBlock, None]:
        """Payments that are proven, and blocks that are not yet: on a network that takes until the next one."""
        followed = {address.lower() for address in addresses}
        async with aclosing(self._channel.payments(addresses, from_height, self._rejoin)) as events:
            async for event in events:
                if isinstance(event, NewBlock):
                    self._seen.remember(event.block_height, event.hash)
                    yield event
                elif direction == "both" or (event.to if direction == "in" else event.sender) in followed:
                    if self._prover is not None:
                        await self._prover.check_payment(event)
                    self._given = event.block_height
                    yield event

    async def _rejoin(self, reverted_to: int | None) -> int | None:
        return await self._seen.rejoin(reverted_to, self._given)
