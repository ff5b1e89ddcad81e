"""Sends the transactions that this node answers for to CometBFT, as the outbox decides."""

import asyncio
import contextlib

from cairn.domain.codec import encode_tx
from cairn.engine.network.bundle import FEWEST, Bundle, encode_ticket
from cairn.engine.network.outbox import Answer, Outbox, Ticket
from cairn.engine.network.parsed_txs import ParsedTxs
from cairn.engine.network.rpc import Rpc, RpcAway


class Broadcaster:
    def __init__(
        self, outbox: Outbox, wait_is_over: asyncio.Event, senders: ParsedTxs, rpc: Rpc, chain_id: int
    ) -> None:
        """The outbox sets `wait_is_over`."""
        self._outbox = outbox
        self._wait_is_over = wait_is_over
        self._senders = senders
        self._rpc = rpc
        self._chain_id = chain_id
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._wait_is_over.set()

    async def run(self) -> None:
        steps = self._outbox.steps()
        step = next(steps)
        while not self._stopped:
            answer: Answer = None
            if isinstance(step, Ticket):
                answer = await self._hand_over(step)
            else:
                await self._wait(step)
            step = steps.send(answer)

    async def _wait(self, seconds: float) -> None:
        self._wait_is_over.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wait_is_over.wait()

    async def _hand_over(self, ticket: Ticket) -> Answer:
        txs = ticket.txs
        raws = [encode_tx(tx, self._chain_id) for tx in txs]
        # So that our own CheckTx need not recover the sender.
        for tx, raw in zip(txs, raws, strict=True):
            self._senders.remember(raw, tx)
        ticket_raw = encode_ticket(raws)
        if len(raws) >= FEWEST:
            self._senders.remember_bundle(ticket_raw, Bundle(tuple(raws), tuple(txs)))
        try:
            return await self._rpc.broadcast(ticket_raw)
        except RpcAway as away:
            return away
