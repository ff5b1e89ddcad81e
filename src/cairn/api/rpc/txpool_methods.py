"""`txpool_`: the mempool as geth shows it."""

from collections.abc import Callable
from typing import Any

import msgspec

from cairn.api.mempool_pages import list_pending
from cairn.api.rpc.block_tags import RpcChain
from cairn.api.rpc.dispatch import Method
from cairn.api.rpc.large_answers import LargeAnswers
from cairn.api.rpc.objects import transaction_object
from cairn.api.rpc.values import parse_account, quantity
from cairn.core.gateway import PendingTx
from cairn.domain.crypto import checksum_address
from cairn.domain.types import Address, Tx
from cairn.time_shares import in_slices

MAX_SHOWN = 5_000
"""Transactions in one answer, the first in mining order: a full mempool would take some fifty megabytes."""

Shown = dict[str, Any]

_encode = msgspec.json.Encoder().encode


class TxpoolMethods:
    def __init__(self, chain: RpcChain) -> None:
        self._chain = chain
        self._listings = LargeAnswers(kept_by_batches=False)
        """Apart from those made from the store, which can be read while the core hangs."""

    def methods(self) -> dict[str, Method]:
        return {
            "txpool_status": self.status,
            "txpool_content": self.content,
            "txpool_contentFrom": self.content_from,
            "txpool_inspect": self.inspect,
        }

    async def status(self) -> dict[str, str]:
        status = await self._chain.gateway.status()
        return {"pending": quantity(status.pending), "queued": quantity(status.queued)}

    async def content(self) -> Shown:
        return await self._list(None, self._object)

    async def content_from(self, account: object) -> Shown:
        sender = parse_account(account, "address")
        shown = await self._list(sender, self._object)
        name = checksum_address(sender)
        return {listing: by_sender.get(name, {}) for listing, by_sender in shown.items()}

    async def inspect(self) -> Shown:
        return await self._list(
            None,
            # As in geth, which shows the cap as the price of type 2.
            lambda tx: f"{checksum_address(tx.to)}: {tx.value} wei + {tx.gas} gas × {tx.fee_cap} wei",
        )

    async def _list(self, sender: Address | None, show: Callable[[Tx], Any]) -> Shown:
        async with self._listings.place():
            return await self._sorted(await self._pending(sender), show)

    async def _pending(self, sender: Address | None) -> list[PendingTx]:
        return (await list_pending(self._chain.gateway, MAX_SHOWN, None, sender)).items

    def _object(self, tx: Tx) -> msgspec.Raw:
        # Encoded as it is made: all of them at once would take too long.
        return msgspec.Raw(_encode(transaction_object(tx, self._chain.info.chain_id, None)))

    async def _sorted(self, items: list[PendingTx], show: Callable[[Tx], Any]) -> Shown:
        """By sender and nonce; what follows a missing nonce is queued."""
        shown: Shown = {"pending": {}, "queued": {}}
        next_nonces: dict[Address, int] = {}
        by_sender = sorted((item.tx for item in items), key=lambda tx: (tx.sender, tx.nonce))
        async for tx in in_slices(by_sender):
            if tx.sender not in next_nonces:
                next_nonces[tx.sender] = self._chain.view.account(tx.sender).nonce
            is_next = tx.nonce <= next_nonces[tx.sender]
            if is_next:
                next_nonces[tx.sender] = tx.nonce + 1
            by_nonce = shown["pending" if is_next else "queued"].setdefault(checksum_address(tx.sender), {})
            by_nonce[str(tx.nonce)] = show(tx)
        return shown
