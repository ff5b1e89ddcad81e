"""A core on a real directory, with dev keys, for tests that drive it in process."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from cairn.config import Settings
from cairn.core.gateway import MempoolListener
from cairn.core.service import Core
from cairn.domain.genesis import DEV_KEYS, dev_genesis
from cairn.domain.transition import BlockOutcome
from cairn.domain.txs import sign_draft
from cairn.domain.types import Address, Draft, DropReason, Tx, TxHash
from cairn.engine.embedded import EmbeddedEngine

CHAIN_ID = 1337
GWEI = 10**9
KEYS = dict(DEV_KEYS)
ACCOUNTS = list(KEYS)


def settings(**changes: object) -> Settings:
    """Blocks come only when asked for, unless a test says otherwise."""
    return replace(Settings(), **({"block_time_s": 3600.0} | changes))  # type: ignore[arg-type]


def signed(nonce: int, *, sender: int = 0, value: int = 1, gas_price: int = GWEI) -> Tx:
    address = ACCOUNTS[sender]
    draft = Draft(address, ACCOUNTS[(sender + 1) % 10], value, 21_000, gas_price, nonce)
    return sign_draft(draft, KEYS[address], CHAIN_ID)


def produce(core: Core) -> BlockOutcome:
    """Make a block now, of what the mempool holds."""
    assert isinstance(core.engine, EmbeddedEngine), "only a node that makes its blocks alone does so on demand"
    return core.engine.produce()


class Told:
    """What a core told of its mempool, in order."""

    def __init__(self) -> None:
        self.dropped: list[tuple[TxHash, DropReason]] = []
        self.arrived: list[Tx] = []

    def on_dropped(self, tx_hash: TxHash, reason: DropReason) -> None:
        self.dropped.append((tx_hash, reason))

    def on_arrived(self, txs: Sequence[Tx]) -> None:
        self.arrived.extend(txs)


def open_core(
    directory: Path,
    node_settings: Settings | None = None,
    listener: MempoolListener | None = None,
    keys: Mapping[Address, bytes] = KEYS,
) -> Core:
    return Core.open(dev_genesis(), directory, node_settings or settings(), keys, listener or Told())


@asynccontextmanager
async def opened_core(
    directory: Path, node_settings: Settings | None = None, listener: MempoolListener | None = None
) -> AsyncIterator[Core]:
    core = open_core(directory, node_settings, listener)
    core.start()
    try:
        yield core
    finally:
        await core.stop()


def make_block(core: Core) -> int:
    """Make one block now. Returns its height."""
    return produce(core).block.header.height
