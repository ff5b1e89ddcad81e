"""Payments of followed addresses on a socket: each once, in the order of the chain, replayed and live."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from cairn.api.bodies import as_strings
from cairn.api.events import payments as payments_module
from cairn.api.events.hub import CHUNK_FRAMES
from cairn.api.events.payments import FollowedPayments
from cairn.api.events.subscribers import PaymentCursor, Subscriber
from cairn.config import Settings
from cairn.domain.answers import Payment
from cairn.domain.errors import BlockNotKept, FollowLimit, StoreUnavailable
from cairn.domain.types import MAX_UINT256, Tx
from cairn.time_shares import SLICE_S
from tests.support.event_server import MemoryChain
from tests.support.recording_socket import RecordingSocket
from tests.support.transfers import address, transfer
from tests.unit.api.hub_bench import Bench, confirmed, new_block, settle

pytestmark = pytest.mark.virtual_time

TICK_S = SLICE_S / 50
ALICE, BOB, CAROL = address(1), address(2), address(3)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def pay(sender: int, to: int, nonce: int = 0, value: int = 1) -> Tx:
    return transfer(sender, nonce, to=to, value=value)


def chain_of(*blocks: Sequence[Tx]) -> MemoryChain:
    """Block 0 is empty."""
    chain = MemoryChain()
    for block in blocks:
        chain.append(block)
    return chain


def heights_of(connection: RecordingSocket) -> list[tuple[str, int]]:
    return [(message["event"], message["blockHeight"]) for message in connection.messages]


async def test_a_transfer_in_or_out_is_told_and_no_other(bench: Bench) -> None:
    connection, subscriber = bench.join()
    other, other_subscriber = bench.join()
    assert bench.hub.follow_addresses(subscriber, [ALICE], None) == 1
    bench.hub.follow_addresses(other_subscriber, [CAROL], None)
    paid_in, paid_out, foreign = pay(2, 1), pay(1, 2, value=MAX_UINT256), pay(2, 4)
    bench.commit(paid_in, foreign, paid_out)
    await settle()
    assert connection.messages == [bench.payment(paid_in), bench.payment(paid_out)]
    assert len(connection.writes) == 1
    assert other.messages == []


async def test_a_transfer_between_followed_addresses_or_to_oneself_is_told_once(bench: Bench) -> None:
    connection, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [ALICE, BOB], None)
    between, to_herself = pay(1, 2), pay(1, 1, nonce=1)
    bench.commit(between, to_herself)
    await settle()
    replay, replaying = bench.join()
    bench.hub.follow_addresses(replaying, [ALICE, BOB], 0)
    await settle()
    assert connection.messages == replay.messages == [bench.payment(between), bench.payment(to_herself)]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"invoice 4711", {"data": "0x696e766f6963652034373131", "reference": "invoice 4711"}),
        (b'"value":5', {"data": "0x2276616c7565223a35", "reference": '"value":5'}),
        (b"\xff\x00", {"data": "0xff00"}),
    ],
)
async def test_a_payment_with_data_says_so_and_a_printable_one_its_reference(
    bench: Bench, data: bytes, told: dict[str, str]
) -> None:
    paid = msgspec.structs.replace(pay(2, 1), data=data)
    connection, strings = RecordingSocket(), RecordingSocket()
    bench.hub.follow_addresses(bench.hub.attach(connection), [ALICE], None)
    bench.hub.follow_addresses(bench.hub.attach(strings, form=as_strings), [ALICE], None)
    bench.commit(paid)
    await settle()
    assert connection.messages == [bench.payment(paid) | told]
    assert strings.messages == [bench.payment(paid) | told | {"value": "1"}]
    assert msgspec.convert(connection.messages[0], Payment).reference == told.get("reference")


async def test_amounts_are_strings_on_a_socket_that_asks_for_them(bench: Bench) -> None:
    connection = RecordingSocket()
    bench.hub.follow_addresses(bench.hub.attach(connection, form=as_strings), [ALICE], None)
    paid = pay(2, 1, value=10**30)
    bench.commit(paid)
    await settle()
    assert connection.messages == [bench.payment(paid) | {"value": str(10**30)}]


async def test_a_block_comes_before_its_confirmations_and_those_before_its_payments() -> None:
    paid = [pay(2, 1, nonce) for nonce in range(4)]
    bench = Bench(chain_of(paid[:1], paid[1:2]))
    connection, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, 1)
    bench.hub.follow_addresses(subscriber, [ALICE], 1)
    bench.hub.follow(subscriber, paid[3].hash)
    await settle()
    bench.commit(paid[2], paid[3])
    await settle()
    assert connection.messages == [
        new_block(1), bench.payment(paid[0]), new_block(2), bench.payment(paid[1]),
        new_block(3), confirmed(paid[3].hash, 3), bench.payment(paid[2]), bench.payment(paid[3]),
    ]  # fmt: skip


async def test_blocks_wait_for_the_payments_before_them() -> None:
    """So a newBlock says that all payments below it have come."""
    bench = Bench(chain_of(*([pay(2, 1, nonce)] for nonce in range(200))), tick_s=TICK_S)
    connection, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, None)
    bench.hub.follow_addresses(subscriber, [ALICE], 100)
    bench.commit(pay(2, 1, 200))
    await settle()
    assert heights_of(connection) == [
        *(("payment", height) for height in range(100, 201)), ("newBlock", 201), ("payment", 201)
    ]  # fmt: skip


async def test_a_confirmed_transaction_waits_for_the_replayed_payments_before_its_block() -> None:
    paid = [pay(2, 1, nonce) for nonce in range(200)]
    bench = Bench(chain_of(*([tx] for tx in paid)), tick_s=TICK_S)
    connection, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [ALICE], 0)
    bench.hub.follow(subscriber, paid[149].hash)
    await settle()
    heights = heights_of(connection)
    assert heights == [*(("payment", height) for height in range(1, 150)), ("txConfirmed", 150), *heights[150:]]
    # All are told, so nothing is waited for any more.
    bench.hub.follow(subscriber, paid[9].hash)
    await settle()
    assert heights_of(connection)[150:] == [*(("payment", height) for height in range(150, 201)), ("txConfirmed", 10)]


async def test_payments_wait_for_the_replayed_blocks_before_them() -> None:
    bench = Bench(chain_of(*([pay(2, 1, nonce)] for nonce in range(200))), tick_s=TICK_S)
    connection, subscriber = bench.join()
    bench.hub.subscribe_blocks(subscriber, 100)
    bench.hub.follow_addresses(subscriber, [ALICE], None)
    bench.commit(pay(2, 1, 200))
    await settle()
    assert heights_of(connection) == [*(("newBlock", height) for height in range(100, 202)), ("payment", 201)]


@pytest.mark.parametrize("count", [1, 40, 300])
async def test_a_replay_finds_all_however_many_are_followed(count: int) -> None:
    """Be it in histories or in blocks, and continues with new blocks."""
    followed = range(100, 100 + count)
    blocks = [
        [pay(nonce % 90, 100 + nonce % 600, nonce * 10 + number) for number in range(nonce % 5)] for nonce in range(400)
    ]
    bench = Bench(chain_of(*blocks))
    connection, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [address(number) for number in followed], 7)
    await settle()
    bench.commit(*(last := [pay(1, 100, 10_000), pay(1, 99, 10_001)]))
    await settle()
    expected = [
        bench.payment(tx)
        for height, block in enumerate([*blocks, last], start=1)
        for tx in block
        if height >= 7 and int.from_bytes(tx.to, "big") in followed
    ]
    assert connection.messages == expected


async def test_three_payments_in_a_long_chain_are_found_in_few_reads() -> None:
    chain = MemoryChain(100_000)
    for height in (70, 50_000, 99_998):
        chain.replace(height, [pay(2, 1, height)])
    bench = Bench(chain)
    connection, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [ALICE], 0)
    await settle()
    assert heights_of(connection) == [("payment", 70), ("payment", 50_000), ("payment", 99_998)]
    assert chain.reads < 40


async def test_a_block_in_which_thousands_are_paid_is_sent_in_steps_to_one_who_follows_few() -> None:
    block = [pay(2, 1 if nonce % 2 else 3, nonce) for nonce in range(3_000)]
    bench = Bench(chain_of(block))
    connection, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [ALICE], 0)
    await settle()
    assert connection.messages == [bench.payment(tx) for tx in block if tx.to == ALICE]
    assert len(connection.writes) == -(-1_500 // CHUNK_FRAMES)


@pytest.mark.parametrize("followed", [1, 200])
async def test_a_new_block_is_matched_in_steps(followed: int) -> None:
    bench = Bench(tick_s=TICK_S)
    connection, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [address(1_000 + number) for number in range(followed)], None)
    block = [pay(2, 1_000 + nonce % 300, nonce) for nonce in range(3_000)]
    bench.commit(*block)
    await asyncio.sleep(0)
    assert connection.messages == []
    # Subscribed while it is being matched, from the same block on.
    late, late_subscriber = bench.join()
    bench.hub.subscribe_blocks(late_subscriber, None)
    assert bench.hub.follow_addresses(late_subscriber, [address(1_299)], None) == 1
    await settle()
    expected = [bench.payment(tx) for tx in block if int.from_bytes(tx.to, "big") < 1_000 + followed]
    assert connection.messages == expected
    assert late.messages == [new_block(1), *(bench.payment(tx) for tx in block if tx.to == address(1_299))]
    bench.commit(more := pay(1_000, 1_299, 9_999))
    await settle()
    assert connection.messages[-1] == late.messages[-1] == bench.payment(more)


async def test_a_replay_that_ends_while_a_new_block_is_matched_without_it_misses_nothing() -> None:
    bench = Bench(chain_of([first := pay(2, 1)]), tick_s=TICK_S)
    _, other = bench.join("other")
    bench.hub.follow_addresses(other, [CAROL], None)
    block = [pay(2, 1, 1), *(pay(2, 4, nonce) for nonce in range(2, 5_000))]
    bench.commit(*block)
    await asyncio.sleep(0)
    connection, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [ALICE], 0)
    for _ in range(5):
        await asyncio.sleep(0)
    assert connection.messages == [bench.payment(first)]
    await settle()
    assert connection.messages == [bench.payment(first), bench.payment(block[0])]


@pytest.mark.parametrize("events_per_slice", [1, 2, 3, 5, 10])
async def test_a_change_in_the_middle_of_a_block_in_which_many_are_paid_repeats_and_omits_nothing(
    events_per_slice: int,
) -> None:
    """Also if it comes before each turn, when the last one ended among payments of others."""
    bench = Bench(tick_s=SLICE_S / events_per_slice)
    connection, subscriber = bench.join()
    _, other = bench.join("other")
    many = range(1_000, 1_000 + payments_module.FEW_ADDRESSES + 1)
    bench.hub.follow_addresses(subscriber, [*map(address, many), *map(address, range(5_000, 6_000))], None)
    bench.hub.follow_addresses(other, [CAROL], None)
    block = [pay(2, to, number) for number, to in enumerate(each for paid in many for each in (paid, 3, 3))]
    bench.commit(*block)
    for unpaid in range(5_000, 6_000):
        await asyncio.sleep(0)
        bench.hub.unfollow_addresses(subscriber, [address(unpaid)])
    assert connection.messages == [bench.payment(tx) for tx in block if tx.to != CAROL]


async def test_a_socket_that_stopped_following_is_woken_by_no_block_though_its_addresses_are_released_later(
    bench: Bench,
) -> None:
    followed = FollowedPayments(bench.chain, 10_000, bench.hub.shares)
    cursor = PaymentCursor(bench.join()[1], 1)
    addresses = [address(number) for number in range(2 * payments_module.RELEASED_AT_ONCE)]
    followed.follow(cursor, addresses, None, 0)
    followed.end(cursor)
    left = next(iter(followed.followers))
    height = bench.chain.append([pay(addresses.index(left), 1)])
    assert followed.match(height, lambda: False)
    assert list(followed.wake(height)) == []
    await settle()
    assert not followed.followers


async def test_of_many_sockets_that_follow_an_address_those_that_stay_are_told(bench: Bench) -> None:
    joined = [bench.join() for _ in range(3 * payments_module.FEW_FOLLOWERS)]
    for _, subscriber in joined:
        bench.hub.follow_addresses(subscriber, [ALICE], None)
    while joined:
        bench.commit(paid := pay(2, 1, len(joined)))
        await settle()
        assert all(connection.messages[-1] == bench.payment(paid) for connection, _ in joined)
        left, leaving = joined.pop(len(joined) // 2)
        bench.hub.unfollow_addresses(leaving, [ALICE])
        left.writes.clear()
        bench.commit(pay(2, 1, 100 + len(joined)))
        await settle()
        assert left.messages == []
    bench.chain.reads = 0
    bench.commit(pay(2, 1, 1_000))
    await settle()
    assert bench.chain.reads == 0


async def test_blocks_without_a_followed_payment_touch_no_socket(bench: Bench) -> None:
    joined = [bench.join() for _ in range(50)]
    for number, (_, subscriber) in enumerate(joined):
        bench.hub.follow_addresses(subscriber, [address(100 + number)], None)
    bench.commit()
    await settle()
    bench.chain.reads = 0
    bench.commit(pay(2, 120))
    await settle()
    assert bench.chain.reads == 1
    assert [number for number, (connection, _) in enumerate(joined) if connection.writes] == [20]


async def test_a_full_socket_gets_all_when_it_resumes(bench: Bench) -> None:
    """Also of blocks whose matches are no longer kept."""
    connection, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [ALICE], None)
    connection.paused = True
    paid = [pay(2, 1, nonce) for nonce in range(3 * payments_module.KEPT_BLOCKS)]
    for tx in paid:
        bench.commit(tx, pay(2, 3, tx.nonce))
        await settle()
    assert connection.writes == []
    connection.resume()
    await settle()
    assert connection.messages == [bench.payment(tx) for tx in paid]


async def test_sockets_that_lag_a_little_read_nothing_for_themselves(bench: Bench) -> None:
    connection, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [ALICE], None)
    bench.commit(pay(2, 1))
    await settle()
    connection.paused = True
    bench.chain.reads = 0
    for nonce in range(1, 6):
        bench.commit(pay(2, 1, nonce))
        await settle()
    connection.resume()
    await settle()
    assert bench.chain.reads == 5
    assert len(connection.messages) == 6


async def test_an_address_that_is_added_begins_where_the_socket_is() -> None:
    bench = Bench(chain_of(*([pay(2, 1, nonce), pay(2, 3, nonce)] for nonce in range(5))))
    connection, subscriber = bench.join()
    assert bench.hub.follow_addresses(subscriber, [ALICE], 4) == 4
    await settle()
    assert bench.hub.follow_addresses(subscriber, [CAROL], None) == 6
    bench.commit(*(last := [pay(2, 1, 9), pay(2, 3, 9)]))
    await settle()
    assert heights_of(connection) == [("payment", 4), ("payment", 5), ("payment", 6), ("payment", 6)]
    assert connection.messages[-2:] == [bench.payment(tx) for tx in last]


async def test_an_address_that_is_added_within_a_block_begins_with_the_next() -> None:
    blocks = [[pay(2, 1 + 2 * (nonce % 2), nonce + block) for nonce in range(200)] for block in (0, 1_000)]
    bench = Bench(chain_of(*blocks), tick_s=TICK_S)
    connection, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [ALICE], 1)
    await asyncio.sleep(0)
    assert 0 < len(connection.messages) < 100
    assert bench.hub.follow_addresses(subscriber, [CAROL], None) == 2
    assert subscriber.followed_addresses == 2
    await settle()
    assert connection.messages == [
        *(bench.payment(tx) for tx in blocks[0] if tx.to == ALICE),
        *(bench.payment(tx) for tx in blocks[1]),
    ]


async def test_a_height_moves_all_addresses_there() -> None:
    blocks = [[pay(2, 1, nonce), pay(2, 3, nonce)] for nonce in range(4)]
    bench = Bench(chain_of(*blocks))
    connection, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [ALICE], None)
    assert bench.hub.follow_addresses(subscriber, [CAROL], 3) == 3
    await settle()
    expected = [bench.payment(tx) for block in blocks[2:] for tx in block]
    assert connection.messages == expected
    bench.hub.follow_addresses(subscriber, [ALICE], 4)
    await settle()
    assert connection.messages == [*expected, *expected[2:]]


async def test_a_height_in_the_future_is_waited_for(bench: Bench) -> None:
    connection, subscriber = bench.join()
    assert bench.hub.follow_addresses(subscriber, [ALICE], 3) == 3
    for nonce in range(4):
        bench.commit(pay(2, 1, nonce))
        await settle()
    assert heights_of(connection) == [("payment", 3), ("payment", 4)]


async def test_what_is_no_longer_followed_is_not_told() -> None:
    paid = [[pay(2, 1, nonce), pay(2, 3, nonce)] for nonce in range(3)]
    bench = Bench(chain_of(*paid))
    connection, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [ALICE, CAROL], 1)
    bench.hub.unfollow_addresses(subscriber, [ALICE, BOB])
    assert subscriber.followed_addresses == 1
    await settle()
    assert connection.messages == [bench.payment(tx) for _, tx in paid]
    bench.hub.unfollow_addresses(subscriber, [CAROL])
    bench.commit(pay(2, 3, 9))
    await settle()
    assert len(connection.messages) == 3
    # It begins anew, with new blocks.
    assert bench.hub.follow_addresses(subscriber, [CAROL], None) == 5
    bench.hub.unfollow_addresses(subscriber, None)
    bench.hub.unfollow_addresses(subscriber, None)
    bench.commit(pay(2, 3, 10))
    await settle()
    assert len(connection.messages) == 3


async def test_a_socket_follows_so_many_addresses_and_no_more() -> None:
    bench = Bench(settings=Settings(ws_max_addresses=3))
    connection, subscriber = bench.join()
    # The same one twice is one.
    bench.hub.follow_addresses(subscriber, [ALICE, BOB, ALICE, BOB], None)
    with pytest.raises(FollowLimit, match="a socket follows at most 3 addresses"):
        bench.hub.follow_addresses(subscriber, [CAROL, address(4)], None)
    assert subscriber.followed_addresses == 2
    bench.commit(pay(5, 3), pay(5, 4))
    await settle()
    assert connection.messages == []
    bench.hub.follow_addresses(subscriber, [ALICE, BOB, CAROL], None)
    bench.hub.unfollow_addresses(subscriber, [ALICE])
    bench.hub.follow_addresses(subscriber, [address(4)], None)
    assert subscriber.followed_addresses == 3


async def test_one_client_leaves_addresses_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payments_module, "MAX_ADDRESSES", 2_000)
    bench = Bench()
    greedy = [bench.join("greedy")[1] for _ in range(3)]

    def follow(subscriber: Subscriber, first: int) -> None:
        bench.hub.follow_addresses(subscriber, [address(number) for number in range(first, first + 600)], None)

    follow(greedy[0], 0)
    with pytest.raises(FollowLimit, match="too many addresses are followed on this node"):
        follow(greedy[1], 1_000)
    follow(bench.join("modest")[1], 1_000)
    bench.hub.detach(greedy[0])
    await settle()
    follow(greedy[2], 2_000)


async def test_addresses_of_a_socket_that_has_left_are_forgotten(bench: Bench) -> None:
    _, subscriber = bench.join()
    stays, staying = bench.join()
    bench.hub.follow_addresses(staying, [ALICE], None)
    bench.hub.follow_addresses(subscriber, [address(number) for number in range(5_000)], None)
    bench.hub.detach(subscriber)
    await settle()
    bench.commit(pay(2, 1), pay(3, 4))
    await settle()
    assert len(stays.messages) == 1
    bench.hub.detach(staying)
    bench.chain.reads = 0
    bench.commit(pay(2, 1, 1))
    await settle()
    assert bench.chain.reads == 0


async def test_payments_below_the_base_are_refused_or_end_the_socket() -> None:
    bench = Bench(chain_of(*([pay(2, 1, nonce)] for nonce in range(9))))
    bench.chain.base = 5
    connection, subscriber = bench.join()
    with pytest.raises(BlockNotKept, match="events can be had from 5 on"):
        bench.hub.follow_addresses(subscriber, [ALICE], 4)
    connection.paused = True
    bench.hub.follow_addresses(subscriber, [ALICE], 5)
    bench.chain.base = 6
    connection.resume()
    await settle()
    assert connection.messages == []
    assert connection.closed == (1013, "block 5 is not kept: the oldest is 6")


async def test_a_socket_that_waits_is_closed_when_the_next_block_is_pruned_unseen(bench: Bench) -> None:
    connection, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [ALICE], None)
    bench.commit(pay(2, 1))
    await settle()
    for nonce in range(1, 5):
        bench.chain.append([pay(2, 1, nonce)])
    bench.chain.base = 4
    bench.hub.on_commit(5)
    await settle()
    assert heights_of(connection) == [("payment", 1)]
    assert connection.closed == (1013, "block 2 is not kept: the oldest is 4")


async def test_payments_wait_while_the_store_cannot_be_read() -> None:
    bench = Bench(chain_of(*([pay(2, 1, nonce)] for nonce in range(3))))
    replay, replaying = bench.join()
    live, living = bench.join()
    bench.hub.follow_addresses(living, [ALICE], None)
    bench.chain.broken = StoreUnavailable("away")
    bench.hub.follow_addresses(replaying, [ALICE], 0)
    bench.commit(pay(2, 1, 3))
    await settle()
    assert replay.messages == live.messages == []
    bench.chain.broken = None
    await asyncio.sleep(2)
    assert heights_of(replay) == [("payment", height) for height in (1, 2, 3, 4)]
    assert heights_of(live) == [("payment", 4)]


async def test_a_revert_closes_the_socket(bench: Bench) -> None:
    connection, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [ALICE], None)
    bench.commit(pay(2, 1))
    await settle()
    bench.hub.on_reverted(0)
    assert connection.closed == (4205, "the chain was reverted to block 0")
    bench.chain.replace(1, [paid := pay(2, 1, 7)])
    again, subscriber = bench.join()
    bench.hub.follow_addresses(subscriber, [ALICE], 1)
    bench.hub.on_commit(1)
    await settle()
    assert again.messages == [bench.payment(paid)]
    assert heights_of(connection) == [("payment", 1)]


async def test_a_client_with_many_replays_gets_no_more_than_one_with_a_single_one() -> None:
    bench = Bench(chain_of(*([pay(2, 1, nonce)] for nonce in range(2_000))), tick_s=TICK_S)
    many = [bench.join("many") for _ in range(9)]
    single, subscriber = bench.join("single")
    for _, each in (*many, (single, subscriber)):
        bench.hub.follow_addresses(each, [ALICE], 0)
    for _ in range(50):
        await asyncio.sleep(0)
    served = sum(len(connection.messages) for connection, _ in many)
    assert 0 < served < 2_000
    assert abs(len(single.messages) - served) <= 2 * SLICE_S / TICK_S
