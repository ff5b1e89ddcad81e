"""The three probes. They must tell the truth while everything else is stuck."""

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cairn.api.chain_view import ChainView
from cairn.api.rest.operation import Answer, Operation
from cairn.api.schemas import Probe, Readiness, ReadinessChecks
from cairn.core.gateway import Checks, CoreGateway
from cairn.countdown import Countdown
from cairn.domain.errors import NodeError

PROBE_PATHS = frozenset({"/health", "/startup", "/ready"})
"""Answered also to those who are refused everything else for asking too much."""
CHECK_TIMEOUT_S = 3.0
"""A core that makes a full block on a busy machine is silent for a second; one that is silent for longer is stuck."""
CHECK_LIFETIME_S = 1.0

_encode = msgspec.json.Encoder().encode


class Probes:
    def __init__(self, gateway: CoreGateway, view: ChainView) -> None:
        self._gateway = gateway
        self._view = view
        self._checking: asyncio.Task[Checks] | None = None
        self._started_at = 0.0

    @Operation("GET /health", "probes", Answer("It is.", Probe))
    async def get_health(self, request: Request) -> Response:
        """Is the service alive? Touches nothing: it tells that the process answers."""
        return _answer(200, Probe("alive"))

    @Operation(
        "GET /startup",
        "probes",
        Answer("It has.", Probe),
        Answer("The store is not open and checked yet, or the mempool is not back.", Probe, status=503),
    )
    async def get_startup(self, request: Request) -> Response:
        """Has the service finished initialising?

        The server listens before the store is open; until then this probe fails.
        """
        view = self._view
        if view.phase == "starting" or view.info is None:
            return _answer(503, Probe("starting"))
        return _answer(200, Probe("started"))

    @Operation(
        "GET /ready",
        "probes",
        Answer("A write and read of every part succeeded.", Readiness),
        Answer("The node starts or stops, or the named part fails.", Readiness, status=503),
    )
    async def get_ready(self, request: Request) -> Response:
        """Can the node accept requests?

        Writes to the store and reads it back, and asks the mempool. The answer names the part that fails.
        """
        view = self._view
        if view.phase in ("starting", "draining"):
            return _answer(503, Readiness(view.phase, ReadinessChecks(view.reason, view.reason)))
        checks = await self._checked()
        store, mempool = checks.store, checks.mempool
        if store == "ok" and view.height < 0:
            store = "this worker has not opened the store yet"
        # The check's answer comes behind every change of phase, so the phase that is read now is the newer one.
        is_ready = view.phase == "ready" and store == mempool == "ok"
        status = view.phase if view.phase != "ready" or is_ready else "unavailable"
        return _answer(200 if is_ready else 503, Readiness(status, ReadinessChecks(store, mempool)))

    async def _checked(self) -> Checks:
        """A real write and read of every part, shared by all who ask within a second."""
        now = asyncio.get_running_loop().time()
        if self._checking is None or (self._checking.done() and now - self._started_at >= CHECK_LIFETIME_S):
            self._started_at = now
            self._checking = asyncio.create_task(self._check())
        return await asyncio.shield(self._checking)

    async def _check(self) -> Checks:
        loop = asyncio.get_running_loop()
        too_late = loop.create_future()
        checking = asyncio.ensure_future(self._gateway.check())
        # A pause of this worker is no silence of the core: its answer may have come meanwhile.
        countdown = Countdown(loop, CHECK_TIMEOUT_S, lambda: too_late.set_result(None))
        try:
            await asyncio.wait([checking, too_late], return_when=asyncio.FIRST_COMPLETED)
            if checking.done():
                return checking.result()
        except NodeError as failure:
            return Checks(failure.detail, failure.detail)
        finally:
            countdown.cancel()
            checking.cancel()
        silent = f"the core did not answer within {CHECK_TIMEOUT_S:g} s"
        return Checks(silent, silent)


def _answer(status: int, body: object) -> Response:
    return Response(_encode(body), status, media_type="application/json")
