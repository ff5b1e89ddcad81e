"""The three probes. They must answer correctly even when everything else is stuck."""

import asyncio

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from cairn.api.bodies import encoded
from cairn.api.chain_view import ChainView
from cairn.api.routing import Answer, Operation
from cairn.core.gateway import CoreGateway
from cairn.domain.answers import NOT_KNOWN, Checks, Probe, Readiness
from cairn.domain.errors import NodeError
from cairn.engine.application import OK
from cairn.heartbeat import Work, find_work_of_core
from cairn.running_clock import Countdown

CHECK_TIMEOUT_S = 3.0
"""A core that makes a full block on a busy machine is silent for a second; one that is silent for longer is stuck."""
CHECK_LIFETIME_S = 1.0


class Probes:
    def __init__(self, gateway: CoreGateway, view: ChainView) -> None:
        self._gateway = gateway
        self._view = view
        self._checking: asyncio.Task[Checks] | None = None
        self._started_at = 0.0

    @Operation("GET /health", "probes", Answer("The process answers.", Probe))
    async def get_health(self, request: Request) -> Response:
        """Is the process alive? It uses neither the store nor the core."""
        return encoded(Probe("alive"))

    @Operation(
        "GET /startup",
        "probes",
        Answer("The store is open and the mempool is restored.", Probe),
        Answer("The store is not open and checked yet, or the mempool is not restored.", Probe, status=503),
    )
    async def get_startup(self, request: Request) -> Response:
        """Has the node finished starting?

        The node listens before its store is open. Until the store is open, this probe fails.
        """
        view = self._view
        if view.phase == "starting" or view.info is None:
            return encoded(Probe("starting"), status=503)
        return encoded(Probe("started"))

    @Operation(
        "GET /ready",
        "probes",
        Answer("Writing to and reading from every part worked.", Readiness),
        Answer("The node is starting or stopping, or the named part fails.", Readiness, status=503),
    )
    async def get_ready(self, request: Request) -> Response:
        """Can the node accept transactions?

        The node writes to its store, reads back, and checks the mempool and whether blocks are made. The answer names
        the part at fault: `disk`, `core`, `engine` or `peers`.
        """
        view = self._view
        if view.phase in ("starting", "draining"):
            return encoded(Readiness(view.phase, without_core(view.reason)), status=503)
        checks = await self._checked()
        if checks.store == OK and view.height < 0:
            checks = replace(checks, store="this worker has not opened the store yet")
        # Changes of the phase arrive before the check's answer, so the phase that is read now is up to date. The check
        # may be older, and from before the core was gone.
        if view.phase != "ready" and checks == ALL_OK:
            checks = without_core(view.reason or f"the node is {view.phase}")
        is_ready = view.phase == "ready" and checks == ALL_OK
        status = view.phase if view.phase != "ready" or is_ready else "unavailable"
        return encoded(Readiness(status, checks), status=200 if is_ready else 503)

    async def _checked(self) -> Checks:
        """A real write and read of every part, shared by all probes within a second."""
        now = asyncio.get_running_loop().time()
        if self._checking is None or (self._checking.done() and now - self._started_at >= CHECK_LIFETIME_S):
            self._started_at = now
            self._checking = asyncio.create_task(self._check())
        return await asyncio.shield(self._checking)

    async def _check(self) -> Checks:
        loop = asyncio.get_running_loop()
        too_late = loop.create_future()
        checking = asyncio.ensure_future(self._gateway.check())
        # If this worker paused, the core may have answered meanwhile.
        countdown = Countdown(loop, CHECK_TIMEOUT_S, lambda: too_late.set_result(None))
        try:
            await asyncio.wait([checking, too_late], return_when=asyncio.FIRST_COMPLETED)
            if checking.done():
                return checking.result()
        except NodeError as failure:
            return without_core(failure.detail)
        finally:
            countdown.cancel()
            checking.cancel()
        if find_work_of_core() is Work.DISK:
            slow = f"the core has waited for the disk for more than {CHECK_TIMEOUT_S:g} s"
            return Checks(slow, slow, disk=slow, engine=NOT_KNOWN, peers=NOT_KNOWN)
        return without_core(f"the core did not answer within {CHECK_TIMEOUT_S:g} s")


ALL_OK = Checks(OK, OK)


def without_core(reason: str) -> Checks:
    """While the core cannot be asked."""
    return Checks(reason, reason, disk=NOT_KNOWN, core=reason, engine=NOT_KNOWN, peers=NOT_KNOWN)
