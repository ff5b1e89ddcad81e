"""Following the chain: whole blocks from the events, and payments from the blocks."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from cairn.client.async_reads import BLOCK, CHAIN, HISTORY
from cairn.client.backoff import delays
from cairn.client.errors import BlockNotFound, ChainChanged, ChainReverted, UnexpectedAnswer
from cairn.client.events import EventChannel, NewBlock
from cairn.client.models import Block, Chain, ConfirmedTransaction, Head
from cairn.client.paging import listed
from cairn.client.transport import Transport, path_of

HISTORY_PAGE = 100
"""Few payments come with one block."""
REMEMBERED_BLOCKS = 1_000
"""How many of the newest blocks are remembered, to compare with the chain when its height is lower."""


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

    async def refuse(self, told: int | None) -> None:
        """Raises `ChainReverted`: confirmations may be void, and pending transactions gone."""
        _, reverted_to = await self.look(told)
        if reverted_to is not None:
            raise ChainReverted(reverted_to)


def _reverts_of(chain: Chain) -> int:
    return 0 if chain.last_revert is None else chain.last_revert.number


class BlockFollower:
    """Each block from a height on, once and in order, each the child of the one before.

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
        """None if a revert has removed it since. Raises `BlockNotFound` if the node no longer keeps it."""
        try:
            block = await self._transport.get(path_of("block", announced.hash), BLOCK)
            if (block.hash, block.block_height) != (announced.hash, announced.block_height):
                raise UnexpectedAnswer(f"the node was asked for block {announced.hash} and answered with {block.hash}")
            return block
        except BlockNotFound:
            head = (await self._transport.get("/chain", CHAIN)).head
            if head.block_height < announced.block_height:
                return None
            block = await self._transport.get(path_of("block", announced.block_height), BLOCK)
            return block if block.hash == announced.hash else None

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
            if chain.head.block_height >= last.block_height:
                await self._check_same(last.block_height)
                break
            self._check_behind(chain.head, last)
            await asyncio.sleep(delay_s)
        return reverted_to

    async def _check_same(self, height: int) -> None:
        """Raises `ChainChanged` when there is another block than the one that was given."""
        block = await self._transport.get(path_of("block", height), BLOCK)
        given = self._given.get(height, block.hash)
        if block.hash != given:
            raise ChainChanged(f"block {height} is {block.hash} now, and was {given}")

    def _check_behind(self, head: Head, last: Block) -> None:
        """Raises `ChainChanged` when the lower head is not one of the same chain, which is still to grow.

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
        self._known_height = from_height
        history = listed(self._transport, path_of("account", self._address, "txs"), HISTORY, {}, page_size=HISTORY_PAGE)
        async for tx in history:
            if tx.block_height < from_height:
                break
            self._known_height = max(self._known_height, tx.block_height)
            if tx.to == self._address:
                self._due.appendleft(tx)
