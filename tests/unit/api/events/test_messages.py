"""The messages of /events: what a client may send, and the fields of what the node sends."""

import json
from typing import Any

import pytest
from msgspec import UNSET
from websockets.frames import Frame, Opcode

from cairn.api.bodies import as_integers, as_strings
from cairn.api.events.messages import (
    BlocksSubscribed,
    Command,
    ErrorMessage,
    FollowAddresses,
    FollowTransaction,
    ServerMessage,
    SubscribeBlocks,
    TxUnsubscribed,
    UnfollowAddresses,
    UnfollowTransaction,
    UnsubscribeBlocks,
    decode_message,
    encode_frame,
    id_of,
    parse_addresses,
    parse_amounts,
    parse_command,
    parse_subscriptions,
    text_frame,
)
from cairn.domain.answers import Confirmed, Dropped, NewBlock
from cairn.domain.errors import InvalidField, InvalidHash, InvalidQuery, MalformedJson
from cairn.domain.json_fields import CHECKSUMMED
from cairn.domain.types import MAX_UINT64

HASH = "0x" + "aB" * 32


def payload(message: ServerMessage) -> bytes:
    """What the frame carries: an unmasked, final, uncompressed text frame with a short or a 16-bit length."""
    frame = encode_frame(message)
    assert frame[0] == 0x81
    if frame[1] < 126:
        assert len(frame) == 2 + frame[1]
        return frame[2:]
    assert frame[1] == 126
    assert len(frame) == 4 + int.from_bytes(frame[2:4], "big")
    return frame[4:]


def test_events_have_exactly_their_fields() -> None:
    assert payload(NewBlock(7, HASH)) == b'{"event":"newBlock","blockHeight":7,"hash":"%b"}' % HASH.encode()
    assert json.loads(payload(Confirmed(HASH, 7))) == {"event": "txConfirmed", "txHash": HASH, "blockHeight": 7}
    assert json.loads(payload(Dropped(HASH, "nonce used"))) == {
        "event": "txDropped",
        "txHash": HASH,
        "reason": "nonce used",
    }


def test_answers_leave_out_what_does_not_apply() -> None:
    assert json.loads(payload(BlocksSubscribed(from_height=0))) == {
        "event": "subscribed",
        "subscription": "newBlock",
        "fromHeight": 0,
    }
    assert json.loads(payload(TxUnsubscribed(tx_hash=HASH, id=2**70))) == {
        "event": "unsubscribed",
        "subscription": "txConfirmed",
        "txHash": HASH,
        "id": 2**70,
    }


def test_an_error_has_the_fields_of_a_problem() -> None:
    error = ErrorMessage(type="urn:x", title="t", status=400, detail="d" * 200, code="C", id="é")
    assert json.loads(payload(error)) == {
        "event": "error",
        "type": "urn:x",
        "title": "t",
        "status": 400,
        "detail": "d" * 200,
        "code": "C",
        "id": "é",
    }


def ask(**fields: Any) -> Command:
    return parse_command(decode_message(json.dumps(fields)))


def test_each_of_the_four_requests_is_read() -> None:
    assert ask(action="subscribe", event="newBlock") == SubscribeBlocks()
    assert ask(action="subscribe", event="newBlock", fromHeight=3) == SubscribeBlocks(from_height=3)
    assert ask(action="unsubscribe", event="newBlock") == UnsubscribeBlocks()
    assert ask(action="subscribe", event="txConfirmed", txHash=HASH) == FollowTransaction(tx_hash=HASH)
    assert ask(action="unsubscribe", event="txConfirmed", txHash=HASH, id=2**70) == UnfollowTransaction(
        tx_hash=HASH, id=2**70
    )


def test_addresses_to_follow_are_read() -> None:
    mixed = [CHECKSUMMED, CHECKSUMMED.lower(), "0x" + CHECKSUMMED[2:].upper()]
    assert ask(action="subscribe", event="payment", addresses=mixed) == FollowAddresses(addresses=mixed)
    assert ask(action="subscribe", event="payment", addresses=mixed, fromHeight=3.0, id=1) == FollowAddresses(
        addresses=mixed, from_height=3, id=1
    )
    assert ask(action="unsubscribe", event="payment", addresses=mixed) == UnfollowAddresses(addresses=mixed)
    assert ask(action="unsubscribe", event="payment") == UnfollowAddresses()
    assert len(set(parse_addresses(mixed))) == 1


@pytest.mark.parametrize("action", ["subscribe", "unsubscribe"])
@pytest.mark.parametrize(
    "addresses",
    [
        [], {}, None, CHECKSUMMED, [None], [1], [[CHECKSUMMED]], ["0x12"], [CHECKSUMMED[2:]], [CHECKSUMMED + "0"],
        [CHECKSUMMED, CHECKSUMMED.swapcase().replace("X", "x")], ["0x" + " " * 40], ["0x" + "\u0661" * 40],
    ],
)  # fmt: skip
def test_addresses_that_are_none_or_malformed_are_refused(action: str, addresses: object) -> None:
    with pytest.raises(InvalidField) as refused:
        ask(action=action, event="payment", addresses=addresses)
    assert refused.value.field == "addresses"


@pytest.mark.parametrize("height", [0, MAX_UINT64, 10.0])
def test_an_integer_up_to_the_largest_height_is_accepted(height: float) -> None:
    assert ask(action="subscribe", event="newBlock", fromHeight=height) == SubscribeBlocks(from_height=int(height))


@pytest.mark.parametrize("height", [-1, MAX_UINT64 + 1, 1.5, 1e300, "3", True, None, [3]])
def test_a_height_that_is_no_integer_in_range_is_refused(height: object) -> None:
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
        ({"action": "subscribe", "event": "newBlock", "addresses": [CHECKSUMMED]}, "addresses"),
        ({"action": "subscribe", "event": "payment"}, "addresses"),
        ({"action": "subscribe", "event": "payment", "address": CHECKSUMMED}, "address"),
        ({"action": "subscribe", "event": "payment", "addresses": [CHECKSUMMED], "txHash": HASH}, "txHash"),
        ({"action": "unsubscribe", "event": "payment", "fromHeight": 1}, "fromHeight"),
    ],
)
def test_a_missing_unknown_or_malformed_field_is_named(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidField) as refused:
        parse_command(fields)
    assert refused.value.field == named


@pytest.mark.parametrize("tx_hash", ["", "0x", HASH[2:], HASH + "0", HASH[:-1] + "g", HASH[:-2] + "  ", 5, None])
def test_a_malformed_hash_is_refused(tx_hash: object) -> None:
    with pytest.raises(InvalidHash):
        ask(action="subscribe", event="txConfirmed", txHash=tx_hash)


@pytest.mark.parametrize("text", ["", "{", "nope", "NaN", '{"id":1e400}', "[" * 16_000, '{"id":' + "9" * 16_000 + "}"])
def test_a_message_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(MalformedJson):
        decode_message(text)


@pytest.mark.parametrize("text", ["[]", "1", "null", '"subscribe"'])
def test_a_message_that_is_no_object_is_refused(text: str) -> None:
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
def test_a_field_that_is_given_twice_is_refused(text: str, named: str) -> None:
    with pytest.raises(InvalidField, match="is given twice") as refused:
        decode_message(text)
    assert refused.value.field == named


def test_colons_and_names_inside_values_do_not_count_as_fields() -> None:
    assert decode_message('{"id":"a:b","x":{"id":1}}') == {"id": "a:b", "x": {"id": 1}}


def test_an_id_is_a_string_or_a_number() -> None:
    assert id_of({}) is UNSET
    for given in ("", "a", 0, -7, 1.5, 2**70):
        assert id_of({"id": given}) == given
    for wrong in (None, True, [1], {"a": 1}):
        with pytest.raises(InvalidField, match="id"):
            id_of({"id": wrong})


def test_subscriptions_are_read_from_the_url() -> None:
    assert parse_subscriptions(b"") == []
    assert parse_subscriptions(b"newBlock") == [SubscribeBlocks()]
    assert parse_subscriptions(b"newBlock=&fromHeight=7") == [SubscribeBlocks(from_height=7)]
    assert parse_subscriptions(b"newBlock=true") == [SubscribeBlocks()]
    assert parse_subscriptions(b"amounts=string&newBlock&fromHeight=7") == [SubscribeBlocks(from_height=7)]
    assert parse_subscriptions(b"newBlock&amounts=number") == [SubscribeBlocks()]
    followed = [CHECKSUMMED, CHECKSUMMED.lower()]
    assert parse_subscriptions(f"fromHeight=7&payment={followed[0]}&payment={followed[1]}".encode()) == [
        FollowAddresses(addresses=followed, from_height=7)
    ]
    every = f"payment={CHECKSUMMED}&txConfirmed={HASH}&newBlock&fromHeight=7".encode()
    assert parse_subscriptions(every) == [
        SubscribeBlocks(from_height=7),
        FollowAddresses(addresses=[CHECKSUMMED], from_height=7),
        FollowTransaction(tx_hash=HASH),
    ]
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
        b"payment",
        b"payment=0x12",
        b"payment=" + CHECKSUMMED.swapcase().replace("X", "x").encode(),
        b"newBlock&%ff",
        b"\xff",
    ],
)
def test_a_malformed_query_is_refused(query: bytes) -> None:
    with pytest.raises(InvalidQuery):
        parse_subscriptions(query)


def test_a_malformed_hash_in_the_url_is_refused() -> None:
    with pytest.raises(InvalidHash):
        parse_subscriptions(b"txConfirmed=0x12")


def test_amounts_are_written_as_the_url_says() -> None:
    assert parse_amounts(b"newBlock") is as_integers
    assert parse_amounts(b"amounts=number") is as_integers
    assert parse_amounts(b"newBlock&am%6funts=string") is as_strings


@pytest.mark.parametrize("size", [0, 1, 125, 126, 2**16 - 1, 2**16])
def test_a_frame_is_as_the_library_makes_it(size: int) -> None:
    payload = b"x" * size
    assert text_frame(payload) == Frame(Opcode.TEXT, payload).serialize(mask=False)
