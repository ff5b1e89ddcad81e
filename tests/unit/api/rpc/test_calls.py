"""A call that is read in one typed pass is the one that is read field by field."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from cairn.api.rpc.calls import Call, find_call, parse_json, parse_request
from cairn.api.rpc.values import RpcError
from tests.support.rpc_messages import METHODS, messages_of


def read(message: bytes) -> Call | None:
    try:
        return parse_request(parse_json(message))
    except RpcError:
        return None


@given(content=messages_of(METHODS))
def test_a_call_is_read_alike_in_both_ways(content: Any) -> None:
    message = json.dumps(content).encode()
    found = find_call(message)
    assert found is None or found == read(message)


@given(request_id=st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.none())
def test_an_id_of_any_kind_is_read_alike(request_id: object) -> None:
    message = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "eth_chainId"}).encode()
    found, expected = find_call(message), read(message)
    assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    "message",
    [
        b"[]",
        b"1",
        b'{"jsonrpc":"2.0","method":"a","params":{}}',
        b'{"jsonrpc":"2.0","method":"a","params":null}',
        b'{"jsonrpc":"2.0","method":"","id":1}',
        b'{"jsonrpc":"1.0","method":"a","id":1}',
        b'{"jsonrpc":"2.0","method":"a","id":true}',
        b'{"jsonrpc":"2.0","method":"a","id":[1]}',
        b'{"jsonrpc":"2.0","method":"a","id":1,"x":"\xff"}',
        b'{"jsonrpc":"2.0","method":"a","id":1',
        b"[" * 5_000,
    ],
)
def test_what_is_unusual_is_left_to_the_closer_look(message: bytes) -> None:
    assert find_call(message) is None


def test_a_call_without_an_id_is_a_notification() -> None:
    assert find_call(b'{"jsonrpc":"2.0","method":"a"}') == Call("2.0", "a", [], UNSET)


def test_calls_that_submit_have_a_queue_of_their_own() -> None:
    assert Call("2.0", "eth_sendRawTransaction").queue == "submissions"
    assert Call("2.0", "eth_getBalance").queue == "reads"
