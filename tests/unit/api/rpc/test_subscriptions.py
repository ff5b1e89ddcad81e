"""What one socket is told: heads in order and none skipped, and pending transactions while it reads."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cairn.api.chain_view import ChainView
from cairn.api.events.hub import RETRY_S, EventHub
from cairn.api.rpc import subscriptions as rpc_subscriptions
from cairn.api.rpc.subscriptions import MAX_PENDING, MAX_SUBSCRIPTIONS, ArrivalFeed, HeadTexts, Subscriptions
from cairn.api.rpc.values import RpcError
from cairn.config import Settings
from cairn.domain.errors import StoreUnavailable
from cairn.domain.types import ZERO_ADDRESS, ZERO_HASH, BlockHash, BlockHeader, Tx
from cairn.time_shares import SLICE_S
from tests.support.core_fixtures import signed
from tests.support.event_server import MemoryChain
from tests.support.recording_socket import RecordingSocket
from tests.support.scripted_gateway import INFO, ScriptedGateway


class Heads(HeadTexts):
    """Stands for the store: a head is its number."""

    is_readable = True

    def __init__(self) -> None:
        self.read: list[int] = []

    def text(self, height: int) -> bytes:
        if not self.is_readable:
            raise StoreUnavailable("not now")
        self.read.append(height)
        return b"%d}}" % height


class Bench:
    """A hub over a chain in memory, and sockets that keep what they are told."""

    def __init__(self) -> None:
        self.chain = MemoryChain()
        self.hub = EventHub(self.chain, Settings())
        self.core = ScriptedGateway()
        self.view = ChainView(Path("unused"))
        self.view.info = INFO
        self.arrivals = ArrivalFeed(self.core, self.view, self.hub.shares)
        self.heads = Heads()

    def join(self, client: str = "") -> tuple[RecordingSocket, Subscriptions]:
        socket = RecordingSocket()
        return socket, Subscriptions(socket, client, self.hub, self.heads, self.arrivals)

    def commit(self) -> None:
        self.hub.on_commit(self.chain.append(()))

    async def arrive(self, txs: Sequence[Tx]) -> None:
        self.view.on_arrived(txs)
        await settle()


async def settle() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


async def subscribed(to: Subscriptions, *params: object) -> str:
    name = await to.subscribe(*params)
    to.begin()
    return name


def told(socket: RecordingSocket, name: str) -> list[Any]:
    """The results of one subscription, in order."""
    for message in socket.messages:
        assert (message["jsonrpc"], message["method"]) == ("2.0", "eth_subscription")
    return [each["params"]["result"] for each in socket.messages if each["params"]["subscription"] == name]


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_heads_come_in_order_from_the_next_one_on(bench: Bench) -> None:
    bench.commit()
    socket, subscriptions = bench.join()
    first = await subscribed(subscriptions, "newHeads")
    start = bench.chain.height + 1
    for _ in range(3):
        bench.commit()
    await settle()
    second = await subscribed(subscriptions, "newHeads")
    for _ in range(2):
        bench.commit()
    await settle()
    assert told(socket, first) == list(range(start, start + 5))
    assert told(socket, second) == [start + 3, start + 4]


async def test_a_full_socket_misses_no_head(bench: Bench) -> None:
    socket, subscriptions = bench.join()
    heads = await subscribed(subscriptions, "newHeads")
    start = bench.chain.height + 1
    socket.paused = True
    for _ in range(100):
        bench.commit()
        await asyncio.sleep(0)
    assert not socket.writes
    socket.resume()
    await settle()
    assert told(socket, heads) == list(range(start, start + 100))


@pytest.mark.virtual_time
async def test_a_head_that_cannot_be_read_comes_once_it_can(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    socket, subscriptions = bench.join()
    heads = await subscribed(subscriptions, "newHeads")
    start = bench.chain.height + 1

    monkeypatch.setattr(Heads, "is_readable", False)
    bench.commit()
    await settle()
    assert not socket.writes
    monkeypatch.undo()
    await asyncio.sleep(RETRY_S)
    await settle()
    assert told(socket, heads) == [start]


async def test_a_head_is_read_once_for_all_sockets_that_wait_for_it(bench: Bench) -> None:
    sockets = [bench.join() for _ in range(3)]
    names = [await subscribed(subscriptions, "newHeads") for _, subscriptions in sockets]
    start = bench.chain.height + 1
    for _ in range(2):
        bench.commit()
        await settle()
    assert [told(socket, name) for (socket, _), name in zip(sockets, names, strict=True)] == [[start, start + 1]] * 3
    assert bench.heads.read == [start, start + 1]


async def test_after_a_revert_the_heads_go_on_at_the_block_after_it(bench: Bench) -> None:
    for _ in range(9):
        bench.commit()
    socket, subscriptions = bench.join()
    old = await subscribed(subscriptions, "newHeads")
    start = bench.chain.height + 1
    bench.commit()
    await settle()
    bench.hub.on_reverted(5)
    young = await subscribed(subscriptions, "newHeads")
    bench.hub.on_commit(7)
    await settle()
    assert told(socket, old) == [start, 6, 7]
    assert told(socket, young) == [6, 7]


async def test_no_event_is_sent_before_the_id_of_its_subscription(bench: Bench) -> None:
    socket, subscriptions = bench.join()
    await subscriptions.subscribe("newHeads")
    await subscriptions.subscribe("newPendingTransactions")
    bench.commit()
    await bench.arrive([signed(0)])
    assert not socket.writes
    assert not bench.core.is_watched
    subscriptions.begin()
    bench.commit()
    await bench.arrive([signed(1)])
    assert len(socket.messages) == 2


async def test_pending_transactions_are_sent_by_hash_or_whole(bench: Bench) -> None:
    socket, subscriptions = bench.join()
    hashes = await subscribed(subscriptions, "newPendingTransactions")
    whole = await subscribed(subscriptions, "newPendingTransactions", True)
    await bench.arrive([signed(0), signed(1)])
    assert told(socket, hashes) == ["0x" + signed(nonce).hash.hex() for nonce in (0, 1)]
    assert [tx["nonce"] for tx in told(socket, whole)] == ["0x0", "0x1"]


async def test_a_full_socket_is_not_told_of_pending_transactions(bench: Bench) -> None:
    socket, subscriptions = bench.join()
    name = await subscribed(subscriptions, "newPendingTransactions")
    socket.paused = True
    await bench.arrive([signed(0)])
    socket.resume()
    await bench.arrive([signed(1)])
    assert told(socket, name) == ["0x" + signed(1).hash.hex()]


async def test_many_sockets_of_one_client_are_told_in_turns_with_others_work(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = bench.hub.shares
    now = 0.0
    turns.clock = lambda: now
    sockets = [bench.join("greedy") for _ in range(50)]

    def write(frames: bytes) -> None:
        nonlocal now
        now += SLICE_S

    for socket, subscriptions in sockets:
        await subscribed(subscriptions, "newPendingTransactions", True)
        monkeypatch.setattr(socket, "write", write)
    bench.view.on_arrived([signed(0)])
    began = now
    other: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    turns.call("other", lambda: other.set_result(now - began))
    assert await other <= 2 * SLICE_S, "behind one socket of the others, not behind fifty"
    await settle()
    assert now - began == pytest.approx(50 * SLICE_S)


async def test_a_socket_that_is_too_far_behind_misses_pending_transactions(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc_subscriptions, "AT_ONCE", 1)
    monkeypatch.setattr(rpc_subscriptions, "MAX_WAITING", 3)
    socket, subscriptions = bench.join()
    name = await subscribed(subscriptions, "newPendingTransactions")
    txs = [signed(nonce) for nonce in range(6)]
    await bench.arrive(txs[:5])
    await bench.arrive(txs[5:])
    assert told(socket, name) == ["0x" + tx.hash.hex() for tx in (*txs[:3], txs[5])]


async def test_a_socket_that_has_left_gets_nothing_that_waits_for_its_turn(bench: Bench) -> None:
    socket, subscriptions = bench.join()
    await subscribed(subscriptions, "newPendingTransactions")
    bench.view.on_arrived([signed(0)])
    subscriptions.close()
    await settle()
    assert socket.messages == []


async def test_the_core_is_asked_only_while_somebody_listens(bench: Bench) -> None:
    _, first = bench.join()
    _, second = bench.join()
    await subscribed(first, "newHeads")
    assert not bench.core.is_watched
    names = [await subscribed(each, "newPendingTransactions") for each in (first, first, second)]
    watched = [bench.core.is_watched]
    await first.unsubscribe(names[0])
    await first.unsubscribe(names[1])
    watched.append(bench.core.is_watched)
    second.close()
    watched.append(bench.core.is_watched)
    second.close()
    assert watched == [True, True, False]


async def test_nothing_is_sent_after_unsubscribing(bench: Bench) -> None:
    socket, subscriptions = bench.join()
    names = [
        await subscribed(subscriptions, kind) for kind in ("newHeads", "newPendingTransactions", "logs", "syncing")
    ]
    unbegun = await subscriptions.subscribe("newHeads")
    for name in (*names, unbegun):
        assert await subscriptions.unsubscribe(name) is True
        with pytest.raises(RpcError, match="subscription not found"):
            await subscriptions.unsubscribe(name)
    subscriptions.begin()
    bench.commit()
    await bench.arrive([signed(0)])
    assert not socket.writes


async def test_an_unknown_subscription_and_one_too_many_are_refused(bench: Bench) -> None:
    _, subscriptions = bench.join()
    with pytest.raises(RpcError, match='no "newBlocks" subscription in eth namespace'):
        await subscriptions.subscribe("newBlocks")
    for rubbish in (1, None, ["newHeads"]):
        with pytest.raises(RpcError):
            await subscriptions.subscribe(rubbish)
        with pytest.raises(RpcError):
            await subscriptions.unsubscribe(rubbish)
    for _ in range(MAX_SUBSCRIPTIONS):
        await subscriptions.subscribe("newHeads")
    with pytest.raises(RpcError, match="limit exceeded"):
        await subscriptions.subscribe("newHeads")


async def test_subscriptions_to_pending_transactions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_subscriptions, "MAX_PLACES", 4)
    bench = Bench()

    async def refused(by: Subscriptions) -> None:
        with pytest.raises(RpcError, match="limit exceeded: too many"):
            await by.subscribe("newPendingTransactions")

    (_, first), (_, second) = bench.join("one"), bench.join("two")
    names = [await first.subscribe("newPendingTransactions") for _ in range(2)]
    await second.subscribe("newPendingTransactions", True)
    # None of them has begun: whoever asks in one batch, or at the same time, is counted all the same.
    await refused(first)
    await refused(second)
    first.begin()
    await first.unsubscribe(names[0])
    await second.subscribe("newPendingTransactions")
    await refused(second)
    second.close()
    await first.subscribe("newPendingTransactions")
    await refused(first)


async def test_one_socket_does_not_take_all_places(bench: Bench) -> None:
    _, subscriptions = bench.join()
    for _ in range(MAX_PENDING):
        await subscribed(subscriptions, "newPendingTransactions")
    with pytest.raises(RpcError, match="limit exceeded: a socket"):
        await subscriptions.subscribe("newPendingTransactions")
    await subscriptions.subscribe("newHeads")


def test_a_head_is_read_once_for_all_sockets() -> None:
    class CountedReads(ChainView):
        read: ClassVar[list[int]] = []

        def block_hash(self, height: int) -> BlockHash:
            return BlockHash(bytes([height]) * 32)

        def get_header(self, height: int) -> tuple[BlockHash, BlockHeader]:
            self.read.append(height)
            header = BlockHeader(
                height,
                ZERO_HASH,
                1,
                bytes(32),
                bytes(32),
                bytes(32),
                bytes(32),
                0,
                ZERO_ADDRESS,
                1337,
                210_000_000,
                0,
                0,
            )
            return self.block_hash(height), header

    view = CountedReads(Path("unused"))
    view.info = INFO
    texts = HeadTexts(view)
    assert json.loads(texts.text(1).removesuffix(b"}}"))["number"] == "0x1"
    assert texts.text(1) == texts.text(1)
    assert view.read == [1]
