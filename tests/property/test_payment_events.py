"""Payments of followed addresses against a naive model: whatever is asked, whoever does not read, none is missed.

Sockets subscribe and unsubscribe at random, stop reading, leave and come back where they were, while blocks are made,
pruned and reverted. The model reads the whole chain for every socket.
"""

import asyncio
import os
import random
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from cairn.api.events import payment_search, payments
from cairn.api.events.subscribers import Subscriber
from cairn.domain.errors import BlockNotKept
from cairn.domain.types import Tx
from cairn.time_shares import SLICE_S
from tests.support.event_server import MemoryChain
from tests.support.recording_socket import RecordingSocket, decode_frames
from tests.support.transfers import address, transfer
from tests.support.virtual_time import run_virtual
from tests.unit.api.hub_bench import Bench, new_block, payment, settle

PARTIES = 8
ACTIONS = 60
WEIGHTS = {
    "commit": 10, "follow": 5, "follow from": 3, "unfollow": 2, "blocks": 1, "blocks from": 1, "no blocks": 2,
    "pause": 2, "resume": 4, "reconnect": 2, "prune": 0.5, "revert": 0.5, "some time": 12,
}  # fmt: skip
SEED = int(os.environ.get("PAYMENTS_SEED", random.SystemRandom().randrange(2**32)))
PLAYS = 60


class Chain(MemoryChain):
    """Remembers who was paid in which block."""

    def payments(self, followed: dict[int, int], height: int) -> list[dict[str, object]]:
        """Those of the block; `followed` says for each party from which height on it is."""
        since = {address(party): first for party, first in followed.items()}
        return [
            payment(tx, height, position)
            for position, tx in enumerate(self.block(height))
            if any(since.get(party, height + 1) <= height for party in (tx.sender, tx.to))
        ]


@dataclass
class Model:
    """What one socket must be told, as a client would keep account of it."""

    bench: Bench
    chain: Chain
    connection: RecordingSocket = field(init=False)
    subscriber: Subscriber = field(init=False)
    followed: dict[int, int] = field(default_factory=dict)
    """The height from which each party is followed."""
    place: tuple[int, int] | None = None
    """Height, and number of payments of that height that have come. None if nothing is followed."""
    next_block: int | None = None

    def __post_init__(self) -> None:
        self.connect()

    def connect(self) -> None:
        self.connection, self.subscriber = self.bench.join()

    def follow(self, parties: frozenset[int], from_height: int | None) -> None:
        self.check()
        try:
            first = self.bench.hub.follow_addresses(self.subscriber, [address(each) for each in parties], from_height)
        except BlockNotKept:
            assert from_height is not None
            assert from_height < self.chain.base
            return
        if from_height is not None:
            assert first == from_height
            self.followed = dict.fromkeys([*self.followed, *parties], from_height)
            self.place = (from_height, 0)
            return
        if self.place is None:
            self.place = (first, 0)
        # A new one begins at or above where the socket is, and never in the middle of a block.
        new = parties - self.followed.keys()
        if new:
            assert self.place[0] + (self.place[1] > 0) <= first <= max(self.place[0], self.chain.height) + 1
        self.followed |= dict.fromkeys(new, first)

    def unfollow(self, parties: frozenset[int] | None) -> None:
        self.check()
        chosen = None if parties is None else [address(each) for each in parties]
        before = [] if self.place is None else self.told_of(self.place[0])[: self.place[1]]
        self.bench.hub.unfollow_addresses(self.subscriber, chosen)
        self.followed = {} if parties is None else {k: v for k, v in self.followed.items() if k not in parties}
        if not self.followed:
            self.place = None
        elif self.place is not None:
            # Of those that came already, some may no longer count.
            now = self.told_of(self.place[0])
            self.place = (self.place[0], sum(each in before for each in now))

    def told_of(self, height: int) -> list[dict[str, object]]:
        return self.chain.payments(self.followed, height) if height <= self.chain.height else []

    def follow_blocks(self, from_height: int | None) -> None:
        self.check()
        try:
            self.next_block = self.bench.hub.subscribe_blocks(self.subscriber, from_height)
        except BlockNotKept:
            assert from_height is not None

    def unfollow_blocks(self) -> None:
        self.check()
        self.bench.hub.unsubscribe_blocks(self.subscriber)
        self.next_block = None

    def check(self) -> int:
        """Everything that has come is what must come next. Returns how much has."""
        messages = decode_frames(b"".join(self.connection.writes))
        self.connection.writes.clear()
        for message in messages:
            self.take(message)
        return len(messages)

    def forget_above(self, height: int) -> None:
        """The chain was reverted to that height."""
        if self.place is not None:
            self.place = min(self.place, (height + 1, 0))
        if self.next_block is not None:
            self.next_block = min(self.next_block, height + 1)

    def take(self, message: dict[str, Any]) -> None:
        expected = self.next_event(message["blockHeight"])
        assert message == expected, f"{message} came instead of {expected}"
        if message["event"] == "newBlock":
            self.next_block = message["blockHeight"] + 1
        else:
            assert self.place is not None
            self.place = (self.place[0], self.place[1] + 1)

    def next_event(self, until: int | None = None) -> dict[str, object] | None:
        """What must come next of the blocks up to `until`."""
        until = self.chain.height if until is None else until
        while self.place is not None and self.place[0] <= until:
            if self.next_block is not None and self.next_block <= self.place[0]:
                break
            due = self.told_of(self.place[0])
            if self.place[1] < len(due):
                return due[self.place[1]]
            self.place = (self.place[0] + 1, 0)
        return new_block(self.next_block) if self.next_block is not None and self.next_block <= until else None

    def reconnect(self) -> None:
        """As a client does that remembers what came last."""
        self.check()
        self.bench.hub.detach(self.subscriber)
        self.connect()
        if self.next_block is not None:
            self.follow_blocks(max(self.next_block, self.chain.base))
        if self.place is None:
            return
        # Of a block of which some came, all come again, and a client leaves those out.
        height = max(self.place[0], self.chain.base)
        parties, self.followed, self.place = frozenset(self.followed), {}, None
        self.follow(parties, height)


class Play:
    """One chain, a socket that follows some, so that every block is matched, and one that does as it likes."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._nonce = 0
        self.chain = Chain()
        self.bench = Bench(self.chain, tick_s=SLICE_S / rng.choice([5, 20, 100]))
        self.models = [Model(self.bench, self.chain), Model(self.bench, self.chain)]
        self.events = 0

    async def run(self) -> None:
        self.models[0].follow(frozenset(range(PARTIES // 2)), None)
        for name in self._rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=ACTIONS):
            await self.do(name, self.models[1])
            self.check()
        for model in self.models:
            model.connection.resume()
        await settle()
        self.check()
        await settle()
        self.check()
        for model in self.models:
            assert model.next_event() is None, "it never came"

    async def do(self, name: str, model: Model) -> None:
        rng, height = self._rng, self._rng.randrange(self.chain.height + 3)
        some = frozenset(rng.sample(range(PARTIES), rng.choice([1, 1, 2, 5])))
        if name == "commit":
            for _ in range(rng.choice([1, 1, 1, 4])):
                self.bench.commit(*self.made(rng.choice([0, 1, 3, 20, 60])))
        elif name == "some time":
            for _ in range(rng.choice([1, 2, 5, 50])):
                await asyncio.sleep(0)
        elif name.startswith("follow"):
            model.follow(some, height if "from" in name else None)
        elif name == "unfollow":
            model.unfollow(rng.choice([some, some, None]))
        elif name == "no blocks":
            model.unfollow_blocks()
        elif name.startswith("blocks"):
            model.follow_blocks(height if "from" in name else None)
        elif name == "prune":
            self.chain.base = max(self.chain.base, min(height, self.chain.height))
        elif name == "revert":
            self.revert(max(self.chain.base, min(height, self.chain.height)))
        elif name == "pause":
            model.connection.paused = True
        elif name == "resume":
            model.connection.resume()
        else:
            model.reconnect()

    def made(self, count: int) -> list[Tx]:
        self._nonce += count
        party = partial(self._rng.randrange, PARTIES)
        return [transfer(party(), self._nonce - number, to=party()) for number in range(count)]

    def revert(self, height: int) -> None:
        for model in self.models:
            model.check()
        self.chain.cut(height)
        self.bench.hub.on_reverted(height)
        for model in self.models:
            assert model.connection.closed == (4205, f"the chain was reverted to block {height}")
            model.forget_above(height)
            model.reconnect()

    def check(self) -> None:
        for model in self.models:
            self.events += model.check()
            if model.connection.closed is not None:
                # It was behind what is kept now.
                assert model.connection.closed[0] == 1013
                model.reconnect()


@pytest.mark.parametrize(
    ("located", "kept", "few", "chunk"), [(256, 16, 64, 16), (3, 1, 0, 1), (1, 16, 0, 1), (20, 1, 64, 16)]
)
def test_each_payment_comes_once_and_in_order(located: int, kept: int, few: int, chunk: int) -> None:
    """With limits so low that short chains reach them."""
    events = 0
    for seed in range(SEED, SEED + PLAYS // 4):
        play = Play(random.Random(seed))
        with (
            patch.object(payment_search, "MOST_LOCATED", located),
            patch.object(payment_search, "FEW_LOCATED", located // 4),
            patch.object(payments, "KEPT_BLOCKS", kept),
            patch.object(payments, "FEW_ADDRESSES", few),
            patch.object(payments, "CHUNK_RECORDS", chunk),
        ):
            try:
                run_virtual(play.run())
            except AssertionError as failure:
                raise AssertionError(f"PAYMENTS_SEED={seed}") from failure
        events += play.events
    assert events > 100 * PLAYS // 4
