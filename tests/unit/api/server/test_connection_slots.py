"""How many connections a client may hold, which ones make room, and that a probe is always answered."""

import json
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from cairn.api.server import connection_slots as slots_module
from cairn.api.server.connection_slots import ConnectionSlot, ConnectionSlots
from cairn.config import Settings
from tests.support.core_fixtures import signed
from tests.support.rest_server import Answer, get, post_tx, rest_server, wait_until

pytestmark = pytest.mark.uvloop

ONE_WORKER = replace(Settings(), workers=1)
WEBSOCKET = (
    "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)  # fmt: skip


class Sitting:
    """A connection that is idle or not, as the test says."""

    def __init__(self, is_idle: bool = True) -> None:
        self.is_idle = is_idle
        self.has_left = False

    def leave(self) -> None:
        self.has_left = True


def assert_refused(answer: Answer) -> None:
    assert (answer.status, json.loads(answer.body)["code"]) == (503, "TOO_MANY_CONNECTIONS")
    assert int(answer.headers["retry-after"]) > 0


# The count.


def test_a_client_has_its_share_and_others_have_theirs() -> None:
    slots = ConnectionSlots(replace(ONE_WORKER, max_connections_per_client=2))
    held = [slots.take("192.0.2.1", Sitting(), 0) for _ in range(3)]
    assert [slot is not None for slot in held] == [True, True, False]
    assert slots.take("192.0.2.2", Sitting(), 0) is not None
    assert held[0] is not None
    held[0].give_up()
    held[0].give_up()
    assert slots.take("192.0.2.1", Sitting(), 0) is not None, "its slot is free again"
    assert slots.take("192.0.2.1", Sitting(), 0) is None, "and only once"


def test_changed_limits_hold_for_new_connections_and_end_no_old_one() -> None:
    slots = ConnectionSlots(replace(ONE_WORKER, max_connections_per_client=3))
    sitting = [Sitting() for _ in range(3)]
    assert all(slots.take("192.0.2.1", each, 0) for each in sitting)
    slots.adjust(replace(ONE_WORKER, max_connections_per_client=1))
    assert slots.take("192.0.2.1", Sitting(), 0) is None
    assert not any(each.has_left for each in sitting)
    slots.adjust(replace(ONE_WORKER, max_connections_per_client=4))
    assert slots.take("192.0.2.1", Sitting(), 0) is not None


def test_an_ipv6_client_is_a_network_and_loopback_is_never_limited() -> None:
    slots = ConnectionSlots(replace(ONE_WORKER, max_connections_per_client=1))
    assert slots.take("2001:db8::1", Sitting(), 0) is not None
    assert slots.take("2001:db8::2", Sitting(), 0) is None
    assert all(slots.take("127.0.0.1", Sitting(), 0) for _ in range(10))


def test_zero_is_no_limit_of_its_own() -> None:
    slots = ConnectionSlots(replace(ONE_WORKER, max_connections_per_client=0))
    assert all(slots.take("192.0.2.1", Sitting(), 0) for _ in range(2_000))


def test_each_worker_has_an_equal_share() -> None:
    slots = ConnectionSlots(replace(Settings(), workers=3, max_connections=4, max_connections_per_client=0))
    busy = [slots.take("192.0.2.1", Sitting(is_idle=False), 0) for _ in range(3)]
    assert [slot is not None for slot in busy] == [True, True, False]


def test_idle_connections_make_room_those_of_the_client_with_most_first() -> None:
    slots = ConnectionSlots(replace(ONE_WORKER, max_connections=6))
    alone, others = Sitting(), [Sitting() for _ in range(4)]
    busy = Sitting(is_idle=False)
    assert slots.take("192.0.2.1", alone, 0)
    assert slots.take("192.0.2.2", busy, 0)
    assert all(slots.take("192.0.2.2", other, 0) for other in others)
    assert slots.take("192.0.2.3", Sitting(), 0) is not None
    assert [other.has_left for other in others] == [True, False, False, False], "the oldest"
    assert not alone.has_left
    assert not busy.has_left


def test_none_is_idle() -> None:
    slots = ConnectionSlots(replace(ONE_WORKER, max_connections=2))
    first = Sitting(is_idle=False)
    held = [slots.take("192.0.2.1", first, 0), slots.take("192.0.2.2", Sitting(is_idle=False), 0)]
    assert slots.take("192.0.2.3", Sitting(), 0) is None
    first.is_idle = True
    assert slots.take("192.0.2.3", Sitting(), 0) is None, "nobody searches again and again in the same second"
    assert slots.take("192.0.2.3", Sitting(), 1) is not None
    assert first.has_left
    assert all(held)


def test_a_websocket_does_not_make_room() -> None:
    slots = ConnectionSlots(replace(ONE_WORKER, max_connections=1))
    slot = slots.take("192.0.2.1", Sitting(), 0)
    assert slot is not None
    slot.owner = None
    assert slots.take("192.0.2.2", Sitting(), 0) is None


def test_the_oldest_probe_makes_room_for_a_new_one() -> None:
    slots = ConnectionSlots(ONE_WORKER)
    owners = [Sitting() for _ in range(slots_module.PROBE_SLOTS + 2)]
    held: list[ConnectionSlot] = [slots.take_for_probe(owner) for owner in owners[:2]]
    held[0].give_up()
    for owner in owners[2:]:
        slots.take_for_probe(owner)
    assert [owner.has_left for owner in owners[:3]] == [False, True, False]


# On real sockets.


async def test_who_only_holds_connections_takes_none_from_others() -> None:
    """Many more than there are slots, from one address, and idle ever after."""
    async with rest_server(replace(ONE_WORKER, max_connections=100)) as server, AsyncExitStack() as stack:
        for _ in range(120):
            await stack.enter_async_context(server.client(address="127.0.0.2"))
        for path in ("/health", "/nothing"):
            async with server.client() as client:
                assert (await client.ask(get(path))).status == (200 if path == "/health" else 404)


async def test_a_probe_is_answered_when_all_places_are_in_use() -> None:
    async with rest_server(replace(Settings(), max_connections=4, workers=2)) as server:
        async with server.client() as first, server.client() as second:
            for nonce, client in enumerate((first, second)):
                client.write(post_tx(signed(nonce)))
            await server.submissions(2)
            async with server.client() as probe:
                answer = await probe.ask(get("/health?x"))
                assert (answer.status, answer.headers["connection"]) == (200, "close")
                assert await probe.rest() == b"", "and nothing else on that connection"
            for path, headers in (("/", ()), ("/tx/0x" + "ab" * 32, ()), ("/events", WEBSOCKET)):
                async with server.client() as refused:
                    assert_refused(await refused.ask(get(path, *headers)))
                    assert await refused.rest() == b""
            async with server.client() as upgrading:
                answer = await upgrading.ask(get("/ready", "Connection: upgrade", "Upgrade: h2c"))
                assert answer.status == 200
            async with server.client() as submitting:
                assert_refused(await submitting.ask(post_tx(signed(2))))
            server.core.admit_all()
            assert [(await client.answer()).status for client in (first, second)] == [200, 200]
        await server.no_connections()
        async with server.client() as later:
            assert (await later.ask(get("/"))).status == 200


async def test_silent_connections_leave_room_for_probes() -> None:
    """The slots are taken by WebSockets, and the room beyond them by many that say nothing."""
    async with rest_server(replace(ONE_WORKER, max_connections=1)) as server, AsyncExitStack() as stack:
        socket = await stack.enter_async_context(server.client())
        assert (await socket.ask(get("/events", *WEBSOCKET))).status == 101
        for _ in range(slots_module.PROBE_SLOTS * 2):
            await stack.enter_async_context(server.client())
        probe = await stack.enter_async_context(server.client())
        assert (await probe.ask(get("/health"))).status == 200


async def test_a_client_has_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots_module, "is_local", lambda client: False)
    async with (
        rest_server(replace(ONE_WORKER, max_connections_per_client=2)) as server,
        server.client() as first,
        server.client() as second,
    ):
        assert (await first.ask(get("/events", *WEBSOCKET))).status == 101
        assert (await second.ask(get("/"))).status == 200
        async with server.client() as third:
            assert_refused(await third.ask(get("/")))
        async with server.client() as probe:
            assert (await probe.ask(get("/ready"))).status == 200
        async with server.client(address="127.0.0.2") as other:
            assert (await other.ask(get("/"))).status == 200
        first.abort()
        await wait_until(lambda: len(server.server.connections) < 2)
        async with server.client() as third:
            assert (await third.ask(get("/"))).status == 200, "the WebSocket has given its slot back"


async def test_a_connection_that_says_nothing_ends_sooner_than_an_idle_one() -> None:
    async with (
        rest_server(replace(ONE_WORKER, first_byte_timeout_s=0.2)) as server,
        server.client() as silent,
        server.client() as used,
    ):
        assert (await used.ask(get("/health"))).status == 200
        await server.accepted(2)
        server.pass_time(1)
        assert await silent.rest() == b""
        await server.accepted(1)
        assert (await used.ask(get("/health"))).status == 200
