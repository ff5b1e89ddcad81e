"""Defects that there once were, to be put back: a simulator that does not find them finds nothing."""

import asyncio
import random
from collections.abc import Iterable
from unittest import mock

import cairn.store.prune
from cairn.domain.types import Address
from cairn.mempool.drops import Drop
from cairn.mempool.pool import Mempool
from cairn.mempool.unheld import UnheldTx
from cairn.store import keys
from cairn.store.rocks import Batch, Database
from tests.simulation.machinery import SmallJournal
from tests.simulation.world import World

NAMES = ("prune", "journal", "hang", "dropped")


def _remove_replaced(database: Database, batch: Batch, addresses: Iterable[Address], height: int) -> None:
    """Takes it for granted that a block made a new version of each account that it names."""
    cursor = database.cursor(keys.ACCOUNTS)
    for address in sorted(addresses):
        entry = cursor.seek(keys.version_key(address, height - 1)) if height else None
        if entry is not None and entry[0].startswith(address):
            batch.delete(keys.ACCOUNTS, entry[0])


async def _wait_for_ever(world: World, rng: random.Random) -> None:
    """As for an answer that a node which ended still owed."""
    await asyncio.get_running_loop().create_future()


def _end(pool: Mempool, left: UnheldTx) -> Drop:
    """Takes it for granted that nobody else holds what leaves this mempool."""
    return pool.drops.note(left.tx.hash, left.reason)


def put_back(name: str) -> None:
    """For the rest of this process."""
    if name == "prune":
        mock.patch.object(cairn.store.prune, "_remove_replaced", _remove_replaced).start()
    elif name == "journal":
        # A journal that nobody knows the ends of passes as whole without them.
        SmallJournal.is_bounded = False
    elif name == "dropped":
        mock.patch.object(Mempool, "leave", _end).start()
    elif name == "hang":
        mock.patch.object(World, "_submit", _wait_for_ever).start()
    else:
        raise ValueError(f"{name} is none of {', '.join(NAMES)}")
