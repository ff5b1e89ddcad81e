"""The core of a node in a network, without its CometBFT: a test says what was decided."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cairn.core.opening import open_core
from cairn.core.service import Core
from cairn.domain.genesis import Genesis, dev_genesis
from cairn.domain.types import Tx
from cairn.engine.network.engine import NetworkEngine
from tests.support.core_fixtures import ACCOUNTS, Told, settings


def open_member(
    directory: Path, listener: Told | None = None, genesis: Genesis | None = None, **changes: object
) -> Core:
    """The core of a node in a network."""
    member_settings = settings(engine="cometbft", **changes)
    socket = directory.parent / "abci.sock"
    return open_core(genesis or dev_genesis(), directory, member_settings, {}, listener or Told(), socket)


@asynccontextmanager
async def opened_member(
    directory: Path, listener: Told | None = None, genesis: Genesis | None = None, **changes: object
) -> AsyncIterator[Core]:
    core = open_member(directory, listener, genesis, **changes)
    try:
        yield core
    finally:
        await core.stop()


async def decide(core: Core, *txs: Tx) -> None:
    """The network has decided a block, and everybody is told of what follows."""
    engine = core.engine
    assert isinstance(engine, NetworkEngine)
    engine._blocks.finalize(txs, 0, ACCOUNTS[9])
    engine.committed(engine._blocks.commit())
    await asyncio.sleep(0.01)
