"""Clients that read slowly, or not at all: they cost the node little, others nothing, and themselves no event."""

import asyncio

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.frames import Opcode

from cairn.api.server import websocket_protocol
from cairn.config import Settings
from tests.support.event_client import (
    connect_idle,
    connect_raw,
    connect_to,
    read_to_the_end,
    receive,
    receive_many,
    wait_for,
)
from tests.support.event_server import (
    EventServer,
    MemoryChain,
    event_server,
    hex_of,
    tx_hash_of,
    virtual_event_server,
)
from tests.support.pace import PATIENCE_S
from tests.support.virtual_time import virtual_loop

SMALL = Settings(ws_buffer_bytes=8_192, ws_stall_timeout_s=0.3)
HELD_BYTES = 8_192 + 64 * 200
"""What the process may hold for one socket: its buffer and the chunk of messages that overfilled it."""

ONE_READ_BYTES = 256 * 1024
"""What the event loop reads at once, and answers before it looks at the buffer again."""


def heights(messages: list[dict[str, object]]) -> list[object]:
    return [message["blockHeight"] for message in messages if message["event"] == "newBlock"]


def held_bytes(server: EventServer) -> int:
    return max((connection.transport.get_write_buffer_size() for connection in server.connections), default=0)


def is_closed(server: EventServer) -> bool:
    """Whether the node has said so to anyone who may not have read it yet."""
    return any(connection.close_sent for connection in server.connections)


@pytest.fixture
def patient_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """However late this machine lets a client read its close frame, the node keeps it for that long."""
    monkeypatch.setattr(websocket_protocol, "LINGER_S", PATIENCE_S)


@pytest.mark.usefixtures("patient_linger")
async def test_a_client_that_stops_reading_is_closed_with_1013_and_resumes() -> None:
    async with event_server(MemoryChain(3_000), SMALL) as server:
        async with connect_idle(server, "?newBlock&fromHeight=0") as idle, connect_to(server, "?newBlock") as live:
            assert (await receive(live))["event"] == "subscribed"
            for _ in range(500):
                server.commit()
            assert heights(await receive_many(live, 500)) == list(range(3_000, 3_500))
            assert held_bytes(server) < HELD_BYTES
            await wait_for(lambda: is_closed(server))
            # It reads again: all that was written is there, then the reason.
            before, code = await read_to_the_end(idle)
            assert code == 1013
        seen = heights(before)
        assert 0 < len(seen) < 3_500
        assert seen == list(range(len(seen)))
        async with connect_to(server, f"?newBlock&fromHeight={len(seen)}") as resumed:
            assert (await receive(resumed))["event"] == "subscribed"
            assert heights(await receive_many(resumed, 3_500 - len(seen))) == list(range(len(seen), 3_500))
            server.commit()
            assert heights([await receive(resumed)]) == [3_500]


@pytest.mark.virtual_time
async def test_a_client_that_reads_slowly_but_steadily_gets_everything() -> None:
    async with (
        virtual_event_server(MemoryChain(3_000), Settings(ws_buffer_bytes=8_192)) as server,
        connect_idle(server, f"?newBlock&fromHeight=0&txConfirmed={hex_of(tx_hash_of(7))}") as slow,
    ):
        await receive_many(slow, 2)
        messages = []
        for turn in range(30):
            messages += await receive_many(slow, 100)
            server.commit([tx_hash_of(turn)])
            await asyncio.sleep(4)
        messages += await receive_many(slow, 31)
        assert heights(messages) == list(range(3_030))
        place = messages.index({"event": "txConfirmed", "txHash": hex_of(tx_hash_of(7)), "blockHeight": 3_007})
        assert messages[place - 1]["blockHeight"] == 3_007


@pytest.mark.usefixtures("patient_linger")
@pytest.mark.parametrize(
    ("frame", "most_bytes"),
    [((b"{}", Opcode.TEXT), HELD_BYTES), ((b"x" * 100, Opcode.PING), HELD_BYTES + ONE_READ_BYTES)],
    ids=["messages", "pings"],
)
async def test_answers_to_a_client_that_does_not_read_do_not_pile_up(
    frame: tuple[bytes, Opcode], most_bytes: int
) -> None:
    async with event_server(settings=SMALL) as server, connect_raw(server, room_bytes=2_048) as client:
        await client.upgrade()
        for _ in range(20_000):
            client.send_frame(*frame)

        def is_closed_for_little() -> bool:
            assert held_bytes(server) < most_bytes
            return is_closed(server)

        await wait_for(is_closed_for_little)
        assert await client.read_close_code() == 1013


@pytest.mark.virtual_time
async def test_a_client_that_never_reads_again_is_cut_off() -> None:
    async with (
        virtual_event_server(MemoryChain(10_000), Settings(ws_buffer_bytes=8_192)) as server,
        connect_raw(server, 2_048) as stuck,
        connect_raw(server, 2_048) as half_closed,
    ):
        for client in (stuck, half_closed):
            await client.upgrade("/events?newBlock&fromHeight=0")
        await wait_for(lambda: all(connection.paused for connection in server.connections))
        half_closed.writer.write_eof()
        await asyncio.sleep(9)
        assert len(server.connections) == 2
        await asyncio.sleep(29)
        assert is_closed(server)
        await asyncio.sleep(3)
        assert not server.connections


@pytest.mark.virtual_time
async def test_a_stop_does_not_wait_for_a_client_that_does_not_read() -> None:
    async with (
        virtual_event_server(MemoryChain(10_000), Settings(ws_buffer_bytes=8_192)) as server,
        connect_raw(server, 2_048) as stuck,
    ):
        await stuck.upgrade("/events?newBlock&fromHeight=0")
        await wait_for(lambda: held_bytes(server) > 0)
        server.hub.close_all(1001)
        server.server.stop()
        await asyncio.sleep(3)
        assert not server.connections


@pytest.mark.virtual_time
async def test_a_client_that_answers_no_ping_is_closed() -> None:
    async with (
        virtual_event_server() as server,
        connect_raw(server) as silent,
        connect_to(server, "?newBlock") as alive,
    ):
        await silent.upgrade()
        assert (await receive(alive))["event"] == "subscribed"
        assert (await silent.read_frame())[0] == Opcode.PING
        assert await silent.read_close_code() == 1013
        await asyncio.sleep(100)
        server.commit()
        assert heights([await receive(alive)]) == [1]


async def read_in_bursts(client: ClientConnection, count: int, pause_s: float) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = []
    while len(messages) < count:
        messages += await receive_many(client, min(100, count - len(messages)))
        await asyncio.sleep(pause_s)
    return messages


@pytest.mark.virtual_time
@pytest.mark.parametrize("pause_s", [1, 4])
async def test_a_ping_behind_a_long_replay_does_not_count(pause_s: float) -> None:
    async with (
        virtual_event_server(
            MemoryChain(3_000), Settings(ws_buffer_bytes=8_192, ws_ping_interval_s=3), pong_timeout_s=2.5
        ) as server,
        connect_idle(server, "?newBlock&fromHeight=0") as slow,
    ):
        # Each burst drains less than what is buffered, so that every ping is answered late.
        messages = await read_in_bursts(slow, 2_501, pause_s)
        messages += await receive_many(slow, 500)
        assert heights(messages) == list(range(3_000))


# A node that stood still, as on a machine whose processors others took. Its clients did what they must; it is the node
# that has not read it yet, and they may have stood still with it.


@pytest.mark.virtual_time
async def test_a_pause_of_the_node_is_no_missing_answer_to_a_ping() -> None:
    async with virtual_event_server() as server, connect_raw(server) as client:
        await client.upgrade()
        for _ in range(3):
            opcode, payload = await client.read_frame()
            assert opcode == Opcode.PING
            virtual_loop().spend(100)
            await asyncio.sleep(1)
            client.send_frame(payload, Opcode.PONG)
        await asyncio.sleep(1)
        assert not is_closed(server)
        await client.read_frame()
        # It is still a limit.
        assert await client.read_close_code() == 1013


@pytest.mark.virtual_time
async def test_a_pause_of_the_node_is_no_stall_of_a_client() -> None:
    async with (
        virtual_event_server(MemoryChain(3_000), Settings(ws_buffer_bytes=8_192)) as server,
        connect_idle(server, "?newBlock&fromHeight=0") as slow,
    ):
        await wait_for(lambda: held_bytes(server) > 0)
        virtual_loop().spend(100)
        await asyncio.sleep(1)
        assert heights(await receive_many(slow, 3_001)) == list(range(3_000))
