"""Pages of the mempool, asked for in parts: one long answer would keep the core from admitting transactions."""

from cairn.core.gateway import CoreGateway, PendingPage, PendingTx
from cairn.domain.types import Address, TxHash

ASKED_AT_ONCE = 200
"""Transactions in one answer of the core: about a millisecond of its time."""


async def list_pending(gateway: CoreGateway, limit: int, after: str | None, sender: Address | None) -> PendingPage:
    """As the core's own call. What comes or goes between two parts is shown once or not at all."""
    page = await gateway.list_pending(min(limit, ASKED_AT_ONCE), after, sender)
    if page.next is None or len(page.items) >= limit:
        return page
    found: dict[TxHash, PendingTx] = {item.tx.hash: item for item in page.items}
    cursor: str | None = page.next
    while cursor is not None and len(found) < limit:
        part = await gateway.list_pending(min(limit - len(found), ASKED_AT_ONCE), cursor, sender)
        found |= {item.tx.hash: item for item in part.items}
        cursor = part.next
    return PendingPage(list(found.values()), page.total, cursor, page.pending)
