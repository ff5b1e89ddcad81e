"""Polls of a block filter that reach workers of which each shows the chain up to another block."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import cast

from cairn.api.rpc.filter_methods import FilterMethods
from cairn.api.rpc.rpc_chain import RpcChain
from cairn.core.admission import Arrivals
from cairn.core.filters import Filters
from cairn.mempool.pool import Mempool, PoolLimits
from tests.support.transfers import RULES, Accounts


class Worker:
    """What a poll needs of a worker's view: the blocks up to `height`. The hash of each is its number."""

    reverts = base = 0

    def __init__(self, height: int) -> None:
        self.height = height

    async def reach_head(self) -> int:
        return self.height

    def block_hash(self, height: int) -> bytes:
        assert height <= self.height, f"block {height} cannot be read yet"
        return height.to_bytes(32)

    async def in_slices(self, items: Iterable[int], reverts: int) -> AsyncIterator[int]:
        for item in items:
            yield item


class Chain:
    """All that the methods use of a chain: the worker's view, and the core's filters."""

    def __init__(self, worker: Worker, filters: Filters) -> None:
        self.view, self.gateway = worker, filters


async def test_a_block_that_a_worker_cannot_read_yet_is_in_a_later_poll_and_none_is_left_out() -> None:
    head = 5
    pool = Mempool(RULES, PoolLimits(), Accounts())
    filters = Filters(lambda: head, Arrivals(pool, asyncio.get_running_loop()), lambda: 0.0)
    name = await filters.create_filter("blocks", "client")
    polls = []
    # Each poll may reach a worker that is behind the core, or behind the one before.
    for head, shown in ((7, 5), (7, 6), (8, 5), (9, 8), (9, 6), (9, 9), (9, 9)):  # noqa: B007
        methods = FilterMethods(cast(RpcChain, Chain(Worker(shown), filters)))
        polls.append([int(each, 16) for each in await methods.get_changes(name)])
    assert polls == [[], [6], [], [7, 8], [], [9], []]
