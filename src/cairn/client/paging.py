"""Lists that come in pages.

Behind a load balancer each page may come from another node, and one that has fewer blocks than the last would leave
items out. So a page is asked for again until the node that answers has at least the blocks of the pages before.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TypeVar

from msgspec.json import Decoder

from cairn.client.backoff import Deadline, delays
from cairn.client.errors import NodeUnreachable
from cairn.client.transport import Page, Transport

T = TypeVar("T")

MAX_PAGE = 1_000


async def pages(
    transport: Transport,
    path: str,
    items: Decoder[list[T]],
    query: Mapping[str, str],
    *,
    limit: int | None = None,
    page_size: int = MAX_PAGE,
    least_height: int = 0,
) -> AsyncGenerator[Page[T], None]:
    """The pages of all items, or of `limit` of them, from nodes that have the block at `least_height`.

    A page is requested when the previous one is used up.
    """
    cursor: str | None = None
    given = 0
    while limit is None or given < limit:
        size = page_size if limit is None else min(page_size, limit - given)
        asked: dict[str, str | int] = {**query, "limit": size}
        if cursor is not None:
            asked["after"] = cursor
        page = await _page_from(transport, path, items, asked, least_height)
        yield page
        given += len(page.items)
        cursor, least_height = page.cursor, page.height or 0
        if cursor is None:
            return


async def _page_from(
    transport: Transport, path: str, items: Decoder[list[T]], query: Mapping[str, str | int], least_height: int
) -> Page[T]:
    """Raises `NodeUnreachable` when no node with that height answers in time."""
    deadline = Deadline(transport.timeout_s)
    for delay_s in delays():
        page = await transport.get_page(path, items, query)
        if page.height is None or page.height >= least_height:
            return page
        if not await deadline.pause(delay_s):
            behind = f"{transport.url} is at block {page.height}, and block {least_height} was seen before"
            raise NodeUnreachable(behind, was_sent=False)
    raise AssertionError("the delays never end")


async def listed(
    transport: Transport, path: str, items: Decoder[list[T]], query: Mapping[str, str], limit: int | None = None
) -> AsyncGenerator[T, None]:
    """All items, or `limit` of them."""
    async with aclosing(pages(transport, path, items, query, limit=limit)) as found:
        async for page in found:
            for item in page.items:
                yield item
