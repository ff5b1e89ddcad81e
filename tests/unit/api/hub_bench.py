"""A hub over a chain in memory, and what its sockets should be told."""

import asyncio
from dataclasses import dataclass, field

from cairn.api.events.hub import EventHub
from cairn.api.events.subscribers import Subscriber
from cairn.config import Settings
from cairn.domain.types import Tx, TxHash
from cairn.time_shares import TimeShares
from tests.support.event_server import MemoryChain, block_hash_of, hex_of
from tests.support.recording_socket import RecordingSocket
from tests.support.ticking_clock import TickingClock


@dataclass
class Bench:
    """A hub over a chain in memory; `commit` is what a worker does when its store shows a block."""

    chain: MemoryChain = field(default_factory=MemoryChain)
    settings: Settings = field(default_factory=Settings)
    tick_s: float = 0.0
    """How long each event takes."""
    hub: EventHub = field(init=False)

    def __post_init__(self) -> None:
        self.hub = EventHub(self.chain, self.settings, TimeShares(TickingClock(self.tick_s)))

    def join(self, client: str = "") -> tuple[RecordingSocket, Subscriber]:
        connection = RecordingSocket()
        return connection, self.hub.attach(connection, client)

    def payment(self, tx: Tx) -> dict[str, object]:
        """What is told of a payment in the chain."""
        location = self.chain.find_location(tx.hash)
        assert location is not None
        return payment(tx, *location)

    def commit(self, *txs: TxHash | Tx) -> int:
        height = self.chain.append(txs)
        self.hub.on_commit(height)
        return height


async def settle() -> None:
    """Let every step that is due run."""
    for _ in range(500):
        await asyncio.sleep(0)


def new_block(height: int) -> dict[str, object]:
    return {"event": "newBlock", "blockHeight": height, "hash": hex_of(block_hash_of(height))}


def confirmed(tx_hash: TxHash, height: int) -> dict[str, object]:
    return {"event": "txConfirmed", "txHash": hex_of(tx_hash), "blockHeight": height}


def payment(tx: Tx, height: int, position: int) -> dict[str, object]:
    return {
        "event": "payment",
        "txHash": hex_of(tx.hash),
        "blockHeight": height,
        "transactionIndex": position,
        "from": hex_of(tx.sender),
        "to": hex_of(tx.to),
        "value": tx.value,
    }
