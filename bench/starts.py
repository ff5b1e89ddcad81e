"""What the state tree takes at a start: after a stop, after a kill, and without its file.

python -m bench.starts --accounts 1000000
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar
from unittest import mock

import structlog

from bench.prefill import prefill, store_block, stored_tx
from bench.workload import account, bench_genesis
from cairn.domain.genesis import Genesis
from cairn.store import inspection
from cairn.store.chain import ChainStore
from cairn.store.directory import chain_path
from cairn.store.state_recovery import RecoveredTree, recover_tree
from cairn.store.tree_file import tree_path

_T = TypeVar("_T")
SENDERS = 100
PER_BLOCK = 2_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--accounts", type=int, default=100_000)
    parser.add_argument("--payments", type=int, default=0, help="since the file; a fiftieth of the accounts if 0")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    genesis = bench_genesis(SENDERS)
    home = Path(tempfile.mkdtemp(prefix="cairn-starts-"))
    try:
        directory = home / "data"
        prefill(directory, genesis, arguments.accounts - SENDERS)
        _start("without the file", directory, genesis)
        with closing(ChainStore.open(directory, genesis)) as chain:
            _timed("to write the file", chain.save_tree)
            nodes = sum(map(len, chain.tree.levels))
            size = tree_path(chain_path(directory)).stat().st_size
            print(f"{chain.tree.size - 1:,} accounts: {nodes:,} bytes in memory, {size:,} in the file")
        _start("after a stop", directory, genesis)
        payments = arguments.payments or arguments.accounts // 50
        _pay(directory, genesis, arguments.accounts - SENDERS, payments)
        _start(f"after a kill, {payments:,} payments since the file", directory, genesis)
    finally:
        shutil.rmtree(home)


def _pay(directory: Path, genesis: Genesis, first: int, count: int) -> None:
    """Go on where `prefill` ended; the file is not written again."""
    with closing(ChainStore.open(directory, genesis)) as chain:
        for start in range(first, first + count, PER_BLOCK):
            indexes = range(start, min(start + PER_BLOCK, first + count))
            txs = [stored_tx(index, index // SENDERS, account(index % SENDERS)[0]) for index in indexes]
            store_block(chain, txs, chain.head_header.timestamp + 1)


def _start(what: str, directory: Path, genesis: Genesis) -> None:
    def recover(*args: object) -> RecoveredTree:
        return _timed(what, lambda: recover_tree(*args))  # type: ignore[arg-type]

    with mock.patch.object(inspection, "recover_tree", recover):
        ChainStore.open(directory, genesis).close()


def _timed(what: str, work: Callable[[], _T]) -> _T:
    begun_at, cpu_at = time.monotonic(), time.process_time()
    result = work()
    print(f"{what}: {time.process_time() - cpu_at:.3f} s of CPU, {time.monotonic() - begun_at:.3f} s", flush=True)
    return result


if __name__ == "__main__":
    main()
