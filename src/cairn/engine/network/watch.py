"""Watches whether CometBFT runs, has caught up and makes blocks: a halted one goes on running as if nothing were."""

import asyncio
from collections.abc import Callable

from cairn.engine.network.rpc import Rpc, RpcAway
from cairn.engine.port import OK

POLL_INTERVAL_S = 1.0
AWAY = "cometbft is not answering"
FUTILE_STARTS = 3
"""So many starts that came no further than the handshake are no accident."""


class Watch:
    def __init__(self, rpc: Rpc, height: Callable[[], int], halt_after_s: float, clock: Callable[[], float]) -> None:
        """`height` is that of the newest block on disk; `clock` is monotonic."""
        self._rpc = rpc
        self._height = height
        self._halt_after_s = halt_after_s
        self._clock = clock
        self._seen = AWAY
        self._progress_at = clock()
        self._starts = 0
        self.is_validator = True
        """Whether CometBFT proposes blocks of its own now and then; as if it did, until it says otherwise."""

    def committed(self) -> None:
        self._progress_at = self._clock()
        self._starts = 0

    def restarted(self) -> None:
        """CometBFT has connected."""
        self._starts += 1

    def condition(self) -> str:
        """`ok`, or what is wrong."""
        if self._seen == AWAY and self._starts >= FUTILE_STARTS:
            return (
                f"{AWAY}: it ends at its handshake with the chain at height {self._height()}; "
                "its own blocks end before that or begin after it, or its state is another: see its log"
            )
        silent_s = self._clock() - self._progress_at
        if self._seen == OK and silent_s > self._halt_after_s:
            return f"no block for {int(silent_s)} s"
        return self._seen

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            self._seen = await self._look()
            await asyncio.sleep(POLL_INTERVAL_S)

    async def _look(self) -> str:
        try:
            status = await self._rpc.status()
        except (RpcAway, TimeoutError):
            return AWAY
        self._starts = 0
        self.is_validator = status.is_validator
        return f"catching up, height {self._height()}" if status.catching_up else OK
