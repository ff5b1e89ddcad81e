"""A core on a real directory, with dev keys, for tests that drive it in process."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from cairn.board import Board
from cairn.config import Settings
from cairn.core import opening
from cairn.core.gateway import MempoolListener
from cairn.core.idempotency_keys import IdempotencyKeys
from cairn.core.service import Core
from cairn.domain.genesis import DEV_KEYS, Genesis, dev_genesis
from cairn.domain.transactions import sign_draft
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import ACCESS_LIST, DYNAMIC_FEE, LEGACY, Address, Draft, DropReason, Tx, TxHash
from cairn.engine.embedded import EmbeddedEngine
from tests.support.tx_data import gas_of

CHAIN_ID = 1337
GWEI = 10**9
KEYS = dict(DEV_KEYS)
ACCOUNTS = list(KEYS)
MIXED_PRICES = (GWEI, 2 * GWEI, GWEI + 5, GWEI + 3)
"""What each of `signed_of_each_type` pays for a unit of gas, where the base fee is 1 gwei."""


def settings(**changes: object) -> Settings:
    """Blocks come only when asked for, unless a test says otherwise."""
    return replace(Settings(), **({"block_time_s": 3600.0} | changes))  # type: ignore[arg-type]


def signed(
    nonce: int,
    *,
    sender: int = 0,
    value: int = 1,
    gas_price: int = GWEI,
    kind: int = LEGACY,
    max_fee: int = 0,
    max_tip: int = 0,
    data: bytes = b"",
) -> Tx:
    address, to = ACCOUNTS[sender], ACCOUNTS[(sender + 1) % 10]
    draft = Draft(address, to, value, gas_of(data), gas_price, nonce, kind, max_fee, max_tip, data)
    return sign_draft(draft, KEYS[address], CHAIN_ID)


def signed_of_each_type() -> list[Tx]:
    """Four by one sender: the last two are of type 2, one with its whole tip and one whose cap cuts it."""
    return [
        signed(0, gas_price=MIXED_PRICES[0]),
        signed(1, gas_price=MIXED_PRICES[1], kind=ACCESS_LIST),
        signed(2, gas_price=MIXED_PRICES[2], kind=DYNAMIC_FEE, max_fee=3 * GWEI, max_tip=5),
        signed(3, gas_price=MIXED_PRICES[3], kind=DYNAMIC_FEE, max_fee=GWEI + 3, max_tip=7),
    ]


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
    genesis: Genesis | None = None,
    board: Board | None = None,
    idempotency_keys: IdempotencyKeys | None = None,
) -> Core:
    chosen, told = genesis or dev_genesis(), listener or Told()
    return opening.open_core(
        chosen, directory, node_settings or settings(), keys, told, board=board, idempotency_keys=idempotency_keys
    )


@asynccontextmanager
async def opened_core(
    directory: Path,
    node_settings: Settings | None = None,
    listener: MempoolListener | None = None,
    genesis: Genesis | None = None,
    board: Board | None = None,
    idempotency_keys: IdempotencyKeys | None = None,
) -> AsyncIterator[Core]:
    core = open_core(
        directory, node_settings, listener, genesis=genesis, board=board, idempotency_keys=idempotency_keys
    )
    core.start()
    try:
        yield core
    finally:
        await core.stop()
        if core.failed.done() and not core.failed.cancelled():
            # Looked at, as the core's process does: a revert ends a core by an error, too.
            core.failed.exception()


def make_block(core: Core) -> int:
    """Make one block now. Returns its height."""
    return produce(core).block.header.height
