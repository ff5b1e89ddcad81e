"""The header Idempotency-Key: what is a key, and what are the same request and the same key."""

import re

import pytest

from cairn.api.rest.idempotency import IDEMPOTENCY_KEY, find_key, keyed_item, keyed_request
from cairn.domain.errors import MalformedRequest

NAME = b"idempotency-key"


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ('"8e03978e-40d5-43dd-bc93-6894a57f9324"', "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ('"order 4711, part 2"', "order 4711, part 2"),
        (r'"a\"b\\c"', r'a"b\c'),
        ("a+/=:@.~_", "a+/=:@.~_"),
        ("x" * 255, "x" * 255),
        ('"' + r"\"" * 255 + '"', '"' * 255),
    ],
)
def test_a_key_is_a_string_in_quotes_or_bare(given: str, key: str) -> None:
    assert find_key([(b"host", b"a"), (NAME, given.encode())]) == key
    assert re.search(IDEMPOTENCY_KEY.type.__metadata__[0].pattern, given)


@pytest.mark.parametrize(
    "given",
    [
        *("", '""', '"', '"a', 'a"', "a b", "a,b", '"a", "b"', '"a";p=1', r'"a\b"', '"a\\"', "x" * 256),
        *('"' + "x" * 256 + '"', "\xe4", '"\xe4"', "a\tb", '"a\x7f"', "[a]", "a;b", "(a)"),
    ],
)
def test_anything_else_is_400(given: str) -> None:
    with pytest.raises(MalformedRequest, match="1 to 255"):
        find_key([(NAME, given.encode("latin-1"))])
    assert not re.search(IDEMPOTENCY_KEY.type.__metadata__[0].pattern, given)


def test_two_headers_are_400_and_none_is_no_key() -> None:
    with pytest.raises(MalformedRequest, match="more than once"):
        find_key([(NAME, b"a"), (NAME, b"a")])
    assert find_key([(b"host", b"a")]) is None


def test_the_digests_tell_keys_and_requests_apart() -> None:
    first = keyed_request("a", "transfer", 1)
    assert keyed_request("a", "transfer", 1) == first
    assert keyed_request("a", "faucet", 1).key == first.key
    assert keyed_request("a", "faucet", 1).request != first.request
    items = [keyed_item("a", 0, "list", 1), keyed_item("a", 1, "list", 1)]
    assert {each.key for each in items} == {first.key}, "the key is taken by the whole list"
    assert items[0].request == items[1].request != first.request
    keys = [first.key, keyed_request("a0", 1).key, *(each.item for each in items if each.item is not None)]
    assert len(set(keys)) == 4
    assert {len(digest) for digest in (*keys, first.request)} == {32}
