"""What a client may ask for, by message and on the URL, and how everything else is refused."""

import json
from typing import Any

import pytest
from msgspec import UNSET

from cairn.api.events.commands import (
    Command,
    FollowTransaction,
    SubscribeBlocks,
    UnfollowTransaction,
    UnsubscribeBlocks,
    id_of,
    parse_command,
    parse_subscriptions,
)
from cairn.api.parameters import decode_message
from cairn.domain.errors import InvalidField, InvalidHash, InvalidQuery, MalformedJson
from cairn.domain.types import MAX_UINT64

HASH = "0x" + "aB" * 32


def ask(**fields: Any) -> Command:
    return parse_command(decode_message(json.dumps(fields)))


def test_the_four_requests() -> None:
    assert ask(action="subscribe", event="newBlock") == SubscribeBlocks()
    assert ask(action="subscribe", event="newBlock", fromHeight=3) == SubscribeBlocks(from_height=3)
    assert ask(action="unsubscribe", event="newBlock") == UnsubscribeBlocks()
    assert ask(action="subscribe", event="txConfirmed", txHash=HASH) == FollowTransaction(tx_hash=HASH)
    assert ask(action="unsubscribe", event="txConfirmed", txHash=HASH, id=2**70) == UnfollowTransaction(
        tx_hash=HASH, id=2**70
    )


@pytest.mark.parametrize("height", [0, MAX_UINT64, 10.0])
def test_heights_that_are_taken(height: float) -> None:
    assert ask(action="subscribe", event="newBlock", fromHeight=height) == SubscribeBlocks(from_height=int(height))


@pytest.mark.parametrize("height", [-1, MAX_UINT64 + 1, 1.5, 1e300, "3", True, None, [3]])
def test_heights_that_are_not(height: object) -> None:
    with pytest.raises(InvalidField, match="fromHeight"):
        ask(action="subscribe", event="newBlock", fromHeight=height)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "action"),
        ({"event": "newBlock"}, "action"),
        ({"action": "shout", "event": "newBlock"}, "action"),
        ({"action": ["subscribe"], "event": "newBlock"}, "action"),
        ({"action": "subscribe"}, "event"),
        ({"action": "subscribe", "event": "oldBlock"}, "event"),
        ({"action": "subscribe", "event": "txConfirmed"}, "txHash"),
        ({"action": "subscribe", "event": "newBlock", "txHash": HASH}, "txHash"),
        ({"action": "subscribe", "event": "txConfirmed", "txHash": HASH, "fromHeight": 1}, "fromHeight"),
        ({"action": "unsubscribe", "event": "newBlock", "fromHeight": 1}, "fromHeight"),
        ({"action": "subscribe", "event": "newBlock", "fromheight": 1}, "fromheight"),
    ],
)
def test_the_field_at_fault_is_named(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidField) as refused:
        parse_command(fields)
    assert refused.value.field == named


@pytest.mark.parametrize("tx_hash", ["", "0x", HASH[2:], HASH + "0", HASH[:-1] + "g", HASH[:-2] + "  ", 5, None])
def test_hashes_out_of_shape(tx_hash: object) -> None:
    with pytest.raises(InvalidHash):
        ask(action="subscribe", event="txConfirmed", txHash=tx_hash)


@pytest.mark.parametrize("text", ["", "{", "nope", "NaN", '{"id":1e400}', "[" * 16_000, '{"id":' + "9" * 16_000 + "}"])
def test_what_is_not_json(text: str) -> None:
    with pytest.raises(MalformedJson):
        decode_message(text)


@pytest.mark.parametrize("text", ["[]", "1", "null", '"subscribe"'])
def test_json_that_is_no_object(text: str) -> None:
    with pytest.raises(InvalidField):
        decode_message(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"action":"subscribe","event":"newBlock","event":"newBlock"}', "event"),
        ('{"id":1,"\\u0069d":2,"action":"subscribe","event":"newBlock"}', "id"),
        ('{"x":":","y":{"x":1},"y":2}', "y"),
    ],
)
def test_a_field_that_is_given_twice(text: str, named: str) -> None:
    with pytest.raises(InvalidField, match="is given twice") as refused:
        decode_message(text)
    assert refused.value.field == named


def test_colons_and_inner_names_are_no_second_field() -> None:
    assert decode_message('{"id":"a:b","x":{"id":1}}') == {"id": "a:b", "x": {"id": 1}}


def test_ids() -> None:
    assert id_of({}) is UNSET
    for given in ("", "a", 0, -7, 1.5, 2**70):
        assert id_of({"id": given}) == given
    for wrong in (None, True, [1], {"a": 1}):
        with pytest.raises(InvalidField, match="id"):
            id_of({"id": wrong})


def test_subscriptions_on_the_url() -> None:
    assert parse_subscriptions(b"") == []
    assert parse_subscriptions(b"newBlock") == [SubscribeBlocks()]
    assert parse_subscriptions(b"newBlock=&fromHeight=7") == [SubscribeBlocks(from_height=7)]
    assert parse_subscriptions(b"newBlock=true") == [SubscribeBlocks()]
    assert parse_subscriptions(b"amounts=string&newBlock&fromHeight=7") == [SubscribeBlocks(from_height=7)]
    assert parse_subscriptions(b"newBlock&amounts=number") == [SubscribeBlocks()]
    both = f"txConfirmed={HASH}&newBlock&fromHeight=0&txConfirmed=0x{'00' * 32}".encode()
    assert parse_subscriptions(both) == [
        SubscribeBlocks(from_height=0),
        FollowTransaction(tx_hash=HASH),
        FollowTransaction(tx_hash="0x" + "00" * 32),
    ]


@pytest.mark.parametrize(
    "query",
    [
        b"newblock",
        b"newBlock=false",
        b"fromHeight=1",
        b"fromHeight=1&txConfirmed=" + HASH.encode(),
        b"newBlock&fromHeight=",
        b"newBlock&fromHeight=-1",
        b"newBlock&fromHeight=1.0",
        b"newBlock&fromHeight=18446744073709551616",
        b"newBlock&fromHeight=1&fromHeight=1",
        b"newBlock&amounts=hex",
        b"newBlock&%ff",
        b"\xff",
    ],
)
def test_urls_out_of_shape(query: bytes) -> None:
    with pytest.raises(InvalidQuery):
        parse_subscriptions(query)


def test_a_hash_on_the_url_out_of_shape() -> None:
    with pytest.raises(InvalidHash):
        parse_subscriptions(b"txConfirmed=0x12")
