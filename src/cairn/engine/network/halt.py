"""The end of a version's time: the node stops after the block that its operators have agreed on."""

import asyncio
from typing import NoReturn

import structlog

from cairn.domain.errors import AnotherVersionNeeded
from cairn.engine.abci import requests as m

STAY_S = 5.0
"""How long CometBFT still runs after the last block: others may need that block from this node."""

log = structlog.get_logger("cairn.network")


class Halt:
    """No block above `height` is proposed, voted for or applied; 0 is no height."""

    def __init__(self, height: int) -> None:
        self._height = height
        self._reached = asyncio.Event()

    @property
    def reason(self) -> str | None:
        """Why there are no more blocks, once that is so."""
        if not self._reached.is_set():
            return None
        return f"block {self._height} is the last one before the upgrade (halt_height): the node stops"

    def is_before(self, request: m.BlockRequest) -> bool:
        return 0 < self._height < request.height

    def committed(self, height: int) -> None:
        if height == self._height:
            log.warning("the last block before the upgrade is made, as halt_height says", height=height, stop_s=STAY_S)
            self._reached.set()

    async def hold(self) -> NoReturn:
        """Never answer CometBFT: it waits, and the rounds of the next block are left to the next version."""
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody completes it")

    async def run(self) -> None:
        """Raise `AnotherVersionNeeded` a moment after the last block."""
        await self._reached.wait()
        await asyncio.sleep(STAY_S)
        raise AnotherVersionNeeded(
            f"block {self._height} is made, and halt_height is {self._height}: install the version that goes on "
            "from there"
        )
