"""The server over a real unix socket, driving the counter application or a variant of it.

Both ends are on one loop. Where no thread has a part in it, time passes only when neither end has anything left to do:
what has not happened after a moment never will.
"""

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cairn.domain.errors import StoreUnavailable, reason_of
from cairn.engine.abci import requests as m
from cairn.engine.abci import wire
from cairn.engine.abci.proto import abci_pb2 as pb
from cairn.engine.abci.requests import AbciHandler
from cairn.engine.abci.server import MAX_WAITING, AbciServer
from cairn.engine.abci.wire import FrameReader, frame
from tests.support.counter_app import CounterApp
from tests.support.pace import PATIENCE_S

FLUSH = pb.Request(flush=pb.RequestFlush())
COMMIT = pb.Request(commit=pb.RequestCommit())


def check(tx: bytes) -> pb.Request:
    return pb.Request(check_tx=pb.RequestCheckTx(tx=tx))


def encoded(*requests: pb.Request) -> bytes:
    return b"".join(frame(request.SerializeToString()) for request in requests)


class Client:
    """One connection as CometBFT makes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._read: list[pb.Response] = []

    def send(self, *requests: pb.Request) -> None:
        self._writer.write(encoded(*requests))

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def drained(self) -> None:
        await self._writer.drain()

    async def receive(self, count: int) -> list[pb.Response]:
        while len(self._read) < count:
            data = await asyncio.wait_for(self._reader.read(1 << 18), PATIENCE_S)
            assert data, f"the connection ended after {self._read}"
            self._read += map(pb.Response.FromString, self._frames.feed(data))
        answers, self._read = self._read[:count], self._read[count:]
        return answers

    async def receive_last(self) -> list[pb.Response]:
        """Everything until the server ends the connection."""
        data = await asyncio.wait_for(self._reader.read(), PATIENCE_S)
        return self._read + [pb.Response.FromString(payload) for payload in self._frames.feed(data)]

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


class Stage:
    """A listening server and the clients of one test."""

    def __init__(self, server: AbciServer, path: Path) -> None:
        self.server = server
        self.path = path
        self.clients: list[Client] = []

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_unix_connection(str(self.path)))
        self.clients.append(client)
        return client


@asynccontextmanager
async def served(handler: AbciHandler) -> AsyncIterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="cairn-") as directory:
        stage = Stage(AbciServer(handler), Path(directory, "abci.sock"))
        await stage.server.listen(stage.path)
        try:
            yield stage
        finally:
            for client in stage.clients:
                await client.close()
            await stage.server.close()


def kinds(answers: list[pb.Response]) -> list[str | None]:
    return [answer.WhichOneof("value") for answer in answers]


class Gated(CounterApp):
    """Finishes each transaction only when the test says so, and notes what was called and finished, in order."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.gates: dict[bytes, asyncio.Event] = {}
        self.called: list[bytes] = []
        self.finished: list[bytes] = []

    def check_tx(self, request: m.CheckTxRequest) -> m.TxResult | Awaitable[m.TxResult]:
        self.called.append(request.tx)
        if request.tx.startswith(b"quick"):
            return m.TxResult(log=request.tx.decode())
        return self._finish(request.tx, self.gates.setdefault(request.tx, asyncio.Event()))

    async def _finish(self, tx: bytes, gate: asyncio.Event) -> m.TxResult:
        await gate.wait()
        self.finished.append(tx)
        return m.TxResult(log=tx.decode())

    def commit(self) -> int:
        self.finished.append(b"commit")
        return super().commit()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.001)


async def settle() -> None:
    """All that can happen has happened."""
    await asyncio.sleep(1.0)


ONE_OF_EACH = [
    pb.Request(echo=pb.RequestEcho(message="hello")),
    pb.Request(info=pb.RequestInfo()),
    pb.Request(
        init_chain=pb.RequestInitChain(
            validators=[pb.ValidatorUpdate(pub_key=pb.PublicKey(ed25519=b"k" * 32), power=1)], initial_height=1
        )
    ),
    check(b"5:x"),
    pb.Request(prepare_proposal=pb.RequestPrepareProposal(txs=[b"5:x"], max_tx_bytes=100, height=1)),
    pb.Request(process_proposal=pb.RequestProcessProposal(txs=[b"5:x"], height=1)),
    pb.Request(extend_vote=pb.RequestExtendVote(height=1)),
    pb.Request(verify_vote_extension=pb.RequestVerifyVoteExtension(height=1)),
    pb.Request(finalize_block=pb.RequestFinalizeBlock(txs=[b"5:x"], height=1)),
    COMMIT,
    pb.Request(query=pb.RequestQuery()),
    pb.Request(list_snapshots=pb.RequestListSnapshots()),
    pb.Request(offer_snapshot=pb.RequestOfferSnapshot(snapshot=pb.Snapshot(height=1))),
    pb.Request(load_snapshot_chunk=pb.RequestLoadSnapshotChunk(height=1)),
    pb.Request(apply_snapshot_chunk=pb.RequestApplySnapshotChunk(index=0)),
    FLUSH,
]


def check_each(answers: list[pb.Response]) -> None:
    assert kinds(answers) == [request.WhichOneof("value") for request in ONE_OF_EACH]
    by_kind = dict(zip(kinds(answers), answers, strict=True))
    assert by_kind["echo"].echo.message == "hello"
    assert list(by_kind["prepare_proposal"].prepare_proposal.txs) == [b"5:x"]
    assert by_kind["process_proposal"].process_proposal.status == pb.ResponseProcessProposal.ACCEPT
    # Asked after Commit, which waited for the proposal that was judged off the loop.
    assert by_kind["query"].query.value == b"5"


async def test_every_request_is_answered_by_its_type_and_in_order(tmp_path: Path) -> None:
    async with served(CounterApp(tmp_path)) as stage:
        client = await stage.connect()
        client.send(*ONE_OF_EACH)
        check_each(await client.receive(len(ONE_OF_EACH)))
        assert not stage.server.failed.done()


async def test_the_same_answers_wherever_the_stream_is_cut(tmp_path: Path) -> None:
    stream = encoded(*ONE_OF_EACH)
    async with served(CounterApp(tmp_path)) as stage:
        for cut in range(1, len(stream)):
            client = await stage.connect()
            client.send_bytes(stream[:cut])
            await asyncio.sleep(0)
            client.send_bytes(stream[cut:])
            assert kinds(await client.receive(len(ONE_OF_EACH))) == [r.WhichOneof("value") for r in ONE_OF_EACH]
            await client.close()


@pytest.mark.virtual_time
async def test_unfinished_transactions_are_answered_in_order_and_flush_after_them(tmp_path: Path) -> None:
    app = Gated(tmp_path)
    async with served(app) as stage:
        client = await stage.connect()
        client.send(check(b"quick 0"), check(b"a"), check(b"b"), check(b"quick 1"), check(b"c"), FLUSH, COMMIT)
        assert (await client.receive(1))[0].check_tx.log == "quick 0"
        # Each is handed over at once, so that the work of all of them can overlap...
        await until(lambda: app.called == [b"quick 0", b"a", b"b", b"quick 1", b"c"])
        app.gates[b"c"].set()
        app.gates[b"b"].set()
        await settle()
        # ...but none finishes before the ones in front of it.
        assert app.finished == []
        app.gates[b"a"].set()
        answers = await client.receive(6)
        assert [answer.check_tx.log for answer in answers[:4]] == ["a", "b", "quick 1", "c"]
        assert kinds(answers[4:]) == ["flush", "commit"]
        assert app.finished == [b"a", b"b", b"c", b"commit"]
        # And then everything is answered at once again.
        client.send(check(b"quick 2"), FLUSH)
        assert kinds(await client.receive(2)) == ["check_tx", "flush"]


@pytest.mark.virtual_time
async def test_an_unfinished_transaction_holds_up_no_other_connection(tmp_path: Path) -> None:
    app = Gated(tmp_path)
    async with served(app) as stage:
        mempool, query = await stage.connect(), await stage.connect()
        mempool.send(check(b"a"))
        await until(lambda: app.called == [b"a"])
        query.send(pb.Request(info=pb.RequestInfo()), FLUSH)
        assert kinds(await query.receive(2)) == ["info", "flush"]
        assert len(stage.server._connections) == 2
        app.gates[b"a"].set()
        assert kinds(await mempool.receive(1)) == ["check_tx"]


UNKNOWN = frame(b"\xfa\x01\x00")
MALFORMED = frame(b"\x42\x05\x0a")


@pytest.mark.parametrize(("bad", "reason"), [(UNKNOWN, "unknown kind"), (MALFORMED, "not an ABCI request")])
@pytest.mark.virtual_time
async def test_invalid_bytes_end_the_connection_after_the_earlier_answers(
    tmp_path: Path, bad: bytes, reason: str
) -> None:
    app = Gated(tmp_path)
    async with served(app) as stage:
        client = await stage.connect()
        client.send_bytes(encoded(check(b"quick")) + bad + encoded(check(b"quick")))
        answers = await client.receive_last()
        assert kinds(answers) == ["check_tx", "exception"]
        assert reason in answers[1].exception.error
        # Also behind one that is unfinished.
        client = await stage.connect()
        client.send_bytes(encoded(check(b"a")) + bad)
        client.send(check(b"late"))
        await until(lambda: b"a" in app.gates)
        await settle()
        app.gates[b"a"].set()
        assert kinds(await client.receive_last()) == ["check_tx", "exception"]
        assert b"late" not in app.called
        # It was CometBFT's fault, and another connection is served.
        assert not stage.server.failed.done()
        client = await stage.connect()
        client.send(FLUSH)
        assert kinds(await client.receive(1)) == ["flush"]


@pytest.mark.virtual_time
async def test_a_message_that_is_too_long_is_refused_before_it_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME_BYTES", 100)
    async with served(CounterApp(tmp_path)) as stage:
        client = await stage.connect()
        client.send_bytes(frame(bytes(101))[:1])
        (answer,) = await client.receive_last()
        assert "101 bytes is longer than 100" in answer.exception.error


class Failing(Gated):
    def commit(self) -> int:
        raise OSError("the disk is gone")

    async def process_proposal(self, request: m.ProcessProposalRequest) -> bool:
        await asyncio.sleep(0)
        raise OSError("the disk is gone")


PROPOSAL = pb.Request(process_proposal=pb.RequestProcessProposal(height=1))


@pytest.mark.parametrize("request_", [COMMIT, PROPOSAL])
@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.virtual_time
async def test_a_failing_application_is_told_to_cometbft_and_to_the_node(
    tmp_path: Path, request_: pb.Request, behind: bool
) -> None:
    app = Failing(tmp_path)
    async with served(app) as stage:
        client = await stage.connect()
        if behind:
            client.send(check(b"a"))
            await until(lambda: b"a" in app.gates)
        client.send(request_, check(b"b"), FLUSH)
        if behind:
            await settle()
            app.gates[b"a"].set()
        answers = await client.receive_last()
        assert kinds(answers) == ["check_tx"] * behind + ["exception"]
        assert answers[-1].exception.error == "OSError: the disk is gone"
        assert isinstance(await asyncio.wait_for(stage.server.failed, 1), OSError)


@pytest.mark.parametrize("failure", [OSError("a defect"), StoreUnavailable("the disk is full")], ids=["defect", "disk"])
@pytest.mark.virtual_time
async def test_a_defect_is_logged_with_its_trace_and_a_failing_disk_by_its_reason_alone(
    tmp_path: Path, failure: Exception
) -> None:
    class FailingCommit(CounterApp):
        def commit(self) -> int:
            raise failure

    async with served(FailingCommit(tmp_path)) as stage:
        client = await stage.connect()
        with capture_logs() as logs:
            client.send(COMMIT)
            await client.receive_last()
        [told] = [line for line in logs if line["log_level"] == "error"]
        assert told["reason"] == reason_of(failure)
        assert told["exc_info"] is (failure if isinstance(failure, OSError) else None)


@pytest.mark.virtual_time
async def test_closing_drops_what_is_unfinished(tmp_path: Path) -> None:
    app = Gated(tmp_path)
    async with served(app) as stage:
        client = await stage.connect()
        client.send(check(b"a"), check(b"b"), FLUSH)
        await until(lambda: len(app.called) == 2)
        await stage.server.close()
        assert len(stage.server._connections) == 0
        assert await client.receive_last() == []
        assert app.finished == []


@pytest.mark.virtual_time
async def test_a_connection_that_goes_away_takes_its_unfinished_answers_along(tmp_path: Path) -> None:
    class Pooled(Gated):
        """Returns a future instead of a coroutine."""

        def check_tx(self, request: m.CheckTxRequest) -> m.TxResult | Awaitable[m.TxResult]:
            self.called.append(request.tx)
            self.futures.append(asyncio.get_running_loop().create_future())
            return self.futures[-1]

        futures: list[asyncio.Future[m.TxResult]] = []

    app = Pooled(tmp_path)
    async with served(app) as stage:
        client = await stage.connect()
        client.send(check(b"a"), check(b"b"))
        await until(lambda: len(app.called) == 2)
        await client.close()
        await until(lambda: len(stage.server._connections) == 0)
        await until(lambda: all(future.cancelled() for future in app.futures))


@pytest.mark.virtual_time
async def test_a_dead_servers_socket_is_taken_over(tmp_path: Path) -> None:
    async with served(CounterApp(tmp_path)) as stage:
        await stage.server.close()
        # From Python 3.13 on a server that is closed removes its socket; one that is killed never does.
        stage.path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(stage.path))
        assert stage.path.exists()
        again = AbciServer(CounterApp(tmp_path))
        await again.listen(stage.path)
        assert stage.path.stat().st_mode & 0o777 == 0o600
        client = await stage.connect()
        client.send(FLUSH)
        assert kinds(await client.receive(1)) == ["flush"]
        await again.close()


@pytest.mark.virtual_time
async def test_reading_stops_while_too_much_is_unfinished(tmp_path: Path) -> None:
    app = Gated(tmp_path)
    txs = [b"%d:" % number + bytes(1_000) for number in range(3 * MAX_WAITING)]
    async with served(app) as stage:
        client = await stage.connect()
        for tx in txs:
            client.send(check(tx))
        await until(lambda: len(app.called) > MAX_WAITING)
        await settle()
        assert len(app.called) < 2 * MAX_WAITING
        for tx in txs:
            app.gates.setdefault(tx, asyncio.Event()).set()
        answers = await client.receive(len(txs))
        assert [answer.check_tx.log.encode() for answer in answers] == txs


@pytest.mark.virtual_time
async def test_reading_stops_while_answers_are_not_read(tmp_path: Path) -> None:
    message = "x" * 1_000_000
    async with served(CounterApp(tmp_path)) as stage:
        client = await stage.connect()
        sent = 60
        for _ in range(sent):
            client.send(pb.Request(echo=pb.RequestEcho(message=message)))
        # What does not fit into the sockets stays with the sender: the server must not take it all in.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.drained(), 1.0)
        answers = await client.receive(sent)
        assert all(answer.echo.message == message for answer in answers)
