"""A core process and a worker's end of its link, in one event loop over a real unix socket."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from cairn.core.gateway import ChainInfo
from cairn.core.link import LinkClient
from cairn.core.process import CoreProcess
from cairn.domain.genesis import dev_genesis
from cairn.domain.types import DropReason, Phase, SealedBlock, Tx, TxHash
from tests.support.core_fixtures import KEYS, settings
from tests.support.pace import PATIENCE_S


class Heard:
    """What a worker was told, in order."""

    def __init__(self) -> None:
        self.notices: list[tuple[object, ...]] = []
        self.changed = asyncio.Event()

    def _note(self, *notice: object) -> None:
        self.notices.append(notice)
        self.changed.set()

    def on_info(self, info: ChainInfo) -> None:
        self._note("info", info.chain_id)

    def on_phase(self, phase: Phase, reason: str) -> None:
        self._note("phase", phase)

    def on_commit(self, height: int, block: SealedBlock | None = None) -> None:
        self._note("commit", height)

    def on_dropped(self, tx_hash: TxHash, reason: DropReason) -> None:
        self._note("dropped", tx_hash, reason)

    def on_arrived(self, txs: Sequence[Tx]) -> None:
        for tx in txs:
            self._note("arrived", tx.hash)

    async def until(self, *notice: object) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while notice not in self.notices:
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def linked(directory: Path, **changes: object) -> AsyncIterator[tuple[LinkClient, Heard, "asyncio.Task[None]"]]:
    lifeline, keep = os.pipe()
    process = CoreProcess(dev_genesis(), directory / "data", settings(**changes), KEYS)
    core = asyncio.create_task(process.run(directory / "core.sock", lifeline))
    heard = Heard()
    client = LinkClient(directory / "core.sock", heard)
    link = asyncio.create_task(client.run())
    try:
        await heard.until("phase", "ready")
        yield client, heard, core
    finally:
        link.cancel()
        with suppress(asyncio.CancelledError):
            await link
        if not core.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await core
        asyncio.get_running_loop().remove_reader(lifeline)
        os.close(lifeline)
        os.close(keep)
