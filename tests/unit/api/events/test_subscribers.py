"""Followed transactions on a socket: told once, with their block, and so many that others find room."""

import asyncio

import pytest

from cairn.api.events import subscribers
from cairn.config import Settings
from cairn.domain.errors import FollowLimit
from cairn.domain.types import TxHash
from cairn.time_shares import SLICE_S
from tests.support.event_server import hex_of, tx_hash_of
from tests.unit.api.hub_bench import Bench, confirmed, new_block, settle

pytestmark = pytest.mark.virtual_time

TICK_S = SLICE_S / 50


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_block_in_which_thousands_are_followed_is_announced_in_steps() -> None:
    bench = Bench(tick_s=TICK_S)
    txs = [tx_hash_of(number) for number in range(900)]
    connection, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, None)
    for tx_hash in txs[:-1]:
        bench.hub.follow(subscriber, tx_hash)
    bench.commit(*txs)
    await asyncio.sleep(0)
    assert bench.hub.is_followed(txs[-2])
    # Followed while the block is announced, and told once.
    bench.hub.follow(subscriber, txs[-1])
    await settle()
    assert connection.messages == [new_block(1), *(confirmed(tx_hash, 1) for tx_hash in txs)]


async def test_confirmations_follow_their_block_in_one_write(bench: Bench) -> None:
    connection, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, None)
    txs = [tx_hash_of(number) for number in range(5)]
    for tx_hash in (txs[3], txs[1]):
        bench.hub.follow(subscriber, tx_hash)
    bench.commit(*txs)
    await settle()
    # In the block's order, not in that of the subscriptions.
    assert connection.messages == [new_block(1), confirmed(txs[1], 1), confirmed(txs[3], 1)]
    assert len(connection.writes) == 1
    assert not subscriber.followed
    assert not bench.hub.is_followed(txs[1])


async def test_only_followers_are_told(bench: Bench) -> None:
    follower, following = bench.join()
    other, _ = bench.join()
    bench.hub.follow(following, tx_hash_of(1))
    bench.commit(tx_hash_of(0), tx_hash_of(1))
    await settle()
    assert follower.messages == [confirmed(tx_hash_of(1), 1)]
    assert other.messages == []


async def test_a_transaction_confirmed_before_is_told_right_after_the_answer(bench: Bench) -> None:
    bench.commit(tx_hash_of(1))
    connection, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, None)
    bench.hub.follow(subscriber, tx_hash_of(1))
    bench.hub.reply(subscriber, b'\x81\x14{"event":"reply!!!"}')
    await settle()
    assert connection.messages == [{"event": "reply!!!"}, confirmed(tx_hash_of(1), 1)]


async def test_in_a_replay_a_confirmation_waits_for_its_block(bench: Bench) -> None:
    bench.commit(tx_hash_of(1))
    bench.commit()
    connection, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, 0)
    bench.hub.follow(subscriber, tx_hash_of(1))
    await settle()
    assert connection.messages == [new_block(0), new_block(1), confirmed(tx_hash_of(1), 1), new_block(2)]


async def test_a_drop_is_told_at_once_and_ends_the_following(bench: Bench) -> None:
    connection, subscriber = bench.join()
    bench.hub.follow(subscriber, tx_hash_of(1))
    bench.hub.on_dropped(tx_hash_of(1), "replaced")
    bench.hub.on_dropped(tx_hash_of(2), "evicted")
    await settle()
    assert connection.messages == [{"event": "txDropped", "txHash": hex_of(tx_hash_of(1)), "reason": "replaced"}]
    bench.commit(tx_hash_of(1))
    await settle()
    assert len(connection.messages) == 1


async def test_an_unfollowed_transaction_is_not_told_even_when_it_was_due(bench: Bench) -> None:
    connection, subscriber = bench.join()
    bench.hub.follow(subscriber, tx_hash_of(1))
    bench.hub.follow(subscriber, tx_hash_of(2))
    connection.paused = True
    bench.commit(tx_hash_of(1))
    await settle()
    bench.hub.unfollow(subscriber, tx_hash_of(1))
    bench.hub.unfollow(subscriber, tx_hash_of(2))
    bench.hub.unfollow(subscriber, tx_hash_of(3))
    connection.resume()
    bench.commit(tx_hash_of(2))
    await settle()
    assert connection.messages == []
    assert not bench.hub.is_followed(tx_hash_of(2))


async def test_a_transaction_followed_again_while_due_is_told_once(bench: Bench) -> None:
    connection, subscriber = bench.join()
    bench.hub.follow(subscriber, tx_hash_of(1))
    connection.paused = True
    bench.commit(tx_hash_of(1))
    await settle()
    bench.hub.follow(subscriber, tx_hash_of(1))
    bench.hub.unfollow(subscriber, tx_hash_of(1))
    bench.hub.follow(subscriber, tx_hash_of(1))
    connection.resume()
    await settle()
    assert connection.messages == [confirmed(tx_hash_of(1), 1)]


async def test_the_limit_counts_what_is_not_told_yet() -> None:
    bench = Bench(settings=Settings(ws_max_followed=3))
    connection, subscriber = bench.join()
    for number in range(3):
        bench.hub.follow(subscriber, tx_hash_of(number))
        bench.hub.follow(subscriber, tx_hash_of(number))
    connection.paused = True
    bench.commit(tx_hash_of(0))
    await settle()
    with pytest.raises(FollowLimit):
        bench.hub.follow(subscriber, tx_hash_of(3))
    connection.resume()
    await settle()
    bench.hub.follow(subscriber, tx_hash_of(3))


async def test_all_sockets_of_a_client_together_leave_some_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribers, "MAX_FOLLOWED", 8)
    bench = Bench()
    sockets = [bench.join("greedy") for _ in range(3)]
    for number in range(4):
        bench.hub.follow(sockets[number % 2][1], tx_hash_of(number))
    for _, greedy in sockets:
        with pytest.raises(FollowLimit):
            bench.hub.follow(greedy, tx_hash_of(100))
    _, other = bench.join("other")
    bench.hub.follow(other, tx_hash_of(0))
    # Each way in which one ends gives its place back.
    bench.hub.unfollow(sockets[0][1], tx_hash_of(0))
    bench.hub.follow(sockets[2][1], tx_hash_of(4))
    bench.commit(tx_hash_of(1))
    await settle()
    bench.hub.detach(sockets[0][1])
    bench.hub.detach(sockets[0][1])
    for number in (5, 6):
        bench.hub.follow(sockets[2][1], tx_hash_of(number))
    with pytest.raises(FollowLimit):
        bench.hub.follow(sockets[2][1], tx_hash_of(7))


async def test_a_confirmed_transaction_is_told_though_no_more_can_be_followed() -> None:
    bench = Bench(settings=Settings(ws_max_followed=3))
    connection, subscriber = bench.join()
    bench.commit(*(tx_hash_of(number) for number in range(10, 20)))
    await settle()
    for number in range(3):
        bench.hub.follow(subscriber, tx_hash_of(number))
    for number in range(10, 14):
        bench.hub.follow(subscriber, tx_hash_of(number))
        await settle()
    assert connection.messages == [confirmed(tx_hash_of(number), 1) for number in range(10, 14)]
    with pytest.raises(FollowLimit):
        bench.hub.follow(subscriber, tx_hash_of(3))
    # Nothing is told to a client that does not read, and so not without end kept for it.
    connection.paused = True
    for number in range(14, 17):
        bench.hub.follow(subscriber, tx_hash_of(number))
    with pytest.raises(FollowLimit):
        bench.hub.follow(subscriber, tx_hash_of(17))


async def test_the_core_is_asked_about_what_the_store_does_not_show(bench: Bench) -> None:
    asked: list[TxHash] = []
    bench.hub.on_unsure(asked.append)
    bench.commit(tx_hash_of(1))
    _, subscriber = bench.join()
    bench.hub.follow(subscriber, tx_hash_of(1))
    bench.hub.follow(subscriber, tx_hash_of(2))
    assert asked == [tx_hash_of(2)]
    # After an absence of the core, notices may have been missed.
    bench.hub.on_phase("unavailable", "gone")
    bench.hub.on_phase("ready", "")
    assert asked == [tx_hash_of(2)] * 2
