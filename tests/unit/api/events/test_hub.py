"""One cursor per socket: order, no hole, no repeat, whatever is asked and whoever does not read."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cairn.api.events import hub as hub_module
from cairn.api.events.hub import CHUNK_FRAMES, EventHub
from cairn.config import Settings
from cairn.domain.errors import Corrupt, ShuttingDown, Starting, StoreUnavailable
from cairn.domain.types import TxHash
from cairn.time_shares import ROUND_S, SLICE_S, Job
from tests.support.event_server import MemoryChain, hex_of, tx_hash_of
from tests.support.recording_socket import RecordingSocket
from tests.support.virtual_time import run_virtual
from tests.unit.api.hub_bench import Bench, confirmed, new_block, settle

pytestmark = pytest.mark.virtual_time

TICK_S = SLICE_S / 50


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_live_blocks_are_the_same_bytes_for_all(bench: Bench) -> None:
    sockets = [bench.join() for _ in range(3)]
    for _, subscriber in sockets:
        assert bench.hub.subscribe_blocks(subscriber, None) == 1
    bench.commit()
    await settle()
    (first,) = sockets[0][0].writes
    assert sockets[0][0].messages == [new_block(1)]
    assert all(connection.writes[0] is first for connection, _ in sockets)


async def test_a_replay_continues_with_live_blocks() -> None:
    bench = Bench(MemoryChain(1000))
    connection, subscriber = bench.join()
    assert bench.hub.subscribe_blocks(subscriber, 5) == 5
    await settle()
    bench.commit()
    await settle()
    assert connection.heights == list(range(5, 1001))


async def test_a_long_replay_lets_others_pass() -> None:
    bench = Bench(MemoryChain(5000), tick_s=TICK_S)
    slow, slow_subscriber = bench.join("slow")
    live, live_subscriber = bench.join("live")
    bench.hub.subscribe_blocks(live_subscriber, None)
    bench.hub.subscribe_blocks(slow_subscriber, 0)
    await asyncio.sleep(0)
    # One turn of the loop does a bounded part of it, in bounded writes.
    assert 0 < len(slow.heights) <= 2 * ROUND_S / TICK_S
    assert len(slow.heights) / len(slow.writes) <= 2 * SLICE_S / TICK_S
    bench.commit()
    for _ in range(3):
        await asyncio.sleep(0)
    assert live.heights == [5000]
    await settle()
    assert slow.heights == list(range(5001))


async def test_one_write_has_few_events_however_fast_they_are_made() -> None:
    bench = Bench(MemoryChain(5000))
    connection, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, 0)
    await settle()
    assert len(connection.writes) == -(-5000 // CHUNK_FRAMES)


async def test_a_client_with_many_replays_gets_no_more_than_one_with_a_single_one() -> None:
    bench = Bench(MemoryChain(5000), tick_s=TICK_S)
    many = [bench.join("many") for _ in range(9)]
    single, subscriber = bench.join("single")
    for _, each in (*many, (single, subscriber)):
        bench.hub.subscribe_blocks(each, 0)
    for _ in range(50):
        await asyncio.sleep(0)
    served = sum(len(connection.heights) for connection, _ in many)
    assert 0 < served < 5000
    assert abs(len(single.heights) - served) <= 2 * SLICE_S / TICK_S


async def test_the_store_may_be_ahead_of_what_was_announced(bench: Bench) -> None:
    connection, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, None)
    height = bench.chain.append([tx_hash_of(1)])
    bench.hub.follow(subscriber, tx_hash_of(1))
    await settle()
    assert connection.messages == []
    bench.hub.on_commit(height)
    await settle()
    assert connection.messages == [new_block(1), confirmed(tx_hash_of(1), 1)]


async def test_a_height_in_the_future_is_waited_for(bench: Bench) -> None:
    connection, subscriber = bench.join()
    assert bench.hub.subscribe_blocks(subscriber, 3) == 3
    bench.hub.follow(subscriber, tx_hash_of(1))
    bench.commit(tx_hash_of(1))
    for _ in range(3):
        bench.commit()
    await settle()
    assert connection.messages == [confirmed(tx_hash_of(1), 1), new_block(3), new_block(4)]


async def test_subscribing_again_moves_the_cursor_only_with_a_height() -> None:
    bench = Bench(MemoryChain(5))
    connection, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, 3)
    assert bench.hub.subscribe_blocks(subscriber, None) == 3
    await settle()
    assert connection.heights == [3, 4]
    assert bench.hub.subscribe_blocks(subscriber, 1) == 1
    await settle()
    assert connection.heights == [3, 4, 1, 2, 3, 4]


async def test_notices_may_leave_heights_out(bench: Bench) -> None:
    connection, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, None)
    bench.hub.follow(subscriber, tx_hash_of(1))
    bench.chain.append([tx_hash_of(1)])
    bench.chain.append()
    bench.commit()
    bench.hub.on_commit(1)
    await settle()
    assert connection.messages == [new_block(1), confirmed(tx_hash_of(1), 1), new_block(2), new_block(3)]


async def test_a_full_socket_reads_on_from_the_store(bench: Bench) -> None:
    connection, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, None)
    bench.hub.follow(subscriber, tx_hash_of(2))
    connection.paused = True
    for number in range(5):
        bench.commit(tx_hash_of(number))
        await settle()
    assert connection.writes == []
    connection.resume()
    await settle()
    assert connection.messages == [
        *(new_block(height) for height in (1, 2, 3)),
        confirmed(tx_hash_of(2), 3),
        *(new_block(height) for height in (4, 5)),
    ]


async def test_no_more_blocks_after_unsubscribing(bench: Bench) -> None:
    connection, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, 0)
    bench.hub.unsubscribe_blocks(subscriber)
    bench.commit()
    await settle()
    assert connection.messages == []


async def test_all_sockets_of_a_client_are_served_in_one_turn_if_it_is_long_enough(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = bench.hub.shares
    shares.clock = lambda: 0.0
    turns: list[str] = []
    call = shares.call

    def counted(client: str, job: Job) -> None:
        turns.append(client)
        call(client, job)

    monkeypatch.setattr(shares, "call", counted)
    sockets = [bench.join(client) for client in ("one", "two") for _ in range(100)]
    for _, subscriber in sockets:
        bench.hub.subscribe_blocks(subscriber, None)
    await settle()
    turns.clear()
    bench.commit()
    await settle()
    assert sorted(turns) == ["one", "two"]
    assert all(len(connection.messages) == 1 for connection, _ in sockets)


async def test_sockets_behind_one_that_fails_are_served(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    sockets = [bench.join("one") for _ in range(3)]
    for _, subscriber in sockets:
        bench.hub.subscribe_blocks(subscriber, None)
    await settle()
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context["message"]))

    def fail(data: bytes) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(sockets[1][0], "write", fail)
    bench.commit()
    await settle()
    assert [len(connection.messages) for connection, _ in sockets] == [1, 0, 1]
    assert failures == ["a job failed"]


async def test_a_socket_that_left_is_forgotten(bench: Bench) -> None:
    connection, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, None)
    bench.hub.follow(subscriber, tx_hash_of(1))
    bench.hub.detach(subscriber)
    bench.commit(tx_hash_of(1))
    await settle()
    assert connection.writes == []
    assert not bench.hub.is_followed(tx_hash_of(1))
    # Whoever comes next starts at the present.
    _, later = bench.join()
    assert bench.hub.subscribe_blocks(later, None) == 2


async def test_a_store_that_cannot_be_read_only_delays(bench: Bench) -> None:
    replaying, first = bench.join()
    live, second = bench.join()
    bench.hub.subscribe_blocks(first, 0)
    bench.hub.subscribe_blocks(second, None)
    bench.hub.follow(second, tx_hash_of(1))
    bench.chain.broken = StoreUnavailable("away")
    bench.commit(tx_hash_of(1))
    await settle()
    assert replaying.writes == live.writes == []
    bench.chain.broken = None
    await asyncio.sleep(hub_module.RETRY_S)
    await settle()
    assert replaying.heights == [0, 1]
    assert live.messages == [new_block(1), confirmed(tx_hash_of(1), 1)]


async def test_a_failed_read_keeps_what_was_collected_before_it(bench: Bench) -> None:
    connection, subscriber = bench.join()
    bench.hub.follow(subscriber, tx_hash_of(1))
    bench.hub.subscribe_blocks(subscriber, 0)
    bench.chain.broken = StoreUnavailable("away")
    bench.hub.on_dropped(tx_hash_of(1), "expired")
    await settle()
    assert [message["event"] for message in connection.messages] == ["txDropped"]
    bench.chain.broken = None
    await asyncio.sleep(hub_module.RETRY_S)
    assert [message["event"] for message in connection.messages] == ["txDropped", "newBlock"]


async def test_damage_is_reported_to_whoever_can_stop_the_worker(bench: Bench) -> None:
    _, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, 0)
    bench.chain.broken = Corrupt("a block is not what it was")
    await settle()
    assert bench.chain.failures == [bench.chain.broken]


async def test_the_cache_of_blocks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "CACHED_BLOCKS", 4)
    bench = Bench(MemoryChain(10))
    for _ in range(2):
        connection, subscriber = bench.join()
        bench.hub.subscribe_blocks(subscriber, 0)
        await settle()
        assert connection.heights == list(range(10))


async def test_closing_all_sockets_refuses_new_ones(bench: Bench) -> None:
    connection, _ = bench.join()
    bench.hub.check_open()
    bench.hub.close_all(1001)
    assert connection.closed == (1001, "the node is stopping")
    with pytest.raises(ShuttingDown):
        bench.hub.check_open()


def test_a_socket_is_refused_before_the_store_is_open() -> None:
    with pytest.raises(Starting):
        EventHub(MemoryChain(0), Settings()).check_open()


# Whatever clients ask and however they read: what each is told must be what the chain says, in its order.

ACTIONS = st.one_of(
    st.tuples(st.just("commit"), st.lists(st.integers(0, 11), unique=True, max_size=4)),
    st.tuples(st.just("follow"), st.integers(0, 11)),
    st.tuples(st.just("unfollow"), st.integers(0, 11)),
    st.tuples(st.just("drop"), st.integers(0, 11)),
    st.tuples(st.sampled_from(["subscribe", "pause", "resume", "turn"]), st.just(0)),
)


@given(st.lists(ACTIONS, max_size=60), st.integers(0, 8))
def test_every_block_and_outcome_is_sent_once_and_in_order(actions: list[tuple[str, object]], from_height: int) -> None:
    async def scenario(bench: Bench) -> None:
        connection, subscriber = bench.join()
        mined: dict[TxHash, int] = {}
        dropped: set[TxHash] = set()
        for action, argument in actions:
            if action == "commit":
                assert isinstance(argument, list)
                txs = [tx for number in argument if (tx := tx_hash_of(number)) not in mined and tx not in dropped]
                height = bench.commit(*txs)
                mined |= dict.fromkeys(txs, height)
            elif action == "subscribe":
                if subscriber.next_height is None:
                    bench.hub.subscribe_blocks(subscriber, from_height)
            elif action == "pause":
                connection.paused = True
            elif action == "resume":
                connection.resume()
            elif action == "turn":
                await asyncio.sleep(0)
            else:
                assert isinstance(argument, int)
                tx_hash = tx_hash_of(argument)
                if action == "follow" and hex_of(tx_hash) not in {m.get("txHash") for m in connection.messages}:
                    bench.hub.follow(subscriber, tx_hash)
                elif action == "unfollow":
                    bench.hub.unfollow(subscriber, tx_hash)
                elif action == "drop" and tx_hash not in mined:
                    dropped.add(tx_hash)
                    bench.hub.on_dropped(tx_hash, "expired")
        connection.resume()
        await settle()
        check_story(connection, bench, mined, from_height)
        # Nothing that has ended may still be waited for.
        assert not subscriber.followed & (mined.keys())
        assert not subscriber.due

    run_virtual(scenario(Bench(MemoryChain(5))))


def check_story(connection: RecordingSocket, bench: Bench, mined: dict[TxHash, int], from_height: int) -> None:
    heights = connection.heights
    if heights:
        assert heights == list(range(from_height, bench.chain.height + 1))
    ends = [message["txHash"] for message in connection.messages if "txHash" in message]
    assert len(ends) == len(set(ends))
    passed = -1
    for message in connection.messages:
        if message["event"] == "newBlock":
            passed = message["blockHeight"]
        elif message["event"] == "txConfirmed":
            height = message["blockHeight"]
            assert mined[TxHash(bytes.fromhex(message["txHash"][2:]))] == height
            # Told before its block only if the socket had not asked for that block by then, or not at all.
            assert height not in heights or height <= passed or passed == -1
