"""Long answers, made in parts: a worker serves other requests in between."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

_T = TypeVar("_T")


async def in_turns(items: Iterable[_T], at_once: int) -> AsyncIterator[_T]:
    """The items, one by one. Other requests are served after every `at_once` items, about a millisecond of work."""
    for number, item in enumerate(items):
        if number and number % at_once == 0:
            await asyncio.sleep(0)
        yield item
