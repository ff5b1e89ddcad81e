"""How the fields of a submission may be written: one case for every rule, and both readings agree on each."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from cairn.api.chain_view import ChainView
from cairn.api.rest.submission_fields import read_fields, split_batch
from cairn.api.rest.submissions import Submitter, parse_submission
from cairn.domain.errors import InvalidField, MalformedJson, NodeError, StoreUnavailable
from cairn.domain.json_fields import MAX_BATCH
from cairn.domain.types import MAX_UINT64, MAX_UINT256, Address, Draft
from tests.support.core_fixtures import CHAIN_ID, signed
from tests.support.rest_node import body_of
from tests.support.scripted_gateway import INFO, ScriptedGateway

SENDER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
RECIPIENT = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
GAS_PRICE = 10**9
PLAIN: dict[str, Any] = {
    "from": SENDER,
    "to": RECIPIENT,
    "value": 10,
    "nonce": 3,
    "gas": 21_000,
    "gasPrice": 2 * GAS_PRICE,
    "signature": "0x" + "1b" * 65,
}
SIGNATURE = b"\x1b" * 65
DRAFT = Draft(
    sender=Address(bytes.fromhex(SENDER[2:])),
    to=Address(bytes.fromhex(RECIPIENT[2:])),
    value=10,
    gas=21_000,
    gas_price=2 * GAS_PRICE,
    nonce=3,
)
READ = (DRAFT, SIGNATURE)


def body_with(field: str, written: str) -> bytes:
    """The plain body with one field spelled exactly so."""
    return json.dumps(PLAIN | {field: "SPELLED"}).replace('"SPELLED"', written).encode()


def parse(body: bytes) -> tuple[Draft, bytes | None]:
    return parse_submission(body, GAS_PRICE)


def refused_field(body: bytes) -> str:
    with pytest.raises(InvalidField) as refused:
        parse(body)
    assert refused.value.detail.startswith(refused.value.field + ": ")
    return refused.value.field


def test_a_body_with_every_field_is_read() -> None:
    assert parse(json.dumps(PLAIN).encode()) == READ


def test_nonce_signature_and_price_may_be_left_out() -> None:
    body = {name: PLAIN[name] for name in ("from", "to", "value", "gas")}
    draft, signature = parse(json.dumps(body).encode())
    assert (draft.nonce, signature, draft.gas_price) == (None, None, GAS_PRICE)


@pytest.mark.parametrize("field", ["from", "to", "value", "gas"])
def test_a_body_without_a_required_field_is_refused(field: str) -> None:
    body = {name: value for name, value in PLAIN.items() if name != field}
    assert refused_field(json.dumps(body).encode()) == field


@pytest.mark.parametrize("field", ["value", "gasPrice"])
@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("0", 0),
        ("-0", 0),
        ("10", 10),
        ("10.0", 10),
        ("1e3", 1_000),
        ("1E+3", 1_000),
        ("1.5e1", 15),
        ("1000e-2", 10),
        ("0e999999999999", 0),
        ("-0.0", 0),
        ("9007199254740992.0", 2**53),
        ("9007199254740993", 2**53 + 1),
        ("18446744073709551616", 2**64),
        (str(MAX_UINT256), MAX_UINT256),
        ('"10"', 10),
        ('"007"', 7),
        (f'"{MAX_UINT256}"', MAX_UINT256),
    ],
)
def test_amounts_are_read_exactly(field: str, written: str, amount: int) -> None:
    draft, _ = parse(body_with(field, written))
    assert {"value": draft.value, "gasPrice": draft.gas_price}[field] == amount


@pytest.mark.parametrize("field", ["value", "gasPrice"])
@pytest.mark.parametrize(
    "written",
    [
        "1.5", "0.5", "-1", "-1.0", "-1e3", "1e400", "1e-400", "1e999999999", "1e-999999999", "1e17", "NaN", "Infinity",
        "-Infinity", "true", "false", "null", "[]", "{}", "[10]", "9007199254740993.0", "9007199254740994.0",
        "4503599627370497.4", "0.99999999999999999999999", str(MAX_UINT256 + 1), "1" + "0" * 5_000, '""', '" 1"',
        '"1 "', '"+1"', '"-1"', '"1.0"', '"1e3"', '"0x10"', '"abc"', '"٣"', '"1_000"', f'"{MAX_UINT256 + 1}"',
        '"' + "0" * 79 + '"', '"' + "9" * 5_000 + '"',
    ],
)  # fmt: skip
def test_an_amount_that_is_no_whole_number_up_to_the_largest_is_refused(field: str, written: str) -> None:
    assert refused_field(body_with(field, written)) == field


@pytest.mark.parametrize("field", ["nonce", "gas"])
def test_integers_are_read_exactly(field: str) -> None:
    for written, number in [("0", 0), ("7.0", 7), ("1e2", 100), (str(MAX_UINT64), MAX_UINT64)]:
        assert getattr(parse(body_with(field, written))[0], field) == number


@pytest.mark.parametrize("field", ["nonce", "gas"])
@pytest.mark.parametrize(
    "written", ["-1", "1.5", '"1"', "true", "null", "[]", "{}", "1e400", "NaN", str(MAX_UINT64 + 1)]
)
def test_a_nonce_or_gas_limit_that_is_no_integer_up_to_the_largest_is_refused(field: str, written: str) -> None:
    assert refused_field(body_with(field, written)) == field


@pytest.mark.parametrize("field", ["from", "to"])
@pytest.mark.parametrize("spell", [str.lower, lambda text: "0x" + text[2:].upper(), lambda text: text])
def test_an_address_of_one_case_or_with_a_checksum_is_read(field: str, spell: Any) -> None:
    assert parse(body_with(field, json.dumps(spell(PLAIN[field])))) == READ


@pytest.mark.parametrize("field", ["from", "to"])
@pytest.mark.parametrize(
    "written",
    [
        '""', '"0x"', '"' + "11" * 20 + '"', '"0x' + "11" * 19 + '"', '"0x' + "11" * 21 + '"', '"0x' + "1g" * 20 + '"',
        '"0X' + "11" * 20 + '"', '" 0x' + "11" * 20 + '"', '"0x' + "11" * 19 + '1 "', '"0x' + "1" * 39 + '１"',
        '"0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266"', "5", "true", "null", "[]", "{}", "1" * 42,
    ],
)  # fmt: skip
def test_an_address_of_another_form_or_with_a_wrong_checksum_is_refused(field: str, written: str) -> None:
    assert refused_field(body_with(field, written)) == field


def test_a_wrong_checksum_is_answered_with_the_right_one() -> None:
    with pytest.raises(InvalidField, match=SENDER):
        parse(body_with("from", '"0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266"'))


@pytest.mark.parametrize(
    "written",
    [
        '""', '"0x"', '"0x' + "11" * 64 + '"', '"0x' + "11" * 66 + '"', '"' + "11" * 65 + '"', '"0x' + "zz" * 65 + '"',
        '"0X' + "11" * 65 + '"', '"0x' + "11" * 64 + ' 1 "', "1", "true", "null", "[]", "{}",
    ],
)  # fmt: skip
def test_a_signature_of_another_form_is_refused(written: str) -> None:
    assert refused_field(body_with("signature", written)) == "signature"


def test_an_unknown_field_is_refused_by_name() -> None:
    assert refused_field(json.dumps(PLAIN | {"input": "0x"}).encode()) == "input"
    assert refused_field(json.dumps(PLAIN | {"Nonce": 1}).encode()) == "Nonce"


def test_a_strange_name_is_quoted_back_in_ascii_and_short() -> None:
    assert refused_field(json.dumps(PLAIN | {"\ud800é" + "x" * 1_000: 1}).encode()) == "\\ud800\\xe9" + "x" * 78


@pytest.mark.parametrize("field", list(PLAIN))
def test_a_field_given_twice_is_refused(field: str) -> None:
    doubled = json.dumps(PLAIN)[:-1] + f', "{field}": {json.dumps(PLAIN[field])}}}'
    assert refused_field(doubled.encode()) == field


def test_a_field_given_twice_under_an_escaped_name_is_refused() -> None:
    assert refused_field((json.dumps(PLAIN)[:-1] + r', "v\u0061lue": 10}').encode()) == "value"


def test_an_escaped_name_is_the_same_field() -> None:
    assert parse(json.dumps(PLAIN).replace('"value"', r'"v\u0061lue"').encode()) == READ


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b"{]", b"nonsense", b'{"from":', b"{'a':1}", b"\xff\xfe", b'{"from":"\xff"}', b"{} {}",
        b"\xef\xbb\xbf{}", b"[" * 100_000, b'{"from":' + b"[" * 100_000, b'{"value":01}', b'{"to":"a\nb"}',
    ],
)  # fmt: skip
def test_a_body_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedJson):
        parse(body)


@pytest.mark.parametrize("body", [b"[]", b"1", b'"text"', b"null", b"true", b"[{}]"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    assert refused_field(body) == "body"


def outcome(read: Any, *arguments: object) -> object:
    try:
        return read(*arguments)
    except NodeError as refused:
        return type(refused), refused.detail


SPELLINGS = st.one_of(
    st.integers(-5, 2**260).map(str),
    st.floats().map(repr),
    st.sampled_from(["null", "true", "{}", "[]", "NaN", "1e3", "10.0", '"5"', '"x"']),
    st.text(max_size=5).map(json.dumps),
    st.sampled_from([SENDER, RECIPIENT, SENDER.lower(), SENDER.swapcase(), "0x" + "11" * 65]).map(json.dumps),
    st.sampled_from(["0x", "0x00ff", "0X00", "0x0", "a:b", "\u202e", "\ud800", 'to":"']).map(json.dumps),
)


NAMES = [*PLAIN, "type", "maxFeePerGas", "maxPriorityFeePerGas", "data", "reference", "unknown"]


@given(st.lists(st.tuples(st.sampled_from(NAMES), SPELLINGS), max_size=3), st.sets(st.sampled_from([*PLAIN])))
@example([("to", '"x"'), ("maxFeePerGas", "5")], {"to"})
@example([("signature", '"x"'), ("maxFeePerGas", "5")], {"signature"})
def test_both_readings_agree(extra: list[tuple[str, str]], left_out: set[str]) -> None:
    members = [f'"{name}":{json.dumps(value)}' for name, value in PLAIN.items() if name not in left_out]
    members += [f'"{name}":{written}' for name, written in extra]
    body = ("{" + ",".join(members) + "}").encode()
    assert outcome(parse_submission, body, GAS_PRICE) == outcome(read_fields, body, GAS_PRICE)


@pytest.mark.parametrize(
    ("field", "written", "data"),
    [
        ("data", '"0x"', b""),
        ("data", '"0x00fF"', b"\x00\xff"),
        ("data", '"0x' + "ab" * 256 + '"', b"\xab" * 256),
        ("reference", '"invoice 4711"', b"invoice 4711"),
        ("reference", '"order: 7"', b"order: 7"),
        ("reference", '"\\"}, \\\\ <b>\\u00fc"', b'"}, \\ <b>\xc3\xbc'),
        ("reference", '"\\ud83d\\ude00"', "😀".encode()),
    ],
)
def test_data_is_read_from_bytes_or_from_text(field: str, written: str, data: bytes) -> None:
    assert parse(body_with(field, written)) == (replace(DRAFT, data=data), SIGNATURE)


@pytest.mark.parametrize(
    ("field", "written"),
    [
        *(("data", written) for written in ('""', '"00"', '"0x0"', '"0X00"', '"0xzz"', '"0x 0"', "0", "null", "[]")),
        *(("reference", written) for written in ('""', "7", "null", "true", '"a\\nb"', '"\\u202e"', '"\\ud800"')),
    ],
)
def test_data_that_is_no_hex_and_text_that_is_not_printable_are_refused(field: str, written: str) -> None:
    assert refused_field(body_with(field, written)) == field


def test_data_and_reference_together_are_refused() -> None:
    assert refused_field(json.dumps(PLAIN | {"data": "0x41", "reference": "A"}).encode()) == "reference"


def test_a_batch_is_split_into_items_that_are_not_parsed() -> None:
    items = [json.dumps(PLAIN).encode(), b"7", b'{"a": [1, {"b": null}]}']
    assert list(split_batch(b"[" + b" , ".join(items) + b"]")) == items
    assert list(split_batch(b"[]")) == []


@pytest.mark.parametrize(
    "item",
    [
        body_with("value", "NaN"),
        b"-Infinity",
        body_with("to", '"\\ud800"'),
        body_with("to", '"\x01"'),
        body_with("to", '"\xff"').decode().encode("latin-1"),
        body_with("value", "1" * 10_000),
    ],
)
def test_an_item_that_cannot_be_read_does_not_affect_the_others(item: bytes) -> None:
    items = [json.dumps(PLAIN).encode(), item, '"é, ]"'.encode(), item]
    assert list(split_batch(b"\n[ " + b" ,\r\n".join(items) + b"\t] ")) == items
    with pytest.raises((InvalidField, MalformedJson)):
        parse(item)


@pytest.mark.parametrize(
    "body", [b"{}", b"null", b"7", b'"[]"', b"[" + b",".join([b"1"] * (MAX_BATCH + 1)) + b"]", b"[" + b"NaN," * 1_000]
)
def test_a_batch_that_is_no_array_or_too_long_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidField) as refused:
        list(split_batch(body))
    assert refused.value.field == "body"


@pytest.mark.parametrize(
    "body", [b"", b"[", b"[1,]", b"[NaN,]", b"[NaN", b"[NaN] 1", b"[NaN 1]", b"NaN", b"\xff", b"[" * 100_000]
)
def test_a_batch_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedJson):
        list(split_batch(body))


TYPED = {name: value for name, value in PLAIN.items() if name != "gasPrice"}


@pytest.mark.parametrize("spelled", ["plainly", "slowly"])
@pytest.mark.parametrize(
    ("terms", "kind", "price", "max_fee", "max_tip"),
    [
        ({"type": 0}, 0, GAS_PRICE, 0, 0),
        ({"type": 1}, 1, GAS_PRICE, 0, 0),
        ({"type": 1, "gasPrice": 7}, 1, 7, 0, 0),
        ({"type": 2}, 2, GAS_PRICE, GAS_PRICE, 0),
        ({"maxFeePerGas": 9 * GAS_PRICE}, 2, GAS_PRICE, 9 * GAS_PRICE, 0),
        ({"maxPriorityFeePerGas": 5}, 2, GAS_PRICE + 5, GAS_PRICE + 5, 5),
        ({"maxFeePerGas": GAS_PRICE + 3, "maxPriorityFeePerGas": 5}, 2, GAS_PRICE + 3, GAS_PRICE + 3, 5),
        ({"maxFeePerGas": MAX_UINT256, "type": 2}, 2, GAS_PRICE, MAX_UINT256, 0),
    ],
)
def test_the_prices_of_a_typed_submission_are_filled_in(
    spelled: str, terms: dict[str, int], kind: int, price: int, max_fee: int, max_tip: int
) -> None:
    body = json.dumps(TYPED | terms)
    if spelled == "slowly":
        body = body.replace('"value": 10', '"value": 10.0')
    draft, signature = parse(body.encode())
    assert draft == replace(DRAFT, kind=kind, gas_price=price, max_fee=max_fee, max_tip=max_tip)
    assert signature == SIGNATURE


@pytest.mark.parametrize("value", ["10", "10.0"])
@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ('"type":2,"gasPrice":7', "gasPrice"),
        ('"maxFeePerGas":7,"gasPrice":7', "gasPrice"),
        ('"type":0,"maxFeePerGas":7', "maxFeePerGas"),
        ('"type":1,"maxPriorityFeePerGas":7', "maxPriorityFeePerGas"),
        ('"type":3', "type"),
        ('"type":-1', "type"),
        ('"type":"2"', "type"),
        ('"type":true', "type"),
        ('"type":2,"type":2', "type"),
        ('"maxFeePerGas":1.5', "maxFeePerGas"),
        ('"maxFeePerGas":1,"maxFeePerGas":1', "maxFeePerGas"),
    ],
)
def test_price_fields_that_do_not_fit_the_type_are_refused(value: str, terms: str, field: str) -> None:
    body = json.dumps(TYPED).replace('"value": 10', f'"value": {value}')
    assert refused_field((body[:-1] + f", {terms}}}").encode()) == field


LONG_ITEMS = (b'{"a":"' + b"x" * 20_000 + b'"}', b"[" + b"1," * 9_000 + b"1]")


@pytest.mark.parametrize("item", [b"1", b"[[[]]]", b"{},[1,2]", *LONG_ITEMS])
@pytest.mark.parametrize("end", [b"]", b",NaN]", b",", b""])
def test_a_batch_of_anything_is_refused_before_it_takes_long(item: bytes, end: bytes) -> None:
    body = b"[" + b",".join([item] * (2**21 // len(item))) + end

    def refused_in_s() -> float:
        began = time.thread_time()
        with pytest.raises((MalformedJson, InvalidField)):
            list(split_batch(body))
        return time.thread_time() - began

    # On an idle machine some 30 ms, in a hundred steps; reading all of it took 100 to 400 ms. What the host takes away
    # counts as the thread's, but it does not do so each time.
    assert any(refused_in_s() < 0.5 for _ in range(3))


@pytest.mark.parametrize("part", [b"1,", b"[", b'{"a":', b'"a":1,'])
def test_a_body_with_more_parts_than_a_transaction_is_refused_by_counting_them(part: bytes) -> None:
    for start in (b"[", b'{"from":[', b'{"value":{'):
        with pytest.raises(MalformedJson, match="more parts than a transaction"):
            parse_submission(start + part * (2**17 // len(part)), 1)


async def test_a_submission_without_a_nonce_is_refused_as_unavailable_when_the_core_ends_meanwhile() -> None:
    view = ChainView(Path("unused"), chain_id=CHAIN_ID)
    view.info = INFO
    view.on_phase("ready", "")

    class EndingGateway(ScriptedGateway):
        async def next_nonce(self, sender: Address) -> int:
            view.on_phase("unavailable", "the disk is full")
            return 0

    body = {name: value for name, value in body_of(signed(3)).items() if name != "nonce"}
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        await Submitter(EndingGateway(), view).begin(json.dumps(body).encode())
