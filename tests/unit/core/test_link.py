"""A worker's end and the core's end over a real unix socket."""

import asyncio
import os
import signal
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from cairn.core import link
from cairn.core import link_frames as wire
from cairn.core import link_server as server
from cairn.core.calls import methods_of
from cairn.core.gateway import Admission, ChainInfo, ConfirmedTx, CoreCalls, DroppedTx, PendingPage, PendingTx
from cairn.core.link import LinkClient
from cairn.domain.errors import (
    InvalidField,
    InvalidQuery,
    NodeError,
    NonceTooLow,
    ShuttingDown,
    Starting,
    StoreUnavailable,
)
from cairn.domain.transactions import encode_record
from cairn.domain.types import Address, Draft, Phase, SealedBlock, Tx, TxHash
from tests.support.core_fixtures import ACCOUNTS, GWEI, opened_core, produce, signed
from tests.support.linked_core import Heard, linked
from tests.support.pace import PATIENCE_S
from tests.support.tx_data import data_by_number
from tests.support.virtual_time import virtual_loop

pytestmark = pytest.mark.virtual_time


async def test_a_worker_learns_the_chain_then_its_head_then_that_it_is_ready(tmp_path: Path) -> None:
    async with linked(tmp_path) as (_, heard, _core):
        told = [notice for notice in heard.notices if notice != ("phase", "starting")]
        assert told == [("info", 1337), ("commit", 0), ("phase", "ready")]


async def block_of(directory: Path, txs: Sequence[Tx]) -> SealedBlock:
    async with opened_core(directory) as core:
        await asyncio.gather(*map(core.submit, txs))
        return produce(core).block


@pytest.mark.parametrize("count", [0, 1, wire.MOST_SENT_TXS])
async def test_a_small_block_crosses_the_link_with_its_notice(tmp_path: Path, count: int) -> None:
    block = await block_of(tmp_path, [signed(nonce, data=b"x" * (nonce % 3)) for nonce in range(count)])
    assert wire.decode_commit(wire.commit_frame(1, block)[wire.HEAD.size :]) == (1, block)


async def test_a_larger_block_is_left_to_the_worker(tmp_path: Path) -> None:
    block = await block_of(tmp_path, [signed(nonce) for nonce in range(wire.MOST_SENT_TXS + 1)])
    assert wire.decode_commit(wire.commit_frame(1, block)[wire.HEAD.size :]) == (1, None)


async def test_every_call_crosses_the_link(tmp_path: Path) -> None:
    async with linked(tmp_path) as (client, _, _core):
        assert await client.submit(signed(0)) == Admission(signed(0).hash)
        draft = Draft(ACCOUNTS[1], ACCOUNTS[2], 1, 21_000, GWEI, None)
        assert (await client.submit_draft(draft)).tx_hash == signed(0, sender=1).hash
        assert await client.next_nonce(ACCOUNTS[0]) == 1
        assert isinstance(await client.find_tx(signed(0).hash), PendingTx)
        assert await client.find_tx(TxHash(bytes(32))) is None
        page = await client.list_pending(1, None, None)
        assert (page.total, [item.tx for item in page.items]) == (2, [signed(0)])
        rest = await client.list_pending(10, page.next, None)
        assert [item.tx for item in rest.items] == [signed(0, sender=1)]
        status = await client.status()
        assert (status.phase, status.head, status.pending) == ("ready", 0, 2)
        assert (await client.check()).store == "ok"


async def test_data_crosses_the_link_in_one_frame_with_others(tmp_path: Path) -> None:
    async with linked(tmp_path) as (client, heard, _core):
        client.watch_arrivals(True)
        txs = [signed(nonce, data=data_by_number(nonce)) for nonce in range(10)]
        assert await asyncio.gather(*map(client.submit, txs)) == [Admission(tx.hash) for tx in txs]
        draft = Draft(ACCOUNTS[1], ACCOUNTS[2], 1, 30_000, GWEI, None, data=b"invoice 4711")
        drafted = await client.sign_draft(draft)
        assert drafted.data == b"invoice 4711"
        await client.submit(drafted)
        page = await client.list_pending(20, None, None)
        assert [item.tx for item in page.items] == [*txs, drafted]
        for tx in txs:
            found = await client.find_tx(tx.hash)
            assert isinstance(found, PendingTx)
            assert found.tx == tx
        for tx in (*txs, drafted):
            await heard.until("arrived", tx.hash)


async def test_a_submission_made_before_a_draft_reaches_the_core_first(tmp_path: Path) -> None:
    async with linked(tmp_path) as (client, _, _core):
        submitted = [client.submit(signed(nonce)) for nonce in range(3)]
        drafted = asyncio.create_task(client.submit_draft(Draft(ACCOUNTS[0], ACCOUNTS[1], 1, 21_000, GWEI, None)))
        await asyncio.sleep(0)
        last = client.submit(signed(4))
        await asyncio.gather(*submitted)
        assert (await drafted).tx_hash == signed(3).hash
        assert (await last).tx_hash == signed(4).hash


async def test_refusals_cross_the_link_as_errors(tmp_path: Path) -> None:
    async with linked(tmp_path, block_time_s=0.0) as (client, heard, _core):
        await client.submit(signed(0))
        await heard.until("commit", 1)
        with pytest.raises(NonceTooLow):
            await client.submit(signed(0, value=7))
        with pytest.raises(InvalidField, match="no key"):
            await client.submit_draft(Draft(Address(bytes(20)), ACCOUNTS[0], 1, 21_000, GWEI, 0))
        with pytest.raises(InvalidQuery):
            await client.list_pending(1, "rubbish", None)


async def test_confirmed_is_said_after_its_commit_notice(tmp_path: Path) -> None:
    async with linked(tmp_path, block_time_s=0.0) as (client, heard, _core):
        for nonce in range(20):
            tx = signed(nonce)
            await client.submit(tx)
            while not isinstance(standing := await client.find_tx(tx.hash), ConfirmedTx):
                assert isinstance(standing, PendingTx)
            assert ("commit", standing.height) in heard.notices


async def test_a_drop_crosses_the_link(tmp_path: Path) -> None:
    async with linked(tmp_path) as (client, heard, _core):
        await client.submit(signed(0))
        await client.submit(signed(0, gas_price=2 * GWEI))
        await heard.until("dropped", signed(0).hash, "replaced")
        assert await client.find_tx(signed(0).hash) == DroppedTx("replaced")


async def test_a_core_that_hangs_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    heard, left = Heard(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.read(1)
        assert asked
        await asyncio.sleep(2 * link.SILENCE_S)
        # The late answer of a core that woke up again finds nobody.
        writer.write(wire.frame(0, wire.ADMITTED, wire.ID.pack(1)))
        writer.write(wire.frame_of(1, wire.RESULT, None))
        writer.write(wire.commit_frame(9))
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    server = await asyncio.start_unix_server(silent, tmp_path / "core.sock")
    client = LinkClient(tmp_path / "core.sock", heard)
    running = asyncio.create_task(client.run())
    while True:
        try:
            answer = client.submit(signed(0))
            break
        except Starting:
            await asyncio.sleep(0.01)
    questions = (
        client.status(),
        client.list_pending(1, None, None),
        client.find_tx(signed(0).hash),
        client.next_nonce(ACCOUNTS[0]),
    )
    asking = [asyncio.create_task(question) for question in questions]
    changing = asyncio.create_task(client.mine())
    asked_at = virtual_loop().time()
    # Sooner, since nothing depends on it: a client that reads gets its 503 before it gives up itself.
    for question in asking:
        with pytest.raises(StoreUnavailable, match="does not answer: try again"):
            await question
    assert link.QUESTION_SILENCE_S <= virtual_loop().time() - asked_at <= 8.0
    with pytest.raises(StoreUnavailable, match="does not answer: try again"):
        await changing
    assert virtual_loop().time() - asked_at >= link.SILENCE_S
    with pytest.raises(StoreUnavailable, match="does not answer; the transaction may be on disk"):
        await answer
    assert link.SILENCE_S <= virtual_loop().time() - asked_at <= link.SILENCE_S + 2 * link.WATCH_S
    await heard.until("commit", 9)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await left.wait()
    server.close()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    server.close()


async def test_a_pause_of_the_worker_fails_no_request(tmp_path: Path) -> None:
    left = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read(1)
        virtual_loop().spend(3_600)
        await asyncio.sleep(2 * link.WATCH_S)
        writer.write(wire.frame(0, wire.ADMITTED, wire.ID.pack(1)))
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    server = await asyncio.start_unix_server(slow, tmp_path / "core.sock")
    client = LinkClient(tmp_path / "core.sock", Heard())
    running = asyncio.create_task(client.run())
    while client._connection is None:
        await asyncio.sleep(0.01)
    assert await client.submit(signed(0)) == Admission(signed(0).hash)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await left.wait()
    server.close()


async def test_a_request_on_a_link_just_lost_is_refused(tmp_path: Path) -> None:
    async with linked(tmp_path) as (client, _, _core):
        connection = client._connection
        assert connection is not None
        connection.connection_lost(None)
        with pytest.raises(StoreUnavailable, match="gone"):
            client.submit(signed(0))
        with pytest.raises(StoreUnavailable, match="gone"):
            await client.status()


async def test_draining_refuses_new_work_and_still_answers(tmp_path: Path) -> None:
    async with linked(tmp_path) as (client, heard, core):
        await client.submit(signed(0))
        os.kill(os.getpid(), signal.SIGTERM)
        await heard.until("phase", "draining")
        with pytest.raises(ShuttingDown):
            await client.submit(signed(1))
        with pytest.raises(ShuttingDown):
            await client.submit_draft(Draft(ACCOUNTS[0], ACCOUNTS[1], 1, 21_000, GWEI, None))
        with pytest.raises(ShuttingDown):
            await client.mine()
        assert isinstance(await client.find_tx(signed(0).hash), PendingTx)
        assert await client.create_filter("blocks", "one") is not None
        assert not core.done()


async def test_without_a_core_every_call_raises_starting(tmp_path: Path) -> None:
    client = LinkClient(tmp_path / "core.sock", Heard())
    with pytest.raises(Starting):
        client.submit(signed(0))
    with pytest.raises(Starting):
        await client.status()


async def test_a_core_that_goes_away_fails_what_waits_and_is_found_again(tmp_path: Path) -> None:
    heard = Heard()
    connections: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await connections.put(writer)

    server = await asyncio.start_unix_server(silent, tmp_path / "core.sock")
    client = LinkClient(tmp_path / "core.sock", heard)
    link = asyncio.create_task(client.run())
    first = await connections.get()
    answer = client.submit(signed(0))
    asking = asyncio.create_task(client.status())
    await asyncio.sleep(1.0)
    first.close()
    with pytest.raises(StoreUnavailable, match="submit it again"):
        await answer
    with pytest.raises(StoreUnavailable):
        await asking
    await heard.until("phase", "unavailable")
    second = await connections.get()
    link.cancel()
    with suppress(asyncio.CancelledError):
        await link
    second.close()
    server.close()


async def test_a_revert_is_answered_when_every_worker_has_taken_it_in(tmp_path: Path) -> None:
    async with linked(tmp_path) as (client, _, _core):
        other = Heard()
        second = LinkClient(tmp_path / "core.sock", other)
        running = asyncio.create_task(second.run())
        await other.until("phase", "ready")
        snapshot = await client.snapshot()
        await client.mine()
        other.notices.clear()
        # It takes its time over a chain that was opened anew, as one does that opens it too.
        assert second._connection is not None
        transport = second._connection._transport
        transport.pause_reading()
        virtual_loop().call_later(server.SETTLE_TIMEOUT_S - 1, transport.resume_reading)
        assert await client.revert(snapshot)
        assert ("phase", "ready") in other.notices, "answered before the other one knew"
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_a_worker_that_does_not_confirm_a_revert_is_disconnected(tmp_path: Path) -> None:
    async with linked(tmp_path) as (client, _, _core):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "core.sock"))
        snapshot = await client.snapshot()
        assert await client.revert(snapshot)
        with suppress(ConnectionError):
            await reader.read()
        assert reader.at_eof() or reader.exception()
        writer.close()
        assert (await client.status()).phase == "ready"


async def test_a_worker_that_joins_during_a_revert_hears_nothing_of_the_old_chain(tmp_path: Path) -> None:
    async with linked(tmp_path) as (client, heard, _core):
        snapshot = await client.snapshot()
        await client.mine()
        # It answers nothing, and so holds the revert up.
        _, writer = await asyncio.open_unix_connection(str(tmp_path / "core.sock"))
        reverting = asyncio.create_task(client.revert(snapshot))
        await heard.until("phase", "unavailable")
        joining = Heard()
        late = asyncio.create_task(LinkClient(tmp_path / "core.sock", joining).run())
        await joining.until("phase", "unavailable")
        assert not reverting.done()
        await joining.until("phase", "ready")
        assert await reverting
        assert ("commit", 0) in joining.notices
        assert ("commit", 1) not in joining.notices
        late.cancel()
        with suppress(asyncio.CancelledError):
            await late
        writer.close()


async def test_a_revert_does_not_wait_for_a_worker_that_disconnected(tmp_path: Path) -> None:
    async with linked(tmp_path) as (client, _, _core):
        _, writer = await asyncio.open_unix_connection(str(tmp_path / "core.sock"))
        snapshot = await client.snapshot()
        reverting = asyncio.create_task(client.revert(snapshot))
        await asyncio.sleep(0)
        writer.close()
        async with asyncio.timeout(server.SETTLE_TIMEOUT_S / 2):
            assert await reverting


class Bare(server.LinkedCore):
    """A core that only notes whether it must announce arrivals."""

    def __init__(self) -> None:
        self.watched: list[bool] = []

    def why_not(self) -> Starting:
        return Starting("it never starts")

    def watch_arrivals(self, on: bool) -> None:
        self.watched.append(on)

    def answered_with(self, error: NodeError) -> None:
        raise AssertionError(error)

    def greeting(self) -> tuple[Phase, str, ChainInfo | None, int]:
        return "starting", "", None, 0


async def test_the_last_worker_that_watched_ends_the_announcements_by_leaving(tmp_path: Path) -> None:
    def is_count(connections: Collection[object], count: int) -> bool:
        return len(connections) == count

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.01)

    core = Bare()
    workers = server.LinkServer(core)
    listening = await workers.listen(str(tmp_path / "core.sock"))
    writers = []
    for count in range(1, 3):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "core.sock")
        writer.write(wire.frame(0, wire.WATCH, b"\1"))
        await reader.read(1)
        await until(partial(is_count, workers._watching, count))
        writers.append(writer)
    assert core.watched == [True]
    for left, writer in enumerate(writers, 1):
        assert not workers.idle.is_set()
        assert core.watched == [True]
        writer.close()
        await until(partial(is_count, workers._connections, 2 - left))
    assert core.watched == [True, False]
    assert workers.idle.is_set()
    assert workers._watching == set()
    listening.close()


class Listing(Bare):
    """A core whose answers to questions are long."""

    asked = 0

    async def list_pending(self, limit: int, after: str | None, sender: Address | None) -> PendingPage:
        self.asked += 1
        return PendingPage([], 0, "0" * 100_000)


async def test_the_answer_to_a_submission_is_not_behind_a_hundred_long_answers(tmp_path: Path) -> None:
    (method,) = (each for each in methods_of(CoreCalls) if each.name == "list_pending")

    async def read_frame(reader: asyncio.StreamReader) -> int:
        length, _, kind = wire.HEAD.unpack(await reader.readexactly(wire.HEAD.size))
        await reader.readexactly(length - wire.AFTER_LENGTH)
        return int(kind)

    core = Listing()
    listening = await server.LinkServer(core).listen(str(tmp_path / "core.sock"))
    reader, writer = await asyncio.open_unix_connection(tmp_path / "core.sock")
    for number in range(1, 101):
        writer.write(wire.frame_of(number, wire.CALL, method.request(10, None, None)))
    async with asyncio.timeout(PATIENCE_S):
        while not core.asked:
            await asyncio.sleep(0)
    for _ in range(1_000):
        await asyncio.sleep(0)
    assert core.asked < 20, "answers pile up that the worker does not read"
    writer.write(wire.frame(0, wire.SUBMIT, encode_record(signed(0))))
    kinds: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        while kinds.count(wire.RESULT) < 100:
            kinds.append(await read_frame(reader))
    # The submission was refused: this core accepts none.
    assert kinds[: kinds.index(wire.REFUSED)].count(wire.RESULT) < 20
    writer.close()
    listening.close()
