"""A node's application under the calls of CometBFT, on a real chain, with real signatures."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cairn.domain.genesis import Genesis, chain_identity, dev_genesis
from cairn.domain.governance import (
    Admins,
    Governance,
    ValidatorRecord,
    ValidatorUpdate,
    encode_update,
    first_governance,
)
from cairn.domain.transactions import decode_record, encode_tx
from cairn.domain.transition import BlockOutcome
from cairn.domain.types import DropReason, Tx, TxHash
from cairn.domain.updates import before_of, sign_update
from cairn.engine.abci import requests as m
from cairn.engine.application import Application, Feed
from cairn.engine.network.abci_application import NetworkApplication
from cairn.engine.network.bundle import encode_bundle
from cairn.engine.network.checks import Refusals
from cairn.engine.network.halt import Halt
from cairn.engine.network.overlay import Overlay
from cairn.engine.network.parsed_txs import ParsedTxs
from cairn.engine.network.state_sync import Snapshots
from cairn.mempool.order import HERE, RETURNED
from cairn.mempool.pool import Mempool, PoolLimits
from cairn.store.chain import ChainStore
from cairn.store.directory import snapshots_path
from tests.support.core_fixtures import ACCOUNTS, CHAIN_ID, KEYS, signed

NS = 1_000_000_000
FEES = ACCOUNTS[9]
VALIDATOR = ValidatorRecord(b"\x07" * 32, 10, FEES, "first")
SECOND = ValidatorRecord(b"\x08" * 32, 10, ACCOUNTS[8], "second")
GENESIS = msgspec.structs.replace(
    dev_genesis(), signer=None, validators=(VALIDATOR,), admins=Admins(2, (ACCOUNTS[0], ACCOUNTS[1], ACCOUNTS[2]))
)
FIRST_GOVERNANCE = first_governance(GENESIS.validators, GENESIS.admins)
_T = TypeVar("_T")


class Recorder:
    """Does on a commit what the core does, and notes the rest."""

    def __init__(self, pool: Mempool) -> None:
        self._pool = pool
        self.committed_heights: list[int] = []
        self.drops: list[tuple[TxHash, DropReason]] = []
        self.stale: set[TxHash] = set()
        self.decided_upon = 0
        self.shown_before: list[set[TxHash]] = []
        """What was pending before each commit."""

    def deciding(self) -> None:
        self.decided_upon += 1

    def committing(self) -> None:
        self.shown_before.append({entry.tx.hash for entry in self._pool.page(1_000).entries})

    def committed(self, outcome: BlockOutcome) -> int:
        self.committed_heights.append(outcome.block.header.height)
        self.drops += self._pool.confirm(outcome.block.txs)
        return 0

    def dropped(self, drops: Sequence[tuple[TxHash, DropReason]]) -> None:
        self.drops += drops

    def is_any_stale(self, txs: Iterable[Tx]) -> bool:
        return any(tx.hash in self.stale for tx in txs)


class Node:
    def __init__(self, directory: Path, genesis: Genesis = GENESIS) -> None:
        self.chain = ChainStore.open(directory, genesis)
        self.pool = Mempool(genesis.rules, PoolLimits(), self.chain, is_shared=True)
        self.parsed_txs = ParsedTxs(genesis.chain_id, genesis.gas_price)
        self.events = Recorder(self.pool)
        self.heard: list[int] = []
        self.seconds = 0.0
        """How long it has run, as far as its budgets know."""
        self._shelf = Snapshots(self.chain, snapshots_path(directory), 0)
        feed = Feed()
        feed.subscribe(self.heard.append)
        self.app = NetworkApplication(
            Application(self.chain, feed),
            self.chain,
            self.pool,
            Overlay(self.chain),
            self.parsed_txs,
            self.events,
            Refusals(lambda: self.seconds),
            lambda: 1_000.0,
            self._shelf,
            Halt(0),
            0,
        )

    def close(self) -> None:
        self._shelf.close()
        self.app.close()
        self.chain.close()

    def check(self, raw: bytes, recheck: bool = False) -> m.TxResult:
        return settle(lambda: self.app.check_tx(m.CheckTxRequest(raw, recheck)))

    def prepare(self, raws: Sequence[bytes], max_tx_bytes: int = 10**6) -> Sequence[bytes]:
        request = m.PrepareProposalRequest(
            raws, self.next_height, NS, VALIDATOR.engine_address, max_tx_bytes=max_tx_bytes
        )
        return settle(lambda: self.app.prepare_proposal(request))

    def process(self, raws: Sequence[bytes], time_s: float = 2e9, **more: Any) -> bool:
        return settle(lambda: self.app.process_proposal(self.block(m.ProcessProposalRequest, raws, time_s, **more)))

    def finalize(self, raws: Sequence[bytes], time_s: float = 2e9, **more: Any) -> m.FinalizeBlockResponse:
        return settle(lambda: self.app.finalize_block(self.block(m.FinalizeBlockRequest, raws, time_s, **more)))

    def block(
        self, kind: Callable[..., _T], raws: Sequence[bytes], time_s: float, height: int | None = None, **more: Any
    ) -> _T:
        return kind(
            txs=raws,
            height=self.next_height if height is None else height,
            time_ns=int(time_s * NS),
            proposer_address=VALIDATOR.engine_address,
            **more,
        )

    def pending_count(self) -> int:
        return self.pool.pending_count

    def returned(self) -> list[Tx]:
        """What of the pool CometBFT refused or threw out since the last call."""
        entries = [entry for entry in self.pool.order.entries_since(0) if entry.delivery is RETURNED]
        for entry in entries:
            entry.delivery = HERE
        return [entry.tx for entry in reversed(entries)]

    def mined(self, height: int) -> list[Tx]:
        return [decode_record(record) for record in self.chain.records(height)]

    @property
    def next_height(self) -> int:
        return self.chain.head_header.height + 1


def settle(call: Callable[[], _T | Awaitable[_T]]) -> _T:
    async def answer() -> _T:
        result = call()
        return await result if isinstance(result, Awaitable) else result

    return asyncio.run(answer())


def raw(nonce: int, data: bytes = b"", **fields: int) -> bytes:
    return encode_tx(signed(nonce, data=data, **fields), CHAIN_ID)


def update(
    sequence: int, validator: ValidatorRecord, *signers: int, governance: Governance = FIRST_GOVERNANCE
) -> bytes:
    """An update of this governance, but for its number."""
    keys = [KEYS[ACCOUNTS[signer]] for signer in signers]
    unsigned = ValidatorUpdate(sequence, validator, before_of(governance, validator))
    return encode_update(sign_update(unsigned, keys, chain_identity(GENESIS)))


def bundle(*nonces: int, sender: int = 0) -> bytes:
    return encode_bundle([raw(nonce, sender=sender) for nonce in nonces])
