"""What all connections of a worker share: limits, the clock, what serves requests, and the headers of every answer."""

import asyncio
from email.utils import formatdate
from typing import Protocol

from starlette.types import ASGIApp

from cairn import metrics
from cairn.api.bodies import encode_problem
from cairn.api.chain_view import ChainView
from cairn.api.failures import error_of
from cairn.api.server.access import RateLimiter, client_of
from cairn.api.server.client_budgets import ClientBudget
from cairn.api.server.connection_slots import ConnectionSlots
from cairn.api.server.exchange import RouteTable
from cairn.api.server.http_heads import CLOSE, NO_STORE, Header, encode_lines, whole_response
from cairn.api.server.trusted_proxies import TrustedProxies
from cairn.config import Settings
from cairn.domain.errors import NodeError
from cairn.metrics import RouteTraffic
from cairn.metrics_page import OTHER
from cairn.running_clock import RunningClock
from cairn.time_shares import TimeShares

MAX_SWEEP_INTERVAL_S = 1.0


class OpenConnection(Protocol):
    """An open connection, HTTP or WebSocket."""

    transport: asyncio.Transport

    def finish(self) -> None:
        """The worker stops: finish the current answers, then end."""


class ServerState:
    """One per worker. `refresh` is called about once a second."""

    def __init__(
        self,
        view: ChainView,
        app: ASGIApp,
        hot: RouteTable,
        limiter: RateLimiter,
        shares: TimeShares,
        settings: Settings,
    ) -> None:
        self._view = view
        self.app = app
        self.hot = hot
        self.limiter = limiter
        self.shares = shares
        self.proxies = TrustedProxies(settings)
        self.slots = ConnectionSlots(settings)
        self.unanswered_bytes = ClientBudget(settings.max_unanswered_bytes)
        self._traffic = {route: metrics.HTTP.of_route(route) for route in metrics.ROUTES}
        self.max_message_bytes = settings.ws_max_message_bytes
        # While this worker is paused, its clients' time-outs are, too: it has not read what they sent meanwhile.
        self._clock = RunningClock(0.0, MAX_SWEEP_INTERVAL_S)
        self.adjust(settings)
        self.connections: set[OpenConnection] = set()
        self.tasks: set[asyncio.Task[object]] = set()
        """What the application is at."""
        self.common_headers: list[Header] = []
        self.common_lines = b""
        """The same, as they are written."""
        self.now = 0.0
        """As of the last refresh: exact enough for time-outs, and free to read."""
        self.refresh(0.0)

    def adjust(self, settings: Settings) -> None:
        """Apply the limits and time-outs of these settings from now on."""
        self.header_timeout_s = settings.header_timeout_s
        self.idle_timeout_s = settings.idle_timeout_s
        self.first_byte_timeout_s = settings.first_byte_timeout_s
        shortest_s = min(self.header_timeout_s, self.idle_timeout_s, self.first_byte_timeout_s)
        self._clock.interval_s = self.sweep_interval_s = min(MAX_SWEEP_INTERVAL_S, shortest_s / 2)
        self.unanswered_bytes.resize(settings.max_unanswered_bytes)
        self.proxies.adjust(settings)
        self.limiter.adjust(settings)
        self.slots.adjust(settings)

    def refresh(self, time: float) -> None:
        self.now = self._clock.look(time)
        self.common_headers = [(b"date", formatdate(usegmt=True).encode())]
        if self._view.chain_id is not None:
            self.common_headers.append((b"x-chain-id", str(self._view.chain_id).encode()))
        self.common_lines = encode_lines(self.common_headers)
        self.hot.refresh(self.common_lines)

    def payer_of(self, peer: object) -> str:
        """Whose time is used until it is known whose request it is. A proxy's clients do not wait for each other."""
        if not isinstance(peer, tuple):
            return client_of("")
        address = str(peer[0])
        return f"{address} {peer[1]}" if self.proxies.trusts(address) else client_of(address)

    def keep(self, task: "asyncio.Task[object]") -> None:
        """Until it ends: the event loop itself would not."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def response(self, status: int, headers: list[Header], body: bytes) -> bytes:
        """The whole response."""
        return whole_response(self.common_lines, status, headers, body)

    def traffic_of(self, route: str) -> RouteTraffic:
        """Where the answers of a route are counted that is served by the application; those of none count, too."""
        return self._traffic.get(route) or self._traffic[OTHER]

    def unrouted_problem(self, error: NodeError) -> bytes:
        """The whole last response on a connection, where the application was never asked."""
        status, headers, body = encode_problem(error)
        self.traffic_of("").answered(status, 0.0)
        return self.response(status, [*headers, NO_STORE, CLOSE], body)

    def error_of(self, failure: BaseException, **request: object) -> NodeError:
        """The error that the client is told; whatever is no error of ours is logged."""
        return error_of(failure, self._view.fail, **request)

    def problem(self, error: NodeError, *extra: Header) -> bytes:
        """The whole response."""
        status, headers, body = encode_problem(error)
        return self.response(status, [*headers, NO_STORE, *extra], body)
