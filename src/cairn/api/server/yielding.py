"""Long answers, made in turns: a worker serves others in between."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

_T = TypeVar("_T")


async def in_turns(items: Iterable[_T], at_once: int) -> AsyncIterator[_T]:
    """Each of the items; other requests get their turn after every `at_once`, about a millisecond's worth."""
    for number, item in enumerate(items):
        if number and number % at_once == 0:
            await asyncio.sleep(0)
        yield item
