"""Lists that come in pages, as one iterator."""

from collections.abc import AsyncGenerator, Mapping
from typing import TypeVar

from msgspec.json import Decoder

from cairn.client.transport import Transport

T = TypeVar("T")

MAX_PAGE = 1_000


async def listed(
    transport: Transport,
    path: str,
    items: Decoder[list[T]],
    query: Mapping[str, str],
    limit: int | None = None,
    page_size: int = MAX_PAGE,
) -> AsyncGenerator[T, None]:
    """All items, or `limit` of them. A page is requested when the previous one is used up."""
    cursor: str | None = None
    given = 0
    while limit is None or given < limit:
        size = page_size if limit is None else min(page_size, limit - given)
        page: dict[str, str | int] = {**query, "limit": size}
        if cursor is not None:
            page["after"] = cursor
        found, cursor = await transport.get_page(path, items, page)
        for item in found:
            yield item
        given += len(found)
        if cursor is None:
            return
