"""Opens a chain, finds that its disk cannot be read, closes it and opens it again. Run by test_unreadable.py."""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

from cairn.domain.errors import StoreUnavailable
from cairn.domain.genesis import DEV_KEYS, dev_genesis
from cairn.store import keys
from cairn.store.chain import ChainStore
from tests.chaos.shim import Control, DiskFault, Operation

READS: dict[str, Callable[[ChainStore], object]] = {
    "account": lambda store: store.account(DEV_KEYS[0][0]),
    "walk": lambda store: list(store.accounts_at(0)),
    "scan": lambda store: list(store._database.scan(keys.ACCOUNTS)),
}


def main(directory: Path, read: str) -> None:
    control = Control(Path(os.environ["CHAOS_CONTROL"]))
    ChainStore.open(directory, dev_genesis()).close()
    store = ChainStore.open(directory, dev_genesis())
    control.begin(DiskFault(Operation.READ, errno.EIO))
    failed: StoreUnavailable | None = None
    try:
        READS[read](store)
    except StoreUnavailable as failure:
        # Kept, as by the core that it ended: with it every frame on its way, and all that those hold.
        failed = failure
    control.end()
    assert failed is not None
    store.close()
    ChainStore.open(directory, dev_genesis()).close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
