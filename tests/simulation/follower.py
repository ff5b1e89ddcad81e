"""A worker beside a node, with clients that follow: the real view and event hub, over the node's own files."""

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cairn.api.chain_view import ChainView
from cairn.api.events.hub import EventHub
from cairn.api.events.socket import FollowStatus
from cairn.config import Settings
from cairn.core.gateway import Admission, ChainInfo, TxStatus
from cairn.core.link import LinkClient
from cairn.core.service import Core
from cairn.domain.errors import Fatal, StoreUnavailable, Unavailable
from cairn.domain.transactions import decode_record
from cairn.domain.types import Address, DropReason, Phase, SealedBlock, Tx, TxHash
from cairn.time_shares import TimeShares
from tests.simulation.clients import Clients
from tests.simulation.disk import aside
from tests.simulation.invariants import Invariants
from tests.simulation.node import Node, Violation

REVERTED = 4205


class Socket:
    """A client's connection: what is written to it is looked at."""

    def __init__(self, read: Callable[[dict[str, Any]], None], closed: Callable[[int], None]) -> None:
        self._read = read
        self._closed = closed
        self._resume: Callable[[], None] = lambda: None
        self.paused = False
        self.is_open = True

    def on_resume(self, listener: Callable[[], None]) -> None:
        self._resume = listener

    def set_paused(self, paused: bool) -> None:
        self.paused = paused
        if not paused:
            self._resume()

    def write(self, data: bytes) -> None:
        at = 0
        while at < len(data) and self.is_open:
            size, start = data[at + 1], at + 2
            if size == 126:
                size, start = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
            self._read(json.loads(data[start : start + size]))
            at = start + size

    def close(self, code: int, reason: str) -> None:
        if self.is_open:
            self.is_open = False
            self.paused = True
            self._closed(code)


class Worker:
    """What the node's link tells; it outlives the core, and comes back with the machine."""

    def __init__(
        self, node: Node, scratch: Path, invariants: Invariants, clients: Clients, violations: list[Violation]
    ) -> None:
        self._node = node
        self._invariants = invariants
        self._clients = clients
        self._violations = violations
        self._scratch = scratch
        self._begin()
        self._forget()
        node.worker = self

    def _begin(self) -> None:
        self._view = ChainView(self._scratch, self._node.genesis.chain_id, self._damaged)
        self._hub = EventHub(self._view, Settings(), TimeShares(clock=lambda: 0.0))
        self._view.subscribe(self._hub)
        FollowStatus(self, self._hub)  # type: ignore[arg-type]
        self._socket: Socket | None = None
        self._client: LinkClient | None = None
        self._running: asyncio.Task[None] | None = None

    def _forget(self) -> None:
        self._next: int | None = None
        """The next block that the client must be told of; None before it has subscribed."""
        self._followed: dict[TxHash, bool] = {}
        """Whether their end was told."""
        self._paid_from = 0
        """From this height on, the socket tells of payments."""
        self._paid: list[int] = []
        """Where the payments are that it has told of the block before the next."""

    def die(self) -> None:
        """Its process ends; another takes its place. What its clients know, they know."""
        self.leave()
        if self._socket is not None:
            self._socket.is_open = False
        self._view.close()
        self._begin()
        if self._node.is_up:
            self.join()

    def begin_anew(self) -> None:
        """The node is set up again on an empty disk: no process of the old one is left, and no client."""
        self._forget()
        self.die()

    # Its end of the link.

    def join(self) -> None:
        """The node has a core again."""
        if self._running is None:
            self._client = LinkClient(Path(self._node.link_path), self)
            self._running = asyncio.get_running_loop().create_task(self._client.run())

    def leave(self) -> None:
        """As when the node is stopped."""
        if self._running is not None:
            self._running.cancel()
            self._running = None
            self._view.on_phase("unavailable", "the core is gone")

    def lose_link(self) -> None:
        """The connection breaks, and both processes live on."""
        if self._client is not None and self._client._connection is not None:
            self._client._connection._transport.abort()

    def submit(self, tx: Tx) -> "asyncio.Future[Admission]":
        """Submit over the link. Raises `Unavailable`."""
        if self._client is None:
            raise StoreUnavailable("the core is away")
        return self._client.submit(tx)

    # What the link tells, and is asked.

    def on_info(self, info: ChainInfo) -> None:
        self._view.on_info(info)

    def on_phase(self, phase: Phase, reason: str) -> None:
        self._view.on_phase(phase, reason)

    def on_commit(self, height: int, block: SealedBlock | None = None) -> None:
        self._view.on_commit(height, block)

    def on_dropped(self, tx_hash: TxHash, reason: DropReason) -> None:
        self._view.on_dropped(tx_hash, reason)

    def on_arrived(self, txs: Sequence[Tx]) -> None:
        self._view.on_arrived(txs)

    async def find_tx(self, tx_hash: TxHash) -> TxStatus | None:
        if self._client is None:
            raise StoreUnavailable("the core is away")
        return await self._client.find_tx(tx_hash)

    def _damaged(self, failure: Fatal) -> None:
        self._violations.append(Violation("worker", f"the worker of {self._node.name} fails: {failure.detail}"))

    def close(self) -> None:
        self._view.close()

    # The client.

    def act(self, rng: random.Random) -> None:
        """Connect, follow something, read slowly, or look at an account."""
        if self._view.height < 0:
            return
        # A read that fails is told to the client, which asks again.
        with suppress(Unavailable):
            self._act(rng)

    def _act(self, rng: random.Random) -> None:
        if self._socket is None or not self._socket.is_open:
            self._connect()
        elif rng.random() < 0.2:
            self._socket.set_paused(not self._socket.paused)
        elif self._clients.signed and rng.random() < 0.7:
            tx = rng.choice(self._clients.signed[-10:])
            if self._followed.get(tx.hash, True):
                self._followed[tx.hash] = False
                self._follow(tx.hash)
        else:
            self._look(rng)

    def _connect(self) -> None:
        socket = Socket(self._read, self._closed)
        self._subscriber = self._hub.attach(socket)
        first = max(self._next if self._next is not None else self._view.height + 1, self._view.base)
        # Of the payments of the block before, some may have come: they come again.
        self._paid_from, self._paid = max(first - 1, self._view.base), []
        self._hub.follow_addresses(self._subscriber, self._accounts(), self._paid_from)
        self._next = self._hub.subscribe_blocks(self._subscriber, first)
        self._socket = socket
        # What it had followed and not heard the end of, it follows again.
        for tx_hash, ended in list(self._followed.items()):
            if not ended:
                self._follow(tx_hash)

    def _accounts(self) -> list[Address]:
        """Every second one."""
        return [
            Address(address) for address in sorted([*self._clients.setup.keys, *self._clients.setup.strangers])[::2]
        ]

    def _check_payments(self, height: int) -> None:
        """Before the next block came, all payments of this one have come."""
        with aside(), suppress(Unavailable):
            if height >= max(self._paid_from, self._view.base):
                accounts = set(self._accounts())
                txs = map(decode_record, self._view.tx_records(height))
                due = [position for position, tx in enumerate(txs) if {tx.sender, tx.to} & accounts]
                if self._paid != due:
                    raise Violation(
                        "events", f"{self._node.name} tells of payments {self._paid} of block {height}: {due}"
                    )
        self._paid = []

    def _follow(self, tx_hash: TxHash) -> None:
        try:
            self._hub.follow(self._subscriber, tx_hash)
        except Unavailable:
            del self._followed[tx_hash]
            raise

    def _closed(self, code: int) -> None:
        # Not within the hub's own walk over its sockets: a real one ends later too.
        asyncio.get_running_loop().call_soon(self._hub.detach, self._subscriber)
        if code == REVERTED:
            self._next = None
            self._followed.clear()
        elif self._next is not None and self._next >= self._view.base:
            raise Violation("events", f"{self._node.name} closes a socket that misses nothing: {code}")

    @staticmethod
    def _on_disk(core: Core) -> int:
        """The newest height that the core has written, which it may not have announced yet."""
        with aside():
            return core._chain.watermark.height()

    def _read(self, event: dict[str, Any]) -> None:
        name, node = event["event"], self._node.name
        if name == "newBlock":
            height = event["blockHeight"]
            if height != self._next:
                raise Violation("events", f"{node} tells of block {height}, when {self._next} was due")
            self._check_payments(height - 1)
            if height > self._node.told:
                # A core that failed between the disk and the announcement has left it: from now on it must not be lost.
                if self._node.core is not None and height > self._on_disk(self._node.core):
                    raise Violation("events", f"{node} tells of block {height}, which its core does not have")
                self._node.told = height
            self._invariants.check_hash(self._node, height, bytes.fromhex(event["hash"][2:]))
            self._next = height + 1
            return
        if name == "payment":
            if self._next is None or event["blockHeight"] != self._next - 1:
                raise Violation("events", f"{node} tells of a payment in block {event['blockHeight']}, not in its turn")
            self._paid.append(event["transactionIndex"])
            return
        tx_hash = TxHash(bytes.fromhex(event["txHash"][2:]))
        if self._followed.get(tx_hash, True):
            raise Violation("events", f"{node} tells of {event['txHash'][:12]} twice, or unasked")
        self._followed[tx_hash] = True
        if name == "txConfirmed":
            height = event["blockHeight"]
            if self._next is None or height >= self._next:
                raise Violation("events", f"{node} tells of a transfer in block {height} before the block")
            self._invariants.expect_confirmed(self._node, tx_hash, height)

    def _look(self, rng: random.Random) -> None:
        """What a client reads is the state as of the height that the worker shows."""
        if self._view.is_reverting or self._view._store is None:
            return
        address = rng.choice([*self._clients.setup.keys, *self._clients.setup.strangers])
        account = self._view.account(Address(address))
        self._invariants.expect_account(self._node, address, self._view._store.visible, account)

    def resume(self) -> None:
        if self._socket is not None and self._socket.is_open:
            self._socket.set_paused(False)

    def waits_for(self) -> str:
        """What its client has not been told, once all is still."""
        core = self._node.core
        if self._socket is None or not self._socket.is_open or self._next is None or core is None:
            return ""
        if self._next <= core.head:
            return f"{self._node.name} never tells of block {self._next}"
        for tx_hash, ended in self._followed.items():
            if not ended and core._chain.find_location(tx_hash) is not None:
                return f"{self._node.name} never tells that 0x{tx_hash[:6].hex()} is confirmed"
        return ""
