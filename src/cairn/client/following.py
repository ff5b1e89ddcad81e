"""Following the chain: whole blocks from the events, and payments from the blocks."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from cairn.client.async_reads import BLOCK, CHAIN, HISTORY, pages
from cairn.client.errors import BlockNotFound, BlockNotKept, ChainChanged, ChainReverted, UnexpectedAnswer
from cairn.client.events import EventChannel
from cairn.client.models import Block, Chain, ConfirmedTransaction, Head
from cairn.client.transport import Transport, delays, path_of
from cairn.domain.answers import NewBlock

HISTORY_PAGE = 100
"""Few payments come with one block."""
REMEMBERED_BLOCKS = 1_000
"""How many of the newest blocks are remembered, to compare with the chain when its height is lower."""


EMBEDDED = "embedded"
"""The engine of a chain that has one node."""


class RevertWatch:
    """Notices every revert of a dev chain, also one during which no socket was open.

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


class BlockFollower:
    """Each block from a height on, once and in order, each the child of the one before.

    Behind a load balancer each answer may come from another node, and one of a network may be a few blocks behind the
    node that announced a block. It is asked again until it has the block. A node that makes its blocks alone
    (`EMBEDDED`) is never behind itself: a block that it does not have any more was taken back.

    `transport` and `chain` are as those of a `RevertWatch`. `on_rejoin` is called whenever a connection was lost: what
    is known of blocks that are still to come may be wrong from there on.
    """

    def __init__(
        self, transport: Transport, chain: Chain, channel: EventChannel, on_rejoin: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._reverts = RevertWatch(transport, chain)
        self._channel = channel
        self._on_rejoin = on_rejoin
        self._last: Block | None = None
        self._given: dict[int, str] = {}
        """Hashes by height, and below them that of the first one's parent."""

    async def blocks(self, from_height: int | None) -> AsyncGenerator[Block, None]:
        async with aclosing(self._channel.blocks(from_height, self._rejoin)) as announced:
            async for announcement in announced:
                block = await self._find(announcement)
                if block is None:
                    # The socket ends, too, and its reason names the height of the revert.
                    continue
                if self._last is not None and block.previous_hash != self._last.hash:
                    raise ChainChanged(f"block {block.block_height} does not follow {self._last.hash}")
                self._remember(block)
                yield block

    def _remember(self, block: Block) -> None:
        if self._last is None and block.block_height:
            self._given[block.block_height - 1] = block.previous_hash
        self._last = block
        self._given[block.block_height] = block.hash
        if len(self._given) > REMEMBERED_BLOCKS:
            del self._given[next(iter(self._given))]

    async def _find(self, announced: NewBlock) -> Block | None:
        """None if it was taken back since. Raises `BlockNotKept` if the node no longer keeps it."""
        for delay_s in delays():
            block = await self._find_named(announced.hash)
            if block is None:
                # By height a node also tells that it does not keep the block any more.
                block = await self._find_named(announced.block_height)
            elif (block.hash, block.block_height) != (announced.hash, announced.block_height):
                raise UnexpectedAnswer(f"the node was asked for block {announced.hash} and answered with {block.hash}")
            if block is not None:
                return block if block.hash == announced.hash else None
            chain = await self._transport.get("/chain", CHAIN)
            if chain.engine == EMBEDDED or self._reverts.has_missed(chain):
                return None
            if self._last is not None:
                self._check_behind(chain.head, self._last)
            await asyncio.sleep(delay_s)
        raise AssertionError("the delays never end")

    async def _find_named(self, name: str | int) -> Block | None:
        """None if the node that answers does not have it yet, or no longer because of a revert."""
        try:
            return await self._transport.get(path_of("block", name), BLOCK)
        except BlockNotKept:
            raise
        except BlockNotFound:
            return None

    async def _rejoin(self, reverted_to: int | None) -> int | None:
        """Return once the node has the block that was seen last. Raises `ChainChanged` when it never will."""
        self._on_rejoin()
        last = self._last
        for delay_s in delays():
            chain, reverted_to = await self._reverts.look(reverted_to)
            if last is None:
                break
            if reverted_to is not None and reverted_to < last.block_height:
                await self._check_same(reverted_to)
                raise ChainReverted(reverted_to)
            if chain.head.block_height < last.block_height:
                self._check_behind(chain.head, last)
            elif await self._check_same(last.block_height):
                break
            await asyncio.sleep(delay_s)
        return reverted_to

    async def _check_same(self, height: int) -> bool:
        """Whether the node that answers has the block. Raises `ChainChanged` when it is not the one that was given."""
        block = await self._find_named(height)
        if block is None:
            return False
        given = self._given.get(height, block.hash)
        if block.hash != given:
            raise ChainChanged(f"block {height} is {block.hash} now, and was {given}")
        return True

    def _check_behind(self, head: Head, last: Block) -> None:
        """Check that the lower head belongs to the same chain, on a node that is behind. Raises `ChainChanged`.

        Time never runs backwards on a chain: a block that is lower and later is of another one. One that was made
        within the same second is not later; then only its hash tells.
        """
        if head.timestamp > last.timestamp or self._given.get(head.block_height, head.hash) != head.hash:
            raise ChainChanged(f"the chain is at block {head.block_height} again, and was at {last.block_height}")


class PaymentFollower:
    """Each transfer to one address, once and in order, when it is confirmed."""

    def __init__(self, transport: Transport, address: str) -> None:
        self._transport = transport
        self._address = address.lower()
        self._due: deque[ConfirmedTransaction] = deque()
        """Read already, the oldest first."""
        self._known_height = -1
        """Up to here the history has been read."""

    async def payments(self, blocks: AsyncGenerator[Block, None]) -> AsyncGenerator[ConfirmedTransaction, None]:
        async with aclosing(blocks):
            async for block in blocks:
                if block.transactions and block.block_height > self._known_height:
                    await self._read_history(block.block_height)
                while self._due and self._due[0].block_height <= block.block_height:
                    yield self._due.popleft()

    def forget(self) -> None:
        """Read the history again for the next block: what was read ahead may have been taken back."""
        self._due.clear()
        self._known_height = -1

    async def _read_history(self, from_height: int) -> None:
        """From its newest end down to `from_height`: a replay reads it once, not once for each block."""
        path, heights = path_of("account", self._address, "txs"), []
        found = pages(self._transport, path, HISTORY, {}, page_size=HISTORY_PAGE, least_height=from_height)
        async with aclosing(found) as history:
            async for page in history:
                heights.append(page.height or from_height)
                payments = [tx for tx in page.items if tx.to == self._address and tx.block_height >= from_height]
                self._due.extendleft(payments)
                if page.items and page.items[-1].block_height < from_height:
                    break
        # Blocks that came after the first page was made are not in it.
        self._known_height = heights[0]
