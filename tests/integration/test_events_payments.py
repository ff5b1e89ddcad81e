"""Payments of followed addresses: over real sockets, and from a real store."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cairn.api.chain_reads import ChainReads
from cairn.api.description.asyncapi import asyncapi_document
from cairn.api.events.payment_search import FoundPayment, PaymentSearch
from cairn.config import Settings
from cairn.domain.errors import Unavailable
from cairn.domain.transactions import decode_record
from cairn.domain.types import Address
from cairn.store.chain import ChainStore
from cairn.store.follower import FollowerStore
from cairn.store.keys import Location
from tests.support.blocks import SENDERS, extend, store_genesis
from tests.support.event_client import ask, connect_idle, connect_to, read_to_the_end, receive, receive_many
from tests.support.event_server import EventServer, event_server, hex_of, virtual_event_server
from tests.support.transfers import address, transfer
from tests.unit.api.hub_bench import new_block, payment

pytestmark = pytest.mark.uvloop

DESCRIBED: dict[str, Any] = asyncapi_document()["components"]["messages"]
IN_A_MESSAGE = 350


@pytest.fixture
async def server() -> AsyncIterator[EventServer]:
    async with event_server() as served:
        yield served


def texts(numbers: Sequence[int]) -> list[str]:
    return [hex_of(address(number)) for number in numbers]


async def test_addresses_are_followed_by_message(server: EventServer) -> None:
    server.chain.append([paid := transfer(7, 0, to=1)])
    async with connect_to(server) as client:
        answer = await ask(client, action="subscribe", event="payment", addresses=texts([1]), fromHeight=0, id="a")
        assert answer == {"event": "subscribed", "subscription": "payment", "fromHeight": 0, "followed": 1, "id": "a"}
        jsonschema.validate(answer, DESCRIBED["subscribed"]["payload"])
        told = await receive(client)
        assert told == payment(paid, 1, 0)
        jsonschema.validate(told, DESCRIBED["payment"]["payload"])
        answer = await ask(client, action="subscribe", event="payment", addresses=texts([1, 2]))
        assert answer == {"event": "subscribed", "subscription": "payment", "fromHeight": 2, "followed": 2}
        answer = await ask(client, action="unsubscribe", event="payment", addresses=texts([1, 9]))
        assert answer == {"event": "unsubscribed", "subscription": "payment", "followed": 1}
        server.commit([transfer(7, 1, to=1), second := transfer(7, 2, to=2)])
        assert await receive(client) == payment(second, 2, 1)
        answer = await ask(client, action="unsubscribe", event="payment", id=1)
        assert answer == {"event": "unsubscribed", "subscription": "payment", "followed": 0, "id": 1}
        jsonschema.validate(answer, DESCRIBED["unsubscribed"]["payload"])


async def test_addresses_are_followed_by_the_url(server: EventServer) -> None:
    server.chain.append([paid := transfer(1, 0, to=2, value=2**255)])
    one, two = texts([1, 2])
    async with connect_to(server, f"?payment={one}&newBlock&payment={two}&fromHeight=0&amounts=string") as client:
        messages = await receive_many(client, 5)
        assert [message["event"] for message in messages[:2]] == ["subscribed"] * 2
        assert messages[2:] == [new_block(0), new_block(1), payment(paid, 1, 0) | {"value": str(2**255)}]
        jsonschema.validate(messages[4], DESCRIBED["payment"]["payload"])


async def test_ten_thousand_addresses_are_followed_and_one_more_is_refused(server: EventServer) -> None:
    paid = [transfer(7, nonce, to=1_000 + nonce) for nonce in range(0, 10_002, 1_000)]
    server.chain.append(paid)
    async with connect_to(server) as client:
        followed = range(1_000, 11_000)
        for start in range(0, 10_000, IN_A_MESSAGE):
            some = texts(followed[start : start + IN_A_MESSAGE])
            # The last message begins the replay, for all.
            last = {"fromHeight": 0} if start + IN_A_MESSAGE >= 10_000 else {}
            answer = await ask(client, action="subscribe", event="payment", addresses=some, **last)
            assert answer["followed"] == min(10_000, start + IN_A_MESSAGE)
        assert await receive_many(client, 10) == [payment(tx, 1, position) for position, tx in enumerate(paid[:10])]
        refused = await ask(client, action="subscribe", event="payment", addresses=texts([11_000, 1_000]), id=5)
        assert (refused["event"], refused["code"], refused["status"], refused["id"]) == (
            "error",
            "FOLLOW_LIMIT",
            429,
            5,
        )
        # Those that are followed already are no further ones.
        answer = await ask(client, action="subscribe", event="payment", addresses=texts([1_000] * 200))
        assert (answer["fromHeight"], answer["followed"]) == (2, 10_000)
        server.commit([transfer(7, 9, to=11_000), last_one := transfer(7, 10, to=10_999)])
        assert await receive(client) == payment(last_one, 2, 1)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"addresses": ["0xAb" + "12" * 19]}, "INVALID_FIELD"),
        ({"addresses": texts([1]) + [hex_of(address(2))[:-1]]}, "INVALID_FIELD"),
        ({"addresses": {"a": 1}}, "INVALID_FIELD"),
        ({"addresses": texts([1]), "fromHeight": 2**64}, "INVALID_FIELD"),
        ({"addresses": texts([1]), "fromHeight": 3}, "BLOCK_NOT_KEPT"),
        ({"addresses": texts([1, 2, 3, 4])}, "FOLLOW_LIMIT"),
    ],
)
async def test_a_refused_request_follows_nothing(fields: dict[str, Any], code: str) -> None:
    async with event_server(settings=Settings(ws_max_addresses=3)) as server, connect_to(server) as client:
        for _ in range(5):
            server.chain.append()
        server.chain.base = 4
        error = await ask(client, action="subscribe", event="payment", id=1, **fields)
        jsonschema.validate(error, DESCRIBED["error"]["payload"])
        assert (error["event"], error["code"], error["id"]) == ("error", code, 1)
        server.commit([transfer(1, 0, to=2)])
        answer = await ask(client, action="subscribe", event="payment", addresses=texts([3]))
        assert (answer["event"], answer["followed"]) == ("subscribed", 1)


@pytest.mark.virtual_time
async def test_a_client_that_does_not_read_its_payments_is_closed_and_resumes() -> None:
    """Closed with 1013, it misses nothing: the rest comes from the place of the last one that it has."""
    paid = [[transfer(7, 100 * block + index, to=1) for index in range(100)] for block in range(30)]
    async with virtual_event_server(settings=Settings(ws_buffer_bytes=8_192)) as server:
        for block in paid:
            server.chain.append(block)
        query = f"?payment={texts([1])[0]}"
        async with connect_idle(server, f"{query}&fromHeight=0") as slow:
            assert (await receive(slow))["event"] == "subscribed"
            await asyncio.sleep(15)
            messages, code = await read_to_the_end(slow)
            assert code == 1013
        seen = [(message["blockHeight"], message["transactionIndex"]) for message in messages]
        assert 0 < len(seen) < 3_000
        async with connect_to(server, f"{query}&fromHeight={seen[-1][0]}") as resumed:
            assert (await receive(resumed))["event"] == "subscribed"
            rest = await receive_many(resumed, 100 * (31 - seen[-1][0]))
        places = [(message["blockHeight"], message["transactionIndex"]) for message in rest]
        seen += [place for place in places if place > seen[-1]]
        assert seen == [(height, index) for height in range(1, 31) for index in range(100)]


async def test_a_message_that_is_too_large_closes_the_socket(server: EventServer) -> None:
    async with connect_to(server) as client:
        await client.send(json.dumps({"action": "subscribe", "event": "payment", "addresses": texts(range(400))}))
        assert await read_to_the_end(client) == ([], 1009)


async def test_a_url_with_an_address_that_is_malformed_is_refused(server: EventServer) -> None:
    wrong_checksum = "0xAb" + "12" * 19
    for query in ("?payment=0x12", f"?payment={wrong_checksum}", "?fromHeight=1", "?payment"):
        with pytest.raises(Exception, match="HTTP 400"):
            await connect_to(server, query)


class StoreReads(ChainReads):
    """The reads of a worker, over a store that the test has open."""

    def __init__(self, store: FollowerStore) -> None:
        super().__init__()
        self._store = store
        self.height = store.visible

    def why_unavailable(self) -> Unavailable:
        raise AssertionError("it is open")


@pytest.fixture
def reads(tmp_path: Path) -> Iterator[StoreReads]:
    """A chain with busy and quiet blocks, and a proposer who is paid in every one."""
    rng = random.Random(1)
    chain = ChainStore.open(tmp_path / "data", store_genesis())
    nonces = dict.fromkeys(SENDERS, 0)
    for height in range(120):
        txs = []
        for _ in range(rng.choice([0, 0, 0, 1, 3, 70])):
            sender = rng.choice(SENDERS)
            txs.append(transfer(sender, nonces[sender], to=rng.choice([*SENDERS, *range(100, 400)]), value=height))
            nonces[sender] += 1
        extend(chain, txs, address(1))
    store = FollowerStore.open(tmp_path / "data", tmp_path / "scratch")
    yield StoreReads(store)
    store.close()
    chain.close()


def found(reads: StoreReads, followed: set[Address], place: Location, until: int) -> list[Location]:
    steps = PaymentSearch(reads, followed, place).steps(until)
    return [(step.height, step.position) for step in steps if isinstance(step, FoundPayment)]


def expected(reads: StoreReads, followed: set[Address], place: Location, until: int) -> list[Location]:
    txs = [
        ((height, position), decode_record(record))
        for height in range(place[0], until + 1)
        for position, record in enumerate(reads.tx_records(height))
    ]
    return [location for location, tx in txs if location >= place and {tx.sender, tx.to} & followed]


def test_a_search_of_a_real_store_finds_what_its_blocks_hold(reads: StoreReads) -> None:
    rng = random.Random(2)
    for count in (1, 1, 2, 3, 8, 30, 200, 300):
        followed = {address(number) for number in rng.sample([*SENDERS, *range(100, 400)], count)} | {address(1)}
        place = (rng.randrange(60), rng.randrange(5))
        until = rng.randrange(place[0], 121)
        assert found(reads, followed, place, until) == expected(reads, followed, place, until)
