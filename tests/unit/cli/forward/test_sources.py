"""What is due after a cursor, whichever node answers."""

from collections.abc import AsyncGenerator, Sequence
from typing import cast

import msgspec
import pytest

from cairn.api.description.examples import HEADER
from cairn.cli.forward.progress import Cursor, cursor_at
from cairn.cli.forward.sources import NO_PAYMENT, PaymentSource
from cairn.client import AsyncClient
from cairn.client.errors import ChainChanged
from cairn.client.models import Block
from cairn.domain.answers import NewBlock


def block_at(height: int, digits: str = "ab") -> Block:
    block_hash = f"0x{height:04x}" + 30 * digits
    return msgspec.convert(HEADER | {"blockHeight": height, "hash": block_hash, "transactions": []}, Block)


class Node:
    """A client of nodes that tell of these blocks."""

    def __init__(self, told: Sequence[Block]) -> None:
        self._told = told

    async def payments_and_blocks(self, *_: object) -> AsyncGenerator[NewBlock, None]:
        for block in self._told:
            yield NewBlock(block.block_height, block.hash)

    async def block(self, name: str) -> Block:
        return next(block for block in self._told if block.hash == name)


async def cursors(cursor: Cursor, *told: Block) -> list[Cursor]:
    source = PaymentSource(cast("AsyncClient", Node(told)), ["0x" + 40 * "1"], "both", "number")
    return [due.cursor async for due in source.due(cursor)]


async def test_blocks_below_the_cursor_are_of_a_node_that_is_behind() -> None:
    told = [block_at(height) for height in (3, 4, 5, 6)]
    assert await cursors(cursor_at(told[2], "payment", 7), *told) == [
        cursor_at(block, "payment", NO_PAYMENT) for block in told[3:]
    ]


async def test_another_block_at_the_height_of_the_cursor_is_of_another_chain() -> None:
    with pytest.raises(ChainChanged, match="its block 5 is not the one of which payments were delivered"):
        await cursors(cursor_at(block_at(5), "payment", 7), block_at(4), block_at(5, "cd"))
