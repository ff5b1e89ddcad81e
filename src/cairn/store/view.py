"""A data directory as it is at one moment, for commands that read all of it, even beside the node that writes it."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cairn.domain.errors import Corrupt, WrongGenesis
from cairn.domain.genesis import Genesis, genesis_digest, genesis_outcome
from cairn.store import keys
from cairn.store.directory import is_locked
from cairn.store.follower import FollowerStore
from cairn.store.rocks import Database


class StoreView(FollowerStore):
    """Shows blocks even if parts of them are missing: whoever reads them says which."""

    def is_whole(self, height: int) -> bool:
        return True

    @property
    def database(self) -> Database:
        return self._database


class WholeView(StoreView):
    """As a node's worker sees it: beside a writer a secondary may lack a part for a moment, which is no damage."""

    def is_whole(self, height: int) -> bool:
        return FollowerStore.is_whole(self, height)


@contextmanager
def opened_view(directory: Path) -> Iterator[StoreView]:
    """A view until the end of the `with` block. Raises `WrongFormat`, `Corrupt` or `StoreUnavailable`."""
    with ExitStack() as held:
        scratch = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="cairn-view-")))
        view: StoreView
        try:
            view = (WholeView if is_locked(directory) else StoreView).open(directory, scratch)
        except Corrupt:
            # A damaged block among the newest.
            view = StoreView.open(directory, scratch)
        held.callback(view.close)
        yield view


def show_as_started(view: StoreView) -> None:
    """Show a stopped node's store as its next start does, which goes by the store itself.

    The block that was written just before a kill is there, and was not announced. The watermark may still have an
    oldest block that is removed by now: it is synced only with the next block.
    """
    head, base = (view.database.get(keys.META, key) for key in (keys.HEAD_KEY, keys.BASE_KEY))
    if head is not None and keys.decode_head(head).height == view.visible + 1:
        view.visible += 1
    view.base = 0 if base is None else keys.decode_height(base)


def check_genesis(view: StoreView, genesis: Genesis) -> None:
    """Raise `WrongGenesis` if it is another chain's. The record of it may be damaged: then block 0 tells."""
    stored, digest = view.database.get(keys.META, keys.GENESIS_KEY), genesis_digest(genesis)
    if stored == digest or view.find_block_hash(0) == genesis_outcome(genesis).block.hash:
        return
    shown = "none" if stored is None else "0x" + stored.hex()
    raise WrongGenesis(f"the chain belongs to genesis {shown}, not to the given 0x{digest.hex()}")
