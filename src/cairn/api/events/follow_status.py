"""Asks the core for the status of followed transactions that the store does not show: one may have been dropped."""

import asyncio
from itertools import islice

import structlog

from cairn.api.events.hub import EventHub
from cairn.core.gateway import CoreGateway, DroppedTx
from cairn.domain.errors import Unavailable
from cairn.domain.types import TxHash

AT_ONCE = 64
"""Unanswered questions at the same time: a thousand of one client must not delay another's submission."""
RETRY_S = 0.5

log = structlog.get_logger("cairn.events")


class FollowStatus:
    """One question per transaction, however many sockets follow it; repeated until the core answers."""

    def __init__(self, gateway: CoreGateway, hub: EventHub) -> None:
        self._gateway = gateway
        self._hub = hub
        self._open: dict[TxHash, None] = {}
        self._task: asyncio.Task[None] | None = None
        hub.on_unsure(self.ask)

    def ask(self, tx_hash: TxHash) -> None:
        self._open[tx_hash] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._open:
                await self._ask_some()
        except Exception as failure:
            log.error("asking the core about followed transactions failed", exc_info=failure)
        finally:
            self._task = None

    async def _ask_some(self) -> None:
        batch = list(islice(self._open, AT_ONCE))
        for tx_hash in batch:
            del self._open[tx_hash]
        answers = await asyncio.gather(*(self._answer(tx_hash) for tx_hash in batch if self._hub.is_followed(tx_hash)))
        if not all(answers):
            await asyncio.sleep(RETRY_S)

    async def _answer(self, tx_hash: TxHash) -> bool:
        """Returns False when the core cannot say now; the question is then open again."""
        try:
            standing = await self._gateway.find_tx(tx_hash)
        except Unavailable:
            self._open[tx_hash] = None
            return False
        # A confirmed one needs nothing: its event comes with its block.
        if isinstance(standing, DroppedTx):
            self._hub.on_dropped(tx_hash, standing.reason)
        return True
