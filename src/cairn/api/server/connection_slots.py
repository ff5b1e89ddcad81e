"""The connections of a worker, and what a new one gets: a slot, a slot for probes only, or nothing.

The number of slots is limited per client and in all. When all slots are taken, idle connections are closed, those of
the client with the most connections first, so that idle clients do not keep others out. Probes are always answered, on
extra slots.
"""

from collections.abc import Callable
from typing import Protocol

from cairn.api.server.access import client_of, is_local
from cairn.api.server.trusted_proxies import TrustedProxies
from cairn.config import Settings

PROBE_SLOTS = 64
"""Extra connections, which answer one probe each; the oldest is closed for a new one."""
FREED_AT_ONCE = 1 / 32
"""The share of all slots that is freed at once: looking for idle ones takes time, and a flood would cause it often."""


class SlotOwner(Protocol):
    """A connection that can be closed to make room."""

    @property
    def is_idle(self) -> bool:
        """Nothing is being received, and no answer is due."""

    def leave(self) -> None: ...


class ConnectionSlot:
    """The slot of a connection; `give_up` may be called more than once."""

    __slots__ = ("_give_up", "client", "is_for_probes", "owner")

    def __init__(
        self,
        owner: SlotOwner | None,
        client: str,
        give_up: "Callable[[ConnectionSlot], None]",
        is_for_probes: bool = False,
    ) -> None:
        self.owner = owner
        """None once it has gone, or is a WebSocket: only its own limits end it."""
        self.client = client
        """The client that it counts for."""
        self.is_for_probes = is_for_probes
        self._give_up = give_up

    def give_up(self) -> None:
        self._give_up(self)
        self.owner = None


class ConnectionSlots:
    """One per worker, with its share of what the settings allow: the system spreads connections over the workers.

    A proxy may have any number of connections. Each counts for the client that the latest request on it is from.
    """

    def __init__(self, settings: Settings) -> None:
        self._proxies = TrustedProxies(settings)
        self.adjust(settings)
        self._by_client: dict[str, dict[ConnectionSlot, None]] = {}
        """By client, each one's in the order of arrival."""
        self._taken = 0
        self._probe_slots: dict[ConnectionSlot, None] = {}
        self._searched_at = float("-inf")

    def adjust(self, settings: Settings) -> None:
        """Give new connections slots by these limits; those that have one keep it."""
        self._proxies.adjust(settings)
        workers = max(1, settings.workers)
        self._most = -(-settings.max_connections // workers)
        self._most_per_client = -(-settings.max_connections_per_client // workers)

    @property
    def taken(self) -> int:
        """How many connections have a slot, besides those for probes."""
        return self._taken

    def admit(self, client: str, owner: SlotOwner, now: float) -> ConnectionSlot:
        """A slot for the connection, or else one for a probe."""
        return self.take(client, owner, now) or self.take_for_probe(owner)

    def take(self, client: str, owner: SlotOwner, now: float) -> ConnectionSlot | None:
        """A slot for the connection; None if all that it may have are taken."""
        if not self._proxies.trusts(client) and self._has_all(client):
            return None
        if self._taken >= self._most and not self._free_some(now):
            return None
        slot = ConnectionSlot(owner, client_of(client), self._give_up)
        self._by_client.setdefault(slot.client, {})[slot] = None
        self._taken += 1
        return slot

    def move(self, slot: ConnectionSlot, client: str) -> bool:
        """Count a proxy's connection for the client that asks on it now; False if that one has all it may have."""
        counted_for = client_of(client)
        held = self._by_client.get(slot.client)
        if slot.client == counted_for or held is None or slot not in held:
            return True
        if self._has_all(client):
            return False
        self._give_up(slot)
        slot.client = counted_for
        self._by_client.setdefault(counted_for, {})[slot] = None
        self._taken += 1
        return True

    def _has_all(self, client: str) -> bool:
        """Whether the client has as many connections as it may have."""
        if not self._most_per_client or (is_local(client) and not self._proxies):
            return False
        return len(self._by_client.get(client_of(client), ())) >= self._most_per_client

    def take_for_probe(self, owner: SlotOwner) -> ConnectionSlot:
        """A slot for a probe; if there is none, the oldest such connection is closed."""
        if len(self._probe_slots) >= PROBE_SLOTS:
            oldest = next(iter(self._probe_slots))
            assert oldest.owner is not None
            oldest.owner.leave()
            oldest.give_up()
        slot = ConnectionSlot(owner, "", self._free_probe_slot, is_for_probes=True)
        self._probe_slots[slot] = None
        return slot

    def _free_probe_slot(self, slot: ConnectionSlot) -> None:
        self._probe_slots.pop(slot, None)

    def _give_up(self, slot: ConnectionSlot) -> None:
        held = self._by_client.get(slot.client)
        if held is not None and slot in held:
            del held[slot]
            self._taken -= 1
            if not held:
                del self._by_client[slot.client]

    def _free_some(self, now: float) -> bool:
        """Close idle connections. Returns whether there is a slot now."""
        if self._searched_at == now:
            # The clock advances about once a second, and there was none just now.
            return False
        wanted = max(1, int(self._most * FREED_AT_ONCE))
        for held in sorted(self._by_client.values(), key=len, reverse=True):
            idle = [slot for slot in held if slot.owner is not None and slot.owner.is_idle][:wanted]
            for slot in idle:
                assert slot.owner is not None
                slot.owner.leave()
                slot.give_up()
            if idle:
                return True
        self._searched_at = now
        return False
