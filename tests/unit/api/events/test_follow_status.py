"""A followed transaction that was dropped long ago is found out, also when the core is away for a while."""

import asyncio

import pytest
from structlog.testing import capture_logs

from cairn.api.events.hub import EventHub
from cairn.api.events.socket import AT_ONCE, RETRY_S, FollowStatus
from cairn.config import Settings
from cairn.core.gateway import ConfirmedTx, DroppedTx, PendingTx
from tests.support.core_fixtures import signed
from tests.support.event_server import KnownStatuses, MemoryChain, hex_of, tx_hash_of
from tests.support.recording_socket import RecordingSocket

pytestmark = pytest.mark.virtual_time


class Bench:
    def __init__(self) -> None:
        self.core = KnownStatuses()
        self.hub = EventHub(MemoryChain(), Settings())
        self.inquiry = FollowStatus(self.core, self.hub)
        self.connection = RecordingSocket()
        self.subscriber = self.hub.attach(self.connection)

    def follow(self, number: int) -> None:
        self.hub.follow(self.subscriber, tx_hash_of(number))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def told(bench: Bench) -> list[tuple[str, str]]:
    return [(message["txHash"], message["reason"]) for message in bench.connection.messages]


async def test_a_transaction_dropped_before_it_was_followed_is_reported(bench: Bench) -> None:
    bench.core.statuses[tx_hash_of(1)] = DroppedTx("evicted")
    bench.core.statuses[tx_hash_of(2)] = ConfirmedTx(9)
    for number in (1, 2, 3):
        bench.follow(number)
    await asyncio.sleep(RETRY_S / 2)
    assert told(bench) == [(hex_of(tx_hash_of(1)), "evicted")]
    # The confirmed one comes with its block, the unknown one may still be submitted.
    assert bench.hub.is_followed(tx_hash_of(2))
    assert bench.hub.is_followed(tx_hash_of(3))


async def test_the_question_stays_open_while_the_core_is_away(bench: Bench) -> None:
    bench.core.is_away = True
    bench.core.statuses[tx_hash_of(1)] = DroppedTx("expired")
    bench.follow(1)
    await asyncio.sleep(2.5 * RETRY_S)
    assert told(bench) == []
    assert len(bench.core.asked) == 3
    bench.core.is_away = False
    await asyncio.sleep(RETRY_S)
    assert told(bench) == [(hex_of(tx_hash_of(1)), "expired")]


async def test_the_core_is_not_asked_about_a_transaction_that_is_no_longer_followed(bench: Bench) -> None:
    for number in range(3 * AT_ONCE):
        bench.follow(number)
    bench.hub.detach(bench.subscriber)
    await asyncio.sleep(RETRY_S / 2)
    assert bench.core.asked == []


async def test_one_question_for_all_who_follow(bench: Bench) -> None:
    others = [bench.hub.attach(RecordingSocket()) for _ in range(5)]
    for subscriber in others:
        bench.hub.follow(subscriber, tx_hash_of(1))
    bench.follow(1)
    await asyncio.sleep(RETRY_S / 2)
    assert bench.core.asked == [tx_hash_of(1)]


async def test_a_question_during_the_last_answer_is_asked_too(bench: Bench) -> None:
    for number in range(50):
        bench.follow(number)
        # Every possible moment between the end of one round and the start of the next.
        for _ in range(number % 7):
            await asyncio.sleep(0)
    await asyncio.sleep(RETRY_S / 2)
    assert sorted(bench.core.asked) == sorted(tx_hash_of(number) for number in range(50))


async def test_a_failure_of_ours_is_logged_and_the_next_question_is_asked(bench: Bench) -> None:
    find_tx = bench.core.find_tx
    with capture_logs() as logged:
        bench.core.find_tx = None  # type: ignore[assignment, method-assign]
        bench.follow(1)
        await asyncio.sleep(RETRY_S / 2)
        bench.core.find_tx = find_tx  # type: ignore[method-assign]
        bench.follow(2)
        await asyncio.sleep(RETRY_S / 2)
    assert bench.core.asked == [tx_hash_of(2)]
    assert [entry["log_level"] for entry in logged] == ["error"]


async def test_a_queued_transaction_is_reported_once_to_those_who_want_to_know(bench: Bench) -> None:
    other = RecordingSocket()
    bench.hub.follow(bench.hub.attach(other), tx_hash_of(1))
    bench.core.statuses[tx_hash_of(1)] = PendingTx(signed(5), 0, waits_for_nonce=3)
    bench.core.statuses[tx_hash_of(2)] = PendingTx(signed(5), 0)
    bench.core.is_away = True
    for number in (1, 2):
        bench.follow(number)
        bench.inquiry.ask(tx_hash_of(number), bench.subscriber)
    await asyncio.sleep(1.5 * RETRY_S)
    bench.core.is_away = False
    await asyncio.sleep(RETRY_S)
    bench.hub.on_phase("ready", "")
    await asyncio.sleep(RETRY_S)
    queued = {"event": "txQueued", "txHash": hex_of(tx_hash_of(1)), "queuedReason": "waits for nonce 3"}
    assert bench.connection.messages == [queued], "also after the core was away, and not again after its restart"
    assert other.messages == []
    assert bench.hub.is_followed(tx_hash_of(1))


async def test_whoever_no_longer_follows_is_not_told_that_it_is_queued(bench: Bench) -> None:
    bench.hub.follow(bench.hub.attach(RecordingSocket()), tx_hash_of(1))
    bench.core.statuses[tx_hash_of(1)] = PendingTx(signed(5), 0, waits_for_nonce=3)
    bench.follow(1)
    bench.inquiry.ask(tx_hash_of(1), bench.subscriber)
    bench.hub.unfollow(bench.subscriber, tx_hash_of(1))
    await asyncio.sleep(RETRY_S / 2)
    assert bench.core.asked == [tx_hash_of(1)]
    assert bench.connection.messages == []
