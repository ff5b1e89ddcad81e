"""Watches whether CometBFT runs, has caught up and makes blocks. When it halts, its process keeps running."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from statistics import median_low

from cairn import metrics
from cairn.board import Part
from cairn.domain.governance import ValidatorRecord
from cairn.domain.types import BlockHeader
from cairn.engine.application import OK
from cairn.engine.network.network_log import NetworkLog, find_missing
from cairn.engine.network.rpc import NodeStatus, Rpc, RpcAway

POLL_INTERVAL_S = 1.0
EAGER_POLL_INTERVAL_S = 0.2
"""Poll interval while something is wrong, so that recovery shows soon."""
AWAY = "cometbft is not answering"
USUAL_LAG = 2
"""How far peers may normally be ahead: one block being committed here, and one that they commit earlier."""
FUTILE_STARTS = 3
"""So many starts that fail after the handshake are a fault."""


class CometBftWatch:
    def __init__(
        self,
        rpc: Rpc,
        head: Callable[[], BlockHeader],
        validators: Callable[[], Sequence[ValidatorRecord]],
        halt_after_s: float,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        on_look: Callable[[], None] = lambda: None,
    ) -> None:
        """`head` is the newest block on disk, `validators` are those after it.

        `clock` is monotonic, `wall_clock` gives Unix time. `on_look` is called after each look.
        """
        self._on_look = on_look
        self._rpc = rpc
        self._head = head
        self._validators = validators
        self._halt_after_s = halt_after_s
        self._clock = clock
        self._wall_clock = wall_clock
        self._seen = AWAY
        self._progress_at = clock()
        self._recent_since: float | None = None
        """Since when the latest block here has been recent, at every look; None while it is old."""
        self._starts = 0
        self._standstills = 0
        self.is_validator = True
        """Whether this node is a validator, as CometBFT says; assumed until it has answered."""
        self.peers = 0
        """How many nodes CometBFT is connected to; 0 while it is away."""
        self._log = NetworkLog()
        self._missing: Sequence[str] = ()
        """The validators that do not vote, while there are no blocks."""

    def committed(self) -> None:
        if self._seen == OK and self._silent_s() > self._halt_after_s:
            # It may be the latest block or one of many that were missed: the next poll shows which.
            self._seen = self._catching_up()
            self._standstills += 1
        self._log.made_block(self._head().height, self._silent_s())
        self._progress_at = self._clock()
        self._starts = 0

    def restarted(self) -> None:
        """CometBFT has connected."""
        self._starts += 1

    def condition(self) -> str:
        """`ok`, or what is wrong."""
        if self._seen == AWAY and self._starts >= FUTILE_STARTS:
            return (
                f"{AWAY}: it ends at its handshake with the chain at height {self._head().height}; "
                "its own blocks end before that or begin after it, its state is another, or its remote signer has not "
                "connected: see its log"
            )
        silent_s = self._silent_s()
        if self._seen == OK and silent_s > self._halt_after_s:
            missing = f", these validators do not vote: {', '.join(self._missing)}" if self._missing else ""
            return f"no block for {int(silent_s)} s{missing}"
        return self._seen

    @property
    def part_at_fault(self) -> Part:
        """The peers, if CometBFT is well here: it waits for others."""
        is_alone = self._seen == self._catching_up() and not self.peers
        return "peers" if self._seen == OK or is_alone else "engine"

    def _silent_s(self) -> float:
        return self._clock() - self._progress_at

    def _catching_up(self) -> str:
        alone = "" if self.peers else ", no peer is connected"
        return f"catching up, height {self._head().height}{alone}"

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            before = self._standstills
            seen = await self._look()
            # A poll from before the end of a standstill does not count.
            if before == self._standstills:
                self._seen = seen
            self._on_look()
            await asyncio.sleep(POLL_INTERVAL_S if self._seen == OK else EAGER_POLL_INTERVAL_S)

    async def _look(self) -> str:
        if self._is_old(self._head()):
            self._recent_since = None
        elif self._recent_since is None:
            self._recent_since = self._clock()
        try:
            status = await self._rpc.status()
            self._starts = 0
            self.is_validator = status.is_validator
            names = await self._peer_names()
            self.peers = len(names or ())
            if names is not None:
                self._log.saw_peers(names)
            is_behind = status.catching_up or await self._is_behind(status)
            metrics.CATCHING_UP.set(is_behind)
            if is_behind:
                return self._catching_up()
            if self._is_unknown(status):
                return (
                    f"the network knows the validator {status.name!r} by another key than the one here, and counts no "
                    "vote of this node: put its priv_validator_key.json back, or change the validators"
                )
            await self._look_for_halt({*(names or {}).values(), status.name})
        except (RpcAway, TimeoutError):
            self.peers = 0
            return AWAY
        return OK

    async def _peer_names(self) -> dict[str, str] | None:
        """Only for people to see: without this answer, None, the node is as ready as with it."""
        try:
            return await self._rpc.peer_names()
        except (RpcAway, TimeoutError):
            return None

    async def _look_for_halt(self, connected: Collection[str]) -> None:
        """Find out who is missing while there are no blocks; `connected` are the names of the nodes that are there."""
        silent_s = self._silent_s()
        if silent_s <= self._halt_after_s:
            self._missing = ()
            return
        try:
            votes = await self._rpc.votes()
        except (RpcAway, TimeoutError):
            votes = []
        self._missing = find_missing(self._validators(), votes, connected)
        self._log.halted(self._head().height, silent_s, self._missing)

    def _is_unknown(self, status: NodeStatus) -> bool:
        """Whether a validator has this node's name, but another key."""
        if status.is_validator:
            return False
        validators = self._validators()
        is_named = any(each.name == status.name for each in validators)
        return status.name != "" and is_named and all(each.public_key != status.public_key for each in validators)

    async def _is_behind(self, status: NodeStatus) -> bool:
        """Whether there are newer blocks elsewhere, though CometBFT says that it is not catching up.

        CometBFT says so as soon as its first peers have no more blocks than it has, or have not said how many they
        have, and then gets the blocks one by one. A peer may lie about its height, and clocks may differ, so one peer
        counts only if the latest block here is old, too. A node that was not ready asks all its peers: it is behind if
        most of them have more blocks, or, unless it is a validator and can make blocks itself, if none has answered.

        Strangers can be most of the peers, but cannot make blocks. So nobody is asked once the latest block has been
        recent for as long as a block may be old: to get what is missing from a recent block on takes less.
        """
        head = self._head()
        is_old = self._is_old(head)
        if not is_old and (self._seen == OK or self._was_recent()):
            metrics.LAG.set(0)
            return False
        heights = await self._rpc.peer_heights()
        metrics.LAG.set(max(0, median_low(heights) - head.height) if heights else 0)
        ahead = [height > head.height + USUAL_LAG for height in heights]
        if not ahead:
            return self._seen != OK and not status.is_validator
        return sum(ahead) > len(ahead) / 2 or (is_old and any(ahead))

    def _is_old(self, head: BlockHeader) -> bool:
        return self._wall_clock() - head.timestamp > self._halt_after_s

    def _was_recent(self) -> bool:
        """Whether the latest block was recent for so long that others must have come."""
        return self._recent_since is not None and self._clock() - self._recent_since > self._halt_after_s
