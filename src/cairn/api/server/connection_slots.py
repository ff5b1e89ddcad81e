"""The connections of a worker, and what a new one gets: a place, a place for probes only, or nothing.

The number of places is limited per client and in all. When all places are taken, idle connections are closed, those of
the client with the most connections first, so that idle clients do not keep others out. Probes are always answered, on
extra places.
"""

from collections.abc import Callable
from typing import Protocol

from cairn.api.server.access import client_of, is_loopback
from cairn.api.server.trusted_proxies import TrustedProxies
from cairn.config import Settings

PROBE_ROOM = 64
"""Extra connections, which answer one probe each; the oldest is closed for a new one."""
FREED_AT_ONCE = 1 / 32
"""The share of all places that is freed at once: looking for idle ones takes time, and a flood would cause it often."""


class Guest(Protocol):
    """A connection that can be closed to make room."""

    @property
    def is_idle(self) -> bool:
        """Nothing is being received, and no answer is due."""

    def leave(self) -> None: ...


class Place:
    """The place of a connection; `give_up` may be called more than once."""

    __slots__ = ("_give_up", "guest", "holder", "is_for_probes")

    def __init__(
        self, guest: Guest | None, holder: str, give_up: "Callable[[Place], None]", is_for_probes: bool = False
    ) -> None:
        self.guest = guest
        """None once it has gone, or is a WebSocket: only its own limits end it."""
        self.holder = holder
        """The client that it counts for."""
        self.is_for_probes = is_for_probes
        self._give_up = give_up

    def give_up(self) -> None:
        self._give_up(self)
        self.guest = None


class Occupancy:
    """One per worker, with its share of what the settings allow: the system spreads connections over the workers.

    A proxy may have any number of connections. Each counts for the client that the latest request on it is from.
    """

    def __init__(self, settings: Settings) -> None:
        self._proxies = TrustedProxies(settings)
        self.adjust(settings)
        self._places: dict[str, dict[Place, None]] = {}
        """By client, each one's in the order of arrival."""
        self._taken = 0
        self._room: dict[Place, None] = {}
        self._searched_at = float("-inf")

    def adjust(self, settings: Settings) -> None:
        """Give new connections places by these limits; those that have one keep it."""
        self._proxies.adjust(settings)
        workers = max(1, settings.workers)
        self._most = -(-settings.max_connections // workers)
        self._most_per_client = -(-settings.max_connections_per_client // workers)

    def admit(self, client: str, guest: Guest, now: float) -> Place:
        """A place for the connection, or else one for a probe."""
        return self.take(client, guest, now) or self.room(guest)

    def take(self, client: str, guest: Guest, now: float) -> Place | None:
        """A place for the connection; None if there is only `room` for a probe."""
        if not self._proxies.trusts(client) and self._has_all(client):
            return None
        if self._taken >= self._most and not self._free_some(now):
            return None
        place = Place(guest, client_of(client), self._give_up)
        self._places.setdefault(place.holder, {})[place] = None
        self._taken += 1
        return place

    def move(self, place: Place, client: str) -> bool:
        """Count a proxy's connection for the client that asks on it now; False if that one has all it may have."""
        holder = client_of(client)
        held = self._places.get(place.holder)
        if place.holder == holder or held is None or place not in held:
            return True
        if self._has_all(client):
            return False
        self._give_up(place)
        place.holder = holder
        self._places.setdefault(holder, {})[place] = None
        self._taken += 1
        return True

    def _has_all(self, client: str) -> bool:
        """Whether the client has as many connections as it may have."""
        if not self._most_per_client or (is_loopback(client) and not self._proxies):
            return False
        return len(self._places.get(client_of(client), ())) >= self._most_per_client

    def room(self, guest: Guest) -> Place:
        """A place for a probe; if there is none, the oldest such connection is closed."""
        if len(self._room) >= PROBE_ROOM:
            oldest = next(iter(self._room))
            assert oldest.guest is not None
            oldest.guest.leave()
            oldest.give_up()
        place = Place(guest, "", self._leave_room, is_for_probes=True)
        self._room[place] = None
        return place

    def _leave_room(self, place: Place) -> None:
        self._room.pop(place, None)

    def _give_up(self, place: Place) -> None:
        held = self._places.get(place.holder)
        if held is not None and place in held:
            del held[place]
            self._taken -= 1
            if not held:
                del self._places[place.holder]

    def _free_some(self, now: float) -> bool:
        """Close idle connections. Returns whether there is a place now."""
        if self._searched_at == now:
            # The clock advances about once a second, and there was none just now.
            return False
        wanted = max(1, int(self._most * FREED_AT_ONCE))
        for held in sorted(self._places.values(), key=len, reverse=True):
            idle = [place for place in held if place.guest is not None and place.guest.is_idle][:wanted]
            for place in idle:
                assert place.guest is not None
                place.guest.leave()
                place.give_up()
            if idle:
                return True
        self._searched_at = now
        return False
