"""The probes tell the truth, also while the core is starting, stuck, broken or gone."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response

from cairn import heartbeat
from cairn.api.chain_view import ChainView
from cairn.api.rest.probes import CHECK_LIFETIME_S, CHECK_TIMEOUT_S, Probes
from cairn.domain.answers import Checks
from cairn.domain.errors import NodeError, StoreUnavailable
from cairn.domain.types import Phase
from cairn.heartbeat import SharedPage, Work
from tests.support.scripted_gateway import INFO, ScriptedGateway
from tests.support.virtual_time import virtual_loop

pytestmark = pytest.mark.virtual_time

ALL_OK = Checks("ok", "ok")
REQUEST = Request({"type": "http", "method": "GET", "headers": []})


def view_in(phase: Phase, reason: str = "", height: int = 0) -> ChainView:
    view = ChainView(Path("unused"))
    view.on_phase(phase, reason)
    view.height = height
    if phase != "starting":
        view.info = INFO
    return view


async def asked(probe: Callable[[Request], Awaitable[Response]]) -> tuple[int, Any]:
    response = await probe(REQUEST)
    assert response.headers["content-type"] == "application/json"
    return response.status_code, json.loads(bytes(response.body))


async def asked_ready(view: ChainView, checks: Checks | NodeError = ALL_OK) -> tuple[int, Any]:
    gateway = ScriptedGateway()
    gateway.checks = checks
    return await asked(Probes(gateway, view).get_ready)


@pytest.mark.parametrize("phase", ["starting", "ready", "unavailable", "draining"])
async def test_health_is_200_in_every_phase(phase: Phase) -> None:
    gateway = ScriptedGateway()
    assert await asked(Probes(gateway, view_in(phase)).get_health) == (200, {"status": "alive"})
    assert gateway.checked == 0


async def test_startup_is_503_only_while_starting() -> None:
    assert await asked(Probes(ScriptedGateway(), view_in("starting")).get_startup) == (503, {"status": "starting"})
    for phase in ("ready", "unavailable", "draining"):
        assert await asked(Probes(ScriptedGateway(), view_in(phase)).get_startup) == (200, {"status": "started"})


async def test_startup_is_503_while_the_store_has_never_opened() -> None:
    view = view_in("unavailable", "no space")
    view.info = None
    assert (await asked(Probes(ScriptedGateway(), view).get_startup))[0] == 503


async def test_ready_is_200_when_both_checks_pass() -> None:
    every = dict.fromkeys(("store", "mempool", "disk", "core", "engine", "peers"), "ok")
    assert await asked_ready(view_in("ready")) == (200, {"status": "ready", "checks": every})


@pytest.mark.parametrize("phase", ["starting", "draining"])
async def test_ready_is_503_while_starting_or_draining(phase: Phase) -> None:
    status, body = await asked_ready(view_in(phase, "why"))
    assert (status, body["status"]) == (503, phase)
    assert [part for part, said in body["checks"].items() if said == "why"] == ["store", "mempool", "core"]


@pytest.mark.parametrize(
    "checks",
    [
        Checks("no space left", "closed", disk="no space left"),
        Checks("ok", "read-only", disk="read-only"),
        Checks("ok", "ok", engine="cometbft is not answering"),
        Checks("ok", "ok", peers="no block for 20 s"),
    ],
)
async def test_ready_names_the_part_that_fails(checks: Checks) -> None:
    status, body = await asked_ready(view_in("ready"), checks)
    assert status == 503
    assert body == {"status": "unavailable", "checks": msgspec.structs.asdict(checks)}


async def test_ready_is_503_without_a_core() -> None:
    status, body = await asked_ready(view_in("unavailable"), StoreUnavailable("the core process is gone"))
    assert status == 503
    assert body["checks"]["store"] == "the core process is gone"


async def test_ready_is_503_while_the_worker_cannot_read() -> None:
    status, body = await asked_ready(view_in("ready", height=-1))
    assert status == 503
    assert "this worker" in body["checks"]["store"]


async def test_a_stuck_core_is_named_in_time() -> None:
    gateway = ScriptedGateway()
    gateway.check_delay_s = CHECK_TIMEOUT_S + 1
    status, body = await asked(Probes(gateway, view_in("ready")).get_ready)
    assert status == 503
    assert "did not answer" in body["checks"]["store"]
    assert "did not answer" in body["checks"]["mempool"]
    assert "did not answer" in body["checks"]["core"]
    assert body["checks"]["disk"] == "unknown"


async def test_a_core_that_waits_for_the_disk_is_not_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    page = SharedPage(2)
    page.core.work = Work.DISK
    monkeypatch.setattr(heartbeat, "_own", heartbeat.Heart(page, page.slots[1], 0))
    gateway = ScriptedGateway()
    gateway.check_delay_s = CHECK_TIMEOUT_S + 1
    status, body = await asked(Probes(gateway, view_in("ready")).get_ready)
    assert status == 503
    assert "the disk" in body["checks"]["disk"]
    assert body["checks"]["core"] == "ok"


async def test_a_pause_of_the_worker_is_no_silence_of_the_core() -> None:
    gateway = ScriptedGateway()
    gateway.check_delay_s = CHECK_TIMEOUT_S + 1

    asking = asyncio.ensure_future(Probes(gateway, view_in("ready")).get_ready(REQUEST))
    await asyncio.sleep(0.5)
    virtual_loop().spend(CHECK_TIMEOUT_S)
    assert (await asking).status_code == 200


async def test_a_core_that_is_busy_with_a_full_block_is_ready() -> None:
    gateway = ScriptedGateway()
    gateway.check_delay_s = 1.2
    assert (await asked(Probes(gateway, view_in("ready")).get_ready))[0] == 200


async def test_a_phase_that_changes_during_the_check_counts() -> None:
    view, gateway = view_in("ready"), ScriptedGateway()
    gateway.check_delay_s = 1.0

    asking = asyncio.ensure_future(Probes(gateway, view).get_ready(REQUEST))
    await asyncio.sleep(0.5)
    view.on_phase("draining", "stopping")
    assert (await asking).status_code == 503


async def test_one_check_serves_all_who_ask_within_a_second() -> None:
    gateway = ScriptedGateway()
    gateway.check_delay_s = 0.01
    served = Probes(gateway, view_in("ready"))
    await asyncio.gather(*(served.get_ready(REQUEST) for _ in range(20)))
    await asyncio.sleep(CHECK_LIFETIME_S / 2)
    await served.get_ready(REQUEST)
    assert gateway.checked == 1
    await asyncio.sleep(CHECK_LIFETIME_S / 2)
    await served.get_ready(REQUEST)
    assert gateway.checked == 2


@pytest.mark.parametrize("reason", ["the core is gone", ""])
@pytest.mark.parametrize("phase", ["starting", "unavailable", "draining"])
async def test_a_node_that_is_not_ready_never_shows_both_checks_as_ok(phase: Phase, reason: str) -> None:
    view, gateway = view_in("ready"), ScriptedGateway()
    probes = Probes(gateway, view)
    assert (await asked(probes.get_ready))[0] == 200
    # The check is remembered for a second, in which the core may go; or it goes while the check is under way.
    view.on_phase(phase, reason)
    others = [await asked(probes.get_ready)]
    view.on_phase("ready", "")
    await asyncio.sleep(2 * CHECK_LIFETIME_S)
    gateway.check_delay_s = 0.1
    asking = asyncio.ensure_future(asked(probes.get_ready))
    await asyncio.sleep(0.05)
    view.on_phase(phase, reason)
    others.append(await asking)
    for status, body in others:
        assert status == 503
        assert "ok" not in body["checks"].values()
        assert body["status"] == phase
