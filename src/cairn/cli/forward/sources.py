"""What is due after a cursor: a webhook for each block, or for each payment of some addresses, in the chain's order."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from cairn.cli.forward.progress import Cursor, Events, cursor_at
from cairn.cli.forward.webhooks import Webhook, block_webhook, payment_webhook
from cairn.client import AsyncClient
from cairn.client.async_reads import Direction
from cairn.client.errors import BlockNotFound, BlockNotKept, ChainChanged
from cairn.client.following import EMBEDDED
from cairn.client.models import Block, Payment
from cairn.client.transport import Amounts, delays

NO_PAYMENT = -1
"""The index in a cursor before the first payment of its block."""


class Due(NamedTuple):
    """A webhook, and the cursor once it is delivered."""

    webhook: Webhook | None
    """None if the chain has only gone on."""
    cursor: Cursor


class BlockSource:
    """Each block."""

    events: Events = "newBlock"

    def __init__(self, node: AsyncClient) -> None:
        self.node = node

    def __str__(self) -> str:
        return self.events

    async def due(self, cursor: Cursor) -> AsyncGenerator[Due, None]:
        """What follows the cursor. Raises `ChainChanged`, and what the client raises."""
        async with aclosing(self.node.blocks(from_height=cursor.next_height)) as blocks:
            async for block in blocks:
                before = block.previous_hash if block.block_height > cursor.block_height else block.hash
                if before != cursor.hash:
                    raise ChainChanged(f"its block {block.block_height} does not follow the one that was delivered")
                cursor = cursor_at(block, self.events)
                yield Due(block_webhook(block), cursor)


class PaymentSource:
    """Each payment of some addresses."""

    events: Events = "payment"

    def __init__(self, node: AsyncClient, addresses: Sequence[str], direction: Direction, amounts: Amounts) -> None:
        self.node = node
        self._addresses = addresses
        self._direction = direction
        self._amounts = amounts

    def __str__(self) -> str:
        which = {"in": "to", "out": "from", "both": "to and from"}[self._direction]
        count = len(self._addresses)
        return f"{self.events}, {which} {self._addresses[0] if count == 1 else f'{count} addresses'}"

    async def due(self, cursor: Cursor) -> AsyncGenerator[Due, None]:
        """What follows the cursor. Raises `ChainChanged`, and what the client raises."""
        events = self.node.payments_and_blocks(self._addresses, cursor.next_height, self._direction)
        block, block_hash = None, ""
        async with aclosing(events):
            async for event in events:
                if event.block_height < cursor.block_height:
                    # A node that is behind makes its blocks known, too.
                    continue
                if not isinstance(event, Payment):
                    # All payments before it have come.
                    block, block_hash = await self._find_block(event.hash), event.hash
                elif block is None or block.block_height != event.block_height:
                    block = await self._block_of(event)
                    block_hash = block.hash
                if event.block_height == cursor.block_height and block_hash != cursor.hash:
                    raise ChainChanged(
                        f"its block {event.block_height} is not the one of which payments were delivered"
                    )
                if block is None:
                    continue
                if not isinstance(event, Payment):
                    if event.block_height > cursor.block_height:
                        yield Due(None, cursor_at(block, self.events, NO_PAYMENT))
                elif not cursor.covers(event.block_height, event.transaction_index):
                    after = cursor_at(block, self.events, event.transaction_index)
                    yield Due(payment_webhook(event, block, self._amounts), after)

    async def _find_block(self, name: str | int) -> Block | None:
        """None if the node that answers does not have it, or not yet."""
        try:
            return await self.node.block(name)
        except BlockNotKept:
            raise
        except BlockNotFound:
            return None

    async def _block_of(self, payment: Payment) -> Block:
        for delay_s in delays():
            block = await self._find_block(payment.block_height)
            if block is not None and payment.tx_hash in block.transactions:
                return block
            if block is not None or (await self.node.chain()).engine == EMBEDDED:
                raise ChainChanged(f"block {payment.block_height} with {payment.tx_hash} was taken back")
            # Another node has told of it.
            await asyncio.sleep(delay_s)
        raise AssertionError("the delays never end")


Source = BlockSource | PaymentSource
