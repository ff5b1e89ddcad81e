"""Opens a chain on a disk that cannot be read for a moment, and opens it again. Run by test_unreadable.py."""

import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from cairn.domain.errors import StoreUnavailable
from cairn.domain.genesis import DEV_KEYS, dev_genesis
from cairn.store import keys
from cairn.store.chain import ChainStore
from tests.chaos.shim import Control, DiskFault, Operation
from tests.support.blocks import extend
from tests.support.disk import only_file

READS: dict[str, Callable[[ChainStore], object]] = {
    "account": lambda store: store.account(DEV_KEYS[0][0]),
    "walk": lambda store: list(store.accounts_at(0)),
    "scan": lambda store: list(store._database.scan(keys.ACCOUNTS)),
}
"""Of a store that is open."""
OPENINGS = {"opening": b"", "opening of a torn log": b"torn"}
"""And what a crash has left at the end of its log."""
BLOCKS = 3
AT_ONCE = 4
"""Reads that fail one after the other: an opening takes a hundred."""


def main(directory: Path, read: str) -> None:
    control = Control(Path(os.environ["CHAOS_CONTROL"]))
    if read in READS:
        fail_to_read(control, directory, READS[read])
    else:
        fail_to_open(control, directory, OPENINGS[read])


def fail_to_read(control: Control, directory: Path, read: Callable[[ChainStore], object]) -> None:
    ChainStore.open(directory, dev_genesis()).close()
    store = ChainStore.open(directory, dev_genesis())
    control.begin(DiskFault(Operation.READ, errno.EIO))
    failed: StoreUnavailable | None = None
    try:
        read(store)
    except StoreUnavailable as failure:
        # Kept, as by the core that it ended: with it every frame on its way, and all that those hold.
        failed = failure
    control.end()
    assert failed is not None
    store.close()
    ChainStore.open(directory, dev_genesis()).close()


def fail_to_open(control: Control, directory: Path, tail: bytes) -> None:
    """At all reads that an opening takes, a few at a time: no block may go, and no damage be seen."""
    crashed = crashed_chain(directory, tail)
    number = failures = 0
    while True:
        copy = directory / "copy"
        shutil.copytree(crashed, copy)
        control.begin(DiskFault(Operation.READ, errno.EIO, number, number + AT_ONCE))
        try:
            ChainStore.open(copy, dev_genesis()).close()
        except StoreUnavailable:
            failures += 1
        if not control.end():
            break
        store = ChainStore.open(copy, dev_genesis())
        assert store.visible == BLOCKS, f"read {number} failed, and the chain then had {store.visible} blocks"
        store.close()
        shutil.rmtree(copy)
        number += AT_ONCE
    assert failures, "no failed read was noticed"


def crashed_chain(directory: Path, tail: bytes) -> Path:
    """As a kill leaves it: everything is in the log."""
    store = ChainStore.open(directory / "chain", dev_genesis())
    for _ in range(BLOCKS):
        extend(store, [])
    crashed = directory / "crashed"
    shutil.copytree(directory / "chain", crashed)
    store.close()
    with only_file(crashed / "chain", "*.log").open("ab") as log:
        log.write(tail)
    return crashed


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
