"""Asks the core of a node that runs on this machine, over the link that its workers use."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from cairn.cli.report import Unreachable
from cairn.core.gateway import ChainInfo, CoreCalls, CoreListener
from cairn.core.link import LinkClient
from cairn.domain.errors import Unavailable
from cairn.domain.types import DropReason, Phase, SealedBlock, Tx, TxHash
from cairn.running_node import RunningNode

LONGEST_START_S = 30.0
"""How long a core that is being started, or that waits for its disk, is waited for."""

_A = TypeVar("_A")


def ask_core(node: RunningNode, ask: Callable[[CoreCalls], Awaitable[_A]]) -> _A:
    """The answer of the node's core. Raises `Unreachable`, or what the core refuses with."""
    try:
        return asyncio.run(_ask(node, ask))
    except Unavailable as failure:
        raise Unreachable(f"the node with process id {node.pid} cannot do it now: {failure.detail}") from None


async def _ask(node: RunningNode, ask: Callable[[CoreCalls], Awaitable[_A]]) -> _A:
    listener = _Phases()
    link = LinkClient(node.core_socket, listener)
    connecting = asyncio.create_task(link.run())
    try:
        try:
            await asyncio.wait_for(listener.ready.wait(), LONGEST_START_S)
        except TimeoutError:
            raise Unreachable(
                f"the node with process id {node.pid} is not ready: {listener.reason or 'its core does not answer'}"
            ) from None
        return await ask(link)
    finally:
        connecting.cancel()


class _Phases(CoreListener):
    """Waits for the core to be ready. What else it tells is for workers."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.reason = ""

    def on_info(self, info: ChainInfo) -> None: ...

    def on_commit(self, height: int, block: SealedBlock | None = None) -> None: ...

    def on_dropped(self, tx_hash: TxHash, reason: DropReason) -> None: ...

    def on_arrived(self, txs: Sequence[Tx]) -> None: ...

    def on_phase(self, phase: Phase, reason: str) -> None:
        self.reason = reason
        (self.ready.set if phase == "ready" else self.ready.clear)()
