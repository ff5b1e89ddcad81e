"""The connections that a worker holds, and what a new one gets: a place, room for a probe, or nothing.

Each client has so many, and all clients together. When all places are taken, connections on which nothing is being
asked make room, those of the client that has most of them first: who only holds connections takes none from others. And
there is always room for a probe: it is asked most when much else fails.
"""

from collections.abc import Callable
from typing import Protocol

from cairn.api.server.access import client_of, is_loopback
from cairn.config import Settings

PROBE_ROOM = 64
"""Connections beyond all places, on which only probes are answered, once each; the oldest makes room for a new one."""
FREED_AT_ONCE = 1 / 32
"""Of all places, when some must be freed: looking for idle ones takes time, and a flood would ask for it each time."""


class Guest(Protocol):
    """A connection that can be asked to leave."""

    @property
    def is_idle(self) -> bool:
        """Nothing is being received, and no answer is due."""

    def leave(self) -> None: ...


class Place:
    """What a connection holds from its beginning to its end; `give_up` may be called more than once."""

    __slots__ = ("_give_up", "guest")

    def __init__(self, guest: Guest | None, give_up: "Callable[[Place], None]") -> None:
        self.guest = guest
        """None once it is a WebSocket: only its own limits end it."""
        self._give_up = give_up

    def give_up(self) -> None:
        self._give_up(self)


class Occupancy:
    """One per worker, with its share of what the settings allow: the system spreads connections over the workers."""

    def __init__(self, settings: Settings) -> None:
        workers = max(1, settings.workers)
        self._most = -(-settings.max_connections // workers)
        self._most_per_client = -(-settings.max_connections_per_client // workers)
        self._places: dict[str, dict[Place, None]] = {}
        """By client, each one's in the order in which they came."""
        self._taken = 0
        self._room: dict[Place, None] = {}
        self._searched_at = float("-inf")

    def take(self, client: str, guest: Guest, now: float) -> Place | None:
        """A place for the connection; None when there is only `room` for a probe."""
        key = client_of(client)
        held = self._places.get(key, {})
        if self._most_per_client and len(held) >= self._most_per_client and not is_loopback(client):
            return None
        if self._taken >= self._most and not self._free_some(now):
            return None
        place = Place(guest, lambda place: self._give_up(key, place))
        self._places.setdefault(key, {})[place] = None
        self._taken += 1
        return place

    def room(self, guest: Guest) -> Place:
        """Room for a probe; the oldest of those that have been given one leaves when there is none."""
        if len(self._room) >= PROBE_ROOM:
            oldest = next(iter(self._room))
            assert oldest.guest is not None
            oldest.guest.leave()
            oldest.give_up()
        place = Place(guest, lambda place: self._room.pop(place, None))
        self._room[place] = None
        return place

    def _give_up(self, key: str, place: Place) -> None:
        held = self._places.get(key)
        if held is not None and place in held:
            del held[place]
            self._taken -= 1
            if not held:
                del self._places[key]

    def _free_some(self, now: float) -> bool:
        """Ask idle connections to leave. Returns whether there is a place now."""
        if self._searched_at == now:
            # The clock stands still for about a second, and it found none just now.
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
