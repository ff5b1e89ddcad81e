"""A core whose answers a test writes: for what a real one does only when it is stuck or broken."""

import asyncio
from asyncio import Future

from cairn.core.gateway import (
    Admission,
    ChainInfo,
    Checks,
    CoreGateway,
    FilterChanges,
    FilterKind,
    PendingPage,
    Standing,
    Status,
    ValidatorSet,
)
from cairn.domain.errors import NodeError, StoreUnavailable
from cairn.domain.governance import ValidatorUpdate
from cairn.domain.types import Address, Draft, Tx, TxHash

INFO = ChainInfo(
    chain_id=1337, gas_price=10**9, block_gas_limit=210_000_000, engine="embedded", store_path="", signs_for=[]
)


class ScriptedGateway(CoreGateway):
    def __init__(self) -> None:
        self.checks: Checks | NodeError = Checks("ok", "ok")
        self.check_delay_s = 0.0
        self.standing: Standing | None = None
        """Of every transaction."""
        self.checked = 0
        self.is_watched = False
        """Whether it was asked to tell of arrivals."""
        self.submitted: list[tuple[Tx, Future[Admission]]] = []
        """Each waits until the test answers it."""

    def submit(self, tx: Tx) -> "Future[Admission]":
        future: Future[Admission] = asyncio.get_running_loop().create_future()
        self.submitted.append((tx, future))
        return future

    def admit_all(self) -> None:
        for tx, future in self.submitted:
            if not future.done():
                future.set_result(Admission(tx.hash))

    async def validators(self) -> ValidatorSet:
        raise StoreUnavailable("not here")

    async def submit_update(self, update: ValidatorUpdate) -> None:
        raise StoreUnavailable("not here")

    async def check(self) -> Checks:
        self.checked += 1
        await asyncio.sleep(self.check_delay_s)
        if isinstance(self.checks, NodeError):
            raise self.checks
        return self.checks

    async def submit_draft(self, draft: Draft) -> Admission:
        raise StoreUnavailable("scripted: not here")

    async def next_nonce(self, sender: Address) -> int:
        raise StoreUnavailable("scripted: not here")

    async def find_tx(self, tx_hash: TxHash) -> Standing | None:
        return self.standing

    async def list_pending(self, limit: int, after: str | None, sender: Address | None) -> PendingPage:
        return PendingPage([], 0, None)

    def watch_arrivals(self, on: bool) -> None:
        self.is_watched = on

    async def create_filter(self, kind: FilterKind, client: str) -> str | None:
        raise StoreUnavailable("not here")

    async def find_changes(self, filter_name: str, shown: int) -> FilterChanges | None:
        raise StoreUnavailable("not here")

    async def remove_filter(self, filter_name: str) -> bool:
        raise StoreUnavailable("not here")

    async def status(self) -> Status:
        raise StoreUnavailable("scripted: not here")
