"""The RPC client against a server that answers as CometBFT does, and as it should not.

Both are on one loop, so time-outs take no time: it passes only when neither has anything left to do.
"""

import asyncio
import base64
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cairn.engine.network.rpc import CometBftRefusal, Rpc, RpcAway
from cairn.running_clock import PARTS
from tests.support.virtual_time import virtual_loop

pytestmark = pytest.mark.virtual_time

Answer = Callable[[object], bytes]
TIMEOUT_S = 2.0
MOST_TURNS = 100
"""Of the event loop: far more than a task that is cancelled needs to end."""


def http(body: bytes, *headers: str) -> bytes:
    head = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


def chunked(body: bytes) -> bytes:
    pieces = [body[start : start + 7] for start in range(0, len(body), 7)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


class Server:
    """It closes a connection when somebody sets `goes`, as CometBFT does with one that is idle."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.goes = False
        """Close the connection instead of the next answer, without a word."""
        self.writer: asyncio.StreamWriter | None = None
        self.requests: list[object] = []
        self.connections = 0
        self.closed = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writer = writer
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.split("content-length: ")[1].split("\r\n")[0])
                self.requests.append(json.loads(await reader.readexactly(length)))
                if self.goes:
                    self.goes = False
                    writer.close()
                    return
                writer.write(self.answer(self.requests[-1]))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
        finally:
            self.closed += 1


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[tuple[Server, Rpc]]:
    server = Server(answer)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rpc.sock"
        listener = await asyncio.start_unix_server(server.serve, path)
        rpc = Rpc(f"unix://{path}", TIMEOUT_S)
        try:
            yield server, rpc
        finally:
            rpc.close()
            listener.close()
            while server.closed < server.connections:
                await asyncio.sleep(0.001)


RESULT = {
    "node_info": {"moniker": "node1"},
    "sync_info": {"latest_block_height": "12", "catching_up": True},
    "validator_info": {"voting_power": "10", "pub_key": {"type": "tendermint/PubKeyEd25519", "value": "AQID"}},
}
STATUS = json.dumps({"jsonrpc": "2.0", "id": 1, "result": RESULT}).encode()


@pytest.mark.parametrize("form", [http, chunked])
async def test_status_over_one_connection(form: Callable[[bytes], bytes]) -> None:
    async with serving(lambda request: form(STATUS)) as (server, rpc):
        for _ in range(3):
            status = await rpc.status()
            assert status.catching_up
            assert (status.is_validator, status.name, status.public_key) == (True, "node1", bytes([1, 2, 3]))
        assert server.connections == 1


@pytest.mark.parametrize(
    ("heights", "latest"), [([], []), (["1"], [0]), (["5", None, "12"], [4, 11]), (["0", "2"], [1])]
)
async def test_the_latest_block_of_each_peer_that_has_told_it(heights: list[str | None], latest: list[int]) -> None:
    states = [None if height is None else {"round_state": {"height": height, "round": 0}} for height in heights]
    peers = [{"node_address": "ab@127.0.0.1:1", "peer_state": state} for state in states]
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"round_state": {}, "peers": peers}}
    async with serving(lambda request: http(json.dumps(answer).encode())) as (server, rpc):
        assert await rpc.peer_heights() == latest
        assert server.requests == [{"jsonrpc": "2.0", "id": 1, "method": "dump_consensus_state"}]


async def test_what_the_peers_are_called() -> None:
    peers = [{"node_info": {"id": each, "moniker": f"node {each}", "network": "n"}} for each in ("ab", "cd")]
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"listening": True, "n_peers": "2", "peers": peers}}
    async with serving(lambda request: http(json.dumps(answer).encode())) as (server, rpc):
        assert await rpc.peer_names() == {"ab": "node ab", "cd": "node cd"}
        assert server.requests == [{"jsonrpc": "2.0", "id": 1, "method": "net_info"}]


async def test_the_votes_of_each_step() -> None:
    rounds = [
        {"round": 0, "prevotes": ["nil-Vote", "Vote{1:AB}"], "precommits": ["nil-Vote"], "prevotes_bit_array": "BA{}"},
        {"round": 1, "prevotes": [], "precommits": []},
    ]
    answer = {"result": {"round_state": {"height/round/step": "4/0/4", "height_vote_set": rounds}}}
    async with serving(lambda request: http(json.dumps(answer).encode())) as (server, rpc):
        assert await rpc.votes() == [["nil-Vote", "Vote{1:AB}"], ["nil-Vote"], [], []]
        assert server.requests == [{"jsonrpc": "2.0", "id": 1, "method": "consensus_state"}]


async def test_a_broadcast_is_accepted_or_refused_with_cometbfts_message() -> None:
    full = {"code": -32603, "message": "Internal error", "data": "mempool is full"}
    answers = iter([{"id": 1, "result": {"code": 0}}, {"id": 1, "error": full}])
    async with serving(lambda request: http(json.dumps(next(answers)).encode())) as (server, rpc):
        assert await rpc.broadcast(b"a") is None
        assert await rpc.broadcast(b"b") == CometBftRefusal(-32603, "Internal error", "mempool is full")
        calls = [call for call in server.requests if isinstance(call, dict)]
        assert [base64.b64decode(call["params"]["tx"]) for call in calls] == [b"a", b"b"]
        assert {call["method"] for call in calls} == {"broadcast_tx_async"}


async def test_a_connection_that_is_to_be_closed_is_not_used_again() -> None:
    async with serving(lambda request: http(STATUS, "Connection: close")) as (server, rpc):
        await rpc.status()
        await rpc.status()
        assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="silence"),
        pytest.param(b"rubbish\r\n\r\n", id="not HTTP"),
        pytest.param(http(b"rubbish"), id="not JSON"),
        pytest.param(http(b'{"error":{"code":1,"message":"not now"}}'), id="an error"),
        pytest.param(http(b'{"result":{}}'), id="another result"),
        pytest.param(
            http(b'{"result":{"round_state":{},"peers":[{"peer_state":{"round_state":{"height":""}}}]}}'),
            id="no number",
        ),
    ],
)
async def test_an_invalid_answer_raises_rpc_away(answer: bytes) -> None:
    async with serving(lambda request: answer) as (_, rpc):
        for call in (rpc.status, rpc.peer_heights, rpc.peer_names, rpc.votes):
            with pytest.raises(RpcAway):
                await call()


async def test_an_answer_that_came_while_this_process_stood_still_is_heard() -> None:
    def answer(request: object) -> bytes:
        virtual_loop().spend(4.0)
        return http(STATUS)

    async with serving(answer) as (_, rpc):
        for _ in range(2):
            assert (await rpc.status()).name == "node1"


@pytest.mark.parametrize(("standstill_s", "ends_after_s"), [(0.0, TIMEOUT_S), (4.0, 4.0 + TIMEOUT_S)])
async def test_silence_ends_a_call_also_after_a_standstill(standstill_s: float, ends_after_s: float) -> None:
    def silent(request: object) -> bytes:
        virtual_loop().spend(standstill_s)
        return b""

    async with serving(silent) as (_, rpc):
        began_at = virtual_loop().now
        with pytest.raises(RpcAway):
            await rpc.status()
        assert virtual_loop().now - began_at == pytest.approx(ends_after_s, abs=TIMEOUT_S / PARTS)


async def test_a_call_ends_though_every_timer_is_late() -> None:
    async def stand_still_again_and_again() -> None:
        while True:
            await asyncio.sleep(TIMEOUT_S / 100)
            virtual_loop().spend(4.0)

    async with serving(lambda request: b"") as (_, rpc):
        standing_still = asyncio.create_task(stand_still_again_and_again())
        with pytest.raises(RpcAway):
            await rpc.status()
        # Each part of the limit is late, and repeated once.
        assert virtual_loop().now == pytest.approx(2 * PARTS * (TIMEOUT_S / 100 + 4.0))
        standing_still.cancel()


@pytest.mark.parametrize("address", ["unix:///nowhere/rpc.sock", "tcp://127.0.0.1:1"])
async def test_a_refused_connection_raises_rpc_away(address: str) -> None:
    rpc = Rpc(address, 1.0)
    with pytest.raises(RpcAway):
        await rpc.status()
    with pytest.raises(RpcAway):
        await rpc.broadcast(b"a")


async def test_a_cancellation_is_never_lost_in_an_answer() -> None:
    """Whoever waits for the cancelled caller would wait for ever."""
    async with serving(lambda request: http(STATUS)) as (server, rpc):

        async def poll() -> None:
            while True:
                await rpc.status()

        for turns in range(40):
            polling = asyncio.create_task(poll())
            for _ in range(turns):
                await asyncio.sleep(0)
            polling.cancel()
            for _ in range(MOST_TURNS):
                await asyncio.sleep(0)
            assert polling.done()


COMMIT = Path(__file__).with_name("commit.json")


NET_INFO = json.dumps({"result": {"peers": []}}).encode()


async def test_a_kept_connection_that_the_other_side_closed_is_opened_again() -> None:
    async with serving(lambda request: http(NET_INFO)) as (server, rpc):
        for connections in (1, 2, 3):
            assert await rpc.peer_names() == {}
            assert server.connections == connections
            assert server.writer is not None
            server.writer.close()
            while rpc._reader is not None and not rpc._reader.at_eof():
                await asyncio.sleep(0.001)
        # Nothing was sent on the closed one, so this is sent once, too.
        assert await rpc.broadcast(b"tx") is None
        assert [request["method"] for request in server.requests].count("broadcast_tx_async") == 1  # type: ignore[index]


async def test_a_question_is_asked_again_if_its_kept_connection_is_closed_at_that_moment() -> None:
    async with serving(lambda request: http(NET_INFO)) as (server, rpc):
        assert await rpc.peer_names() == {}
        server.goes = True
        assert await rpc.peer_names() == {}
        assert (server.connections, len(server.requests)) == (2, 3)


async def test_a_broadcast_whose_connection_is_closed_is_not_sent_again() -> None:
    async with serving(lambda request: http(NET_INFO)) as (server, rpc):
        assert await rpc.peer_names() == {}
        server.goes = True
        with pytest.raises(RpcAway):
            await rpc.broadcast(b"tx")
        assert len(server.requests) == 2


async def test_a_question_on_a_new_connection_is_not_asked_again() -> None:
    async with serving(lambda request: http(NET_INFO)) as (server, rpc):
        server.goes = True
        with pytest.raises(RpcAway, match="closed"):
            await rpc.peer_names()
        assert len(server.requests) == 1


async def test_a_commit_of_a_height_and_the_newest() -> None:
    answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": json.loads(COMMIT.read_text())}).encode()
    async with serving(lambda request: http(answer)) as (server, rpc):
        for height in (2, None):
            commit = await rpc.commit(height)
            assert commit is not None
            assert (commit.header.height, commit.is_canonical) == (2, True)
        asked = [call["params"] for call in server.requests if isinstance(call, dict)]
        assert asked == [{"height": "2"}, {}]


@pytest.mark.parametrize(
    "answer",
    [
        {"result": None},
        {"error": {"code": -32603, "data": "height 9 must be less than or equal to the current blockchain height 2"}},
        {"error": {"code": -32603, "data": "height 1 is not available, lowest height is 2"}},
    ],
)
async def test_a_commit_that_cometbft_does_not_have_is_none(answer: dict[str, object]) -> None:
    async with serving(lambda request: http(json.dumps({"id": 1, **answer}).encode())) as (_, rpc):
        assert await rpc.commit(9) is None


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -32603, "message": "Internal error", "data": "panic"}},
        {"result": {}},
        {"result": {**json.loads(COMMIT.read_text()), "canonical": "yes"}},
    ],
)
async def test_any_other_answer_to_commit_is_an_rpc_that_is_away(answer: dict[str, object]) -> None:
    async with serving(lambda request: http(json.dumps({"id": 1, **answer}).encode())) as (_, rpc):
        with pytest.raises(RpcAway):
            await rpc.commit(2)


async def test_a_commit_at_no_time_is_an_rpc_that_is_away() -> None:
    answer = COMMIT.read_text().replace("2026-11-18T00:35:05.115892548Z", "yesterday")
    async with serving(lambda request: http(b'{"result":%b}' % answer.encode())) as (_, rpc):
        with pytest.raises(RpcAway, match="not a time"):
            await rpc.commit(2)


async def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cairn.engine.network.rpc.LARGEST_ANSWER_BYTES", 1_000)
    async with serving(lambda request: http(b" " * 1_001 + STATUS)) as (_, rpc):
        with pytest.raises(RpcAway, match="longer than 1000 bytes"):
            await rpc.status()
