"""A small real application for CometBFT: `python -m tests.support.counter_app SOCKET DIRECTORY`.

A transaction is a decimal number, a colon and anything that makes it unique; the state is the sum of all numbers and a
chain of hashes over what was applied. It keeps the rules that any application must keep: nothing written before Commit,
one atomic write there, and the same answers on every node.
"""

import asyncio
import hashlib
import os
import signal
import sys
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path

import msgspec

from cairn.engine.abci import requests as m
from cairn.engine.abci.server import AbciServer
from cairn.engine.abci.wire import proposed_size_bytes
from cairn.log import configure_logging

GENESIS_HASH = hashlib.sha256(b"counter").digest()
MALFORMED = 1
SEEN = 2


class State(msgspec.Struct, frozen=True):
    height: int = 0
    total: int = 0
    app_hash: bytes = GENESIS_HASH
    seen: frozenset[bytes] = frozenset()

    def applied(self, height: int, txs: Iterable[bytes]) -> tuple["State", list[m.TxResult]]:
        total, app_hash, seen = self.total, self.app_hash, set(self.seen)
        results = []
        for tx in txs:
            code = code_of(tx, seen)
            if code == 0:
                total += int(tx.split(b":")[0])
                app_hash = hashlib.sha256(app_hash + tx).digest()
                seen.add(tx)
            results.append(m.TxResult(code))
        return State(height, total, app_hash, frozenset(seen)), results


def code_of(tx: bytes, seen: Iterable[bytes]) -> int:
    number, colon, _ = tx.partition(b":")
    if not number.isdigit() or not colon:
        return MALFORMED
    return SEEN if tx in seen else 0


class CounterApp:
    """Its state is one file, replaced whole."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "state.json"
        self.state = msgspec.json.decode(self._path.read_bytes(), type=State) if self._path.exists() else State()
        self._finalized = self.state

    def info(self) -> m.InfoResponse:
        return m.InfoResponse(self.state.height, self.state.app_hash if self.state.height else b"")

    def query(self, path: str) -> m.QueryResponse:
        return m.QueryResponse(value=str(self.state.total).encode(), height=self.state.height)

    def check_tx(self, request: m.CheckTxRequest) -> m.TxResult | Awaitable[m.TxResult]:
        if request.recheck:
            return m.TxResult(code_of(request.tx, self.state.seen))
        # Stands for sender recovery: starts now, off the loop, and is awaited in turn.
        digest = asyncio.get_running_loop().run_in_executor(None, hashlib.sha256, request.tx)
        return self._checked(request.tx, digest)

    async def _checked(self, tx: bytes, digest: Awaitable[object]) -> m.TxResult:
        await digest
        return m.TxResult(code_of(tx, self.state.seen))

    def init_chain(self, request: m.InitChainRequest) -> bytes:
        assert len(request.validators) == 1
        return GENESIS_HASH

    def prepare_proposal(self, request: m.PrepareProposalRequest) -> Sequence[bytes]:
        chosen: dict[bytes, None] = {}
        room_bytes = request.max_tx_bytes
        for tx in request.txs:
            room_bytes -= proposed_size_bytes(tx)
            if room_bytes >= 0 and code_of(tx, self.state.seen) == 0:
                chosen[tx] = None
        return list(chosen)

    async def process_proposal(self, request: m.ProcessProposalRequest) -> bool:
        await asyncio.sleep(0)
        _, results = self.state.applied(request.height, request.txs)
        return all(result.code == 0 for result in results)

    def extend_vote(self) -> bytes:
        return b""

    def verify_vote_extension(self, extension: bytes) -> bool:
        return not extension

    def finalize_block(self, request: m.FinalizeBlockRequest) -> m.FinalizeBlockResponse:
        self._finalized, results = self.state.applied(request.height, request.txs)
        return m.FinalizeBlockResponse(results, self._finalized.app_hash)

    def commit(self) -> int:
        new = self._path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(msgspec.json.encode(self._finalized))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        self.state = self._finalized
        return 0

    def list_snapshots(self) -> Sequence[m.Snapshot]:
        return ()

    def offer_snapshot(self, request: m.OfferSnapshotRequest) -> m.OfferSnapshotResult:
        return m.OfferSnapshotResult.REJECT

    def load_snapshot_chunk(self, request: m.LoadSnapshotChunkRequest) -> bytes:
        return b""

    def apply_snapshot_chunk(self, request: m.ApplySnapshotChunkRequest) -> m.ApplySnapshotChunkResponse:
        return m.ApplySnapshotChunkResponse(m.ApplySnapshotChunkResult.ABORT)


async def serve(socket: Path, directory: Path) -> None:
    server = AbciServer(CounterApp(directory))
    await server.listen(socket)
    stopped = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set_result, None)
    await asyncio.wait({stopped, server.failed}, return_when=asyncio.FIRST_COMPLETED)
    await server.close()


if __name__ == "__main__":
    configure_logging("debug", "json")
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2])))
