"""Filters of JSON-RPC clients that poll over HTTP. They are in the core, since each poll may reach another worker."""

import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence

import msgspec

from cairn.core.admission import Arrivals
from cairn.core.gateway import FilterCalls, FilterChanges, FilterKind
from cairn.domain.types import Tx, TxHash

MAX_FILTERS = 1_000
"""A client may hold at most half of what the others leave, so there is always room for another one."""
IDLE_S = 60.0
"""A filter that was unused for this long may be replaced. Clients poll every few seconds."""
LIFETIME_S = 300.0
"""A filter that is unused for this long is removed, as in geth."""
REMEMBERED_TXS = 10_000
"""A client that polls after more arrivals than this gets only the newest."""


class _Filter(msgspec.Struct):
    kind: FilterKind
    client: str
    place: int
    """The next height, or the next arrival number, that the client needs."""
    asked_at: float


class Filters(FilterCalls):
    def __init__(self, head: Callable[[], int], arrivals: Arrivals, clock: Callable[[], float]) -> None:
        self._head = head
        self._arrivals = arrivals
        self._clock = clock
        self._filters: OrderedDict[str, _Filter] = OrderedDict()
        """The most recently used is last."""
        self._txs: deque[TxHash] = deque(maxlen=REMEMBERED_TXS)
        self._tx_count = 0
        """How many have arrived; the newest of them are in `_txs`."""

    async def create_filter(self, kind: FilterKind, client: str) -> str | None:
        self._expire()
        held = Counter(each.client for each in self._filters.values())
        if held[client] >= MAX_FILTERS - len(self._filters) and not self._make_room(client, held):
            return None
        if kind == "transactions":
            self._arrivals.listen(self._arrived)
        name = hex(secrets.randbits(128))
        place = self._head() + 1 if kind == "blocks" else self._tx_count
        self._filters[name] = _Filter(kind, client, place, self._clock())
        return name

    def _make_room(self, client: str, held: Counter[str]) -> bool:
        """Remove an idle filter of this client, or of one that holds as many. Returns whether there was one."""
        limit = self._clock() - IDLE_S
        for name, each in self._filters.items():
            if each.asked_at > limit:
                return False
            if held[each.client] >= held[client]:
                self._remove(name)
                return True
        return False

    async def find_changes(self, filter_name: str, shown: int) -> FilterChanges | None:
        self._expire()
        found = self._filters.get(filter_name)
        if found is None:
            return None
        # Collect the arrivals up to now.
        self._arrivals.tell()
        found.asked_at = self._clock()
        self._filters.move_to_end(filter_name)
        place = found.place
        if found.kind == "blocks":
            # Another worker may have shown a higher block before.
            found.place = max(place, min(shown, self._head()) + 1)
            return FilterChanges(found.kind, first_height=place, last_height=found.place - 1)
        if found.kind == "transactions":
            found.place = self._tx_count
            fresh = min(found.place - place, len(self._txs))
            return FilterChanges(found.kind, tx_hashes=list(self._txs)[len(self._txs) - fresh :])
        return FilterChanges(found.kind)

    async def remove_filter(self, filter_name: str) -> bool:
        return self._remove(filter_name)

    def _remove(self, name: str) -> bool:
        removed = self._filters.pop(name, None) is not None
        self._rest()
        return removed

    def _arrived(self, txs: Sequence[Tx]) -> None:
        self._tx_count += len(txs)
        self._txs.extend(tx.hash for tx in txs)

    def _expire(self) -> None:
        limit = self._clock() - LIFETIME_S
        while self._filters and next(iter(self._filters.values())).asked_at < limit:
            self._filters.popitem(last=False)
        self._rest()

    def _rest(self) -> None:
        """Stop listening to arrivals when no filter needs them."""
        if not any(each.kind == "transactions" for each in self._filters.values()):
            self._arrivals.forget(self._arrived)
            self._txs.clear()
