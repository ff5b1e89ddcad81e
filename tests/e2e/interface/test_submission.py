"""POST /tx and POST /txs: what is taken, what is refused, and with which code."""

import json
from typing import Any

import httpx
import pytest
from eth_account.signers.local import LocalAccount

from tests.support.public import PublicNode, assert_problem
from tests.support.wallet import COIN, GWEI, TRANSFER_FEE, dev_account, new_account, sign_transfer

SECP256K1_N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
RECIPIENT = "0x" + "11" * 20


@pytest.fixture(scope="module")
def sender(node: PublicNode) -> LocalAccount:
    """One funded account for all that is refused anyway."""
    return node.fund()


def complete(sender: LocalAccount) -> dict[str, Any]:
    return sign_transfer(sender, RECIPIENT, 5, 0).body


def post_raw(node: PublicNode, body: bytes, content_type: str = "application/json") -> httpx.Response:
    return node.http.post("/tx", content=body, headers={"content-type": content_type})


def test_accepted_transfer_is_pending_then_confirmed(node: PublicNode) -> None:
    sender, recipient = node.fund(), new_account().address
    transfer = sign_transfer(sender, recipient, 3 * COIN, 0)
    answer = node.post(transfer.body)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-chain-id"] == "1337"
    assert answer.json() == {"status": "pending", "txHash": transfer.tx_hash}
    confirmed = node.await_confirmed(transfer.tx_hash)
    assert confirmed["fee"] == TRANSFER_FEE
    assert node.balance(recipient) == 3 * COIN
    assert node.balance(sender.address) == 7 * COIN - TRANSFER_FEE


def test_a_transfer_sent_again_is_answered_and_not_made_twice(node: PublicNode) -> None:
    sender, recipient = node.fund(), new_account().address
    transfer = sign_transfer(sender, recipient, COIN, 0)
    node.submit(transfer)
    assert node.post(transfer.body).json()["txHash"] == transfer.tx_hash
    node.await_confirmed(transfer.tx_hash)
    again = node.post(transfer.body)
    assert again.status_code == 200
    assert again.json() == {"status": "confirmed", "txHash": transfer.tx_hash}
    assert node.balance(recipient) == COIN


def test_gas_price_defaults_to_the_chains(node: PublicNode) -> None:
    transfer = sign_transfer(node.fund(), RECIPIENT, 1, 0)
    answer = node.post(transfer.without("gasPrice"))
    assert answer.json() == {"status": "pending", "txHash": transfer.tx_hash}


def test_gas_beyond_the_transfer_is_not_charged(node: PublicNode) -> None:
    sender = node.fund()
    confirmed = node.await_confirmed(node.submit(sign_transfer(sender, RECIPIENT, 1, 0, gas=100_000)))
    assert confirmed["fee"] == TRANSFER_FEE
    assert confirmed["gas"] == 100_000


@pytest.mark.parametrize("offset", [0, 27])
def test_v_of_0_or_1_and_of_27_or_28_is_accepted(node: PublicNode, offset: int) -> None:
    transfer = sign_transfer(node.fund(), RECIPIENT, 1, 0)
    signature = bytes.fromhex(transfer.body["signature"][2:])
    spelled = "0x" + (signature[:64] + bytes([signature[64] + offset])).hex()
    assert node.post(transfer.with_fields(signature=spelled)).json()["txHash"] == transfer.tx_hash


def test_nonce_left_out_means_the_next_one(node: PublicNode) -> None:
    sender = node.fund()
    first, second = (sign_transfer(sender, RECIPIENT, 1, nonce) for nonce in (0, 1))
    assert node.post(first.without("nonce")).json()["txHash"] == first.tx_hash
    assert node.post(second.without("nonce")).json()["txHash"] == second.tx_hash
    assert node.await_confirmed(second.tx_hash)["nonce"] == 1


def test_a_signature_over_another_nonce_than_the_next_is_refused(node: PublicNode, sender: LocalAccount) -> None:
    body = sign_transfer(sender, RECIPIENT, 1, 7).without("nonce")
    assert_problem(node.post(body), 422, "INVALID_SIGNATURE")


def test_dev_account_needs_no_signature_unless_the_node_is_one_of_a_network(node: PublicNode) -> None:
    recipient = new_account().address
    answer = node.post({"from": dev_account(5).address, "to": recipient, "value": 7, "gas": 21_000})
    if node.engine == "cometbft":
        assert assert_problem(answer, 400, "INVALID_FIELD")["field"] == "signature"
        return
    assert answer.status_code == 200, answer.text
    node.await_confirmed(answer.json()["txHash"])
    assert node.balance(recipient) == 7


def test_an_unsigned_transfer_of_another_account_is_refused(node: PublicNode, sender: LocalAccount) -> None:
    body = sign_transfer(sender, RECIPIENT, 1, 0).without("signature")
    assert assert_problem(node.post(body), 400, "INVALID_FIELD")["field"] == "signature"


@pytest.mark.parametrize(
    ("written", "value"),
    [("10", 10), ("10.0", 10), ("1e3", 1_000), ('"10"', 10), ("9007199254740993", 9_007_199_254_740_993), ("0", 0)],
)
def test_each_spelling_of_a_value_is_the_same_transfer(node: PublicNode, written: str, value: int) -> None:
    transfer = sign_transfer(node.fund(1), RECIPIENT, value, 0)
    body = json.dumps(transfer.with_fields(value="VALUE")).replace('"VALUE"', written)
    answer = post_raw(node, body.encode())
    assert answer.status_code == 200, answer.text
    assert answer.json()["txHash"] == transfer.tx_hash
    assert node.read(f"/tx/{transfer.tx_hash}")["value"] == value


def test_value_up_to_the_largest_is_read_exactly(node: PublicNode, sender: LocalAccount) -> None:
    assert_problem(node.post(sign_transfer(sender, RECIPIENT, 2**256 - 1, 0).body), 422, "INSUFFICIENT_FUNDS")


@pytest.mark.parametrize(
    "written",
    [
        "1.5", "-1", "-1.0", "1e400", "1e80", "NaN", "Infinity", "-Infinity", "true", "false", "null", "[]", "{}",
        '""', '"abc"', '"1.5"', '"-1"', '"+1"', '" 1"', '"0x10"', '"1e3"', '"\u0661"',
        "9007199254740994.0", "115792089237316195423570985008687907853269984665640564039457584007913129639936",
        '"115792089237316195423570985008687907853269984665640564039457584007913129639936"', "1" + "0" * 5_000,
    ],
)  # fmt: skip
def test_a_malformed_value_is_refused_by_name(node: PublicNode, sender: LocalAccount, written: str) -> None:
    body = json.dumps(complete(sender) | {"value": "VALUE"}).replace('"VALUE"', written)
    assert assert_problem(post_raw(node, body.encode()), 400, "INVALID_FIELD")["field"] == "value"


@pytest.mark.parametrize("field", ["gas", "nonce"])
@pytest.mark.parametrize("given", [-1, 1.5, "0x1", True, None, 2**64, [], {}])
def test_a_malformed_integer_field_is_refused_by_name(
    node: PublicNode, sender: LocalAccount, field: str, given: object
) -> None:
    body = complete(sender) | {field: given}
    assert assert_problem(node.post(body), 400, "INVALID_FIELD")["field"] == field


@pytest.mark.parametrize("field", ["from", "to"])
@pytest.mark.parametrize(
    "given",
    [
        "", "0x", "11" * 20, "0x" + "11" * 19, "0x" + "11" * 21, "0x" + "1g" * 20, 5, None, True, [],
        "0X" + "11" * 20, " 0x" + "11" * 20, "0x" + "1" * 39 + "\uff11", "0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    ],
)  # fmt: skip
def test_a_malformed_address_field_is_refused_by_name(
    node: PublicNode, sender: LocalAccount, field: str, given: object
) -> None:
    body = complete(sender) | {field: given}
    assert assert_problem(node.post(body), 400, "INVALID_FIELD")["field"] == field


@pytest.mark.parametrize("spell", [str.lower, lambda text: "0x" + text[2:].upper()])
def test_addresses_in_one_case_need_no_checksum(node: PublicNode, spell: Any) -> None:
    sender = node.fund()
    transfer = sign_transfer(sender, dev_account(1).address, 1, 0)
    body = transfer.body | {"from": spell(sender.address), "to": spell(dev_account(1).address)}
    assert node.post(body).json()["txHash"] == transfer.tx_hash


@pytest.mark.parametrize("given", ["", "0x", "0x" + "11" * 64, "0x" + "11" * 66, "11" * 65, "0x" + "zz" * 65, 1, None])
def test_a_malformed_signature_is_refused_by_name(node: PublicNode, sender: LocalAccount, given: object) -> None:
    body = complete(sender) | {"signature": given}
    assert assert_problem(node.post(body), 400, "INVALID_FIELD")["field"] == "signature"


@pytest.mark.parametrize("v", [2, 26, 29, 255])
def test_a_signature_with_an_unknown_v_is_refused(node: PublicNode, sender: LocalAccount, v: int) -> None:
    body = complete(sender)
    body["signature"] = body["signature"][:-2] + f"{v:02x}"
    answer = node.post(body)
    assert answer.status_code in (400, 422)
    assert answer.json()["code"] in ("INVALID_FIELD", "INVALID_SIGNATURE")


def test_high_s_is_refused_so_that_one_transfer_has_one_hash(node: PublicNode, sender: LocalAccount) -> None:
    body = complete(sender)
    signature = bytes.fromhex(body["signature"][2:])
    s = SECP256K1_N - int.from_bytes(signature[32:64], "big")
    flipped = signature[:32] + s.to_bytes(32, "big") + bytes([1 - signature[64]])
    assert_problem(node.post(body | {"signature": "0x" + flipped.hex()}), 422, "INVALID_SIGNATURE")


@pytest.mark.parametrize("rs", [bytes(64), b"\xff" * 64, bytes(32) + b"\1" * 32, b"\1" * 32 + bytes(32)])
def test_a_signature_that_no_key_makes_is_refused(node: PublicNode, sender: LocalAccount, rs: bytes) -> None:
    body = complete(sender) | {"signature": "0x" + rs.hex() + "00"}
    assert_problem(node.post(body), 422, "INVALID_SIGNATURE")


def test_a_signature_of_another_account_or_chain_is_refused(node: PublicNode, sender: LocalAccount) -> None:
    body = complete(sender) | {"from": dev_account(1).address}
    assert_problem(node.post(body), 422, "INVALID_SIGNATURE")
    elsewhere = sign_transfer(sender, RECIPIENT, 5, 0, chain_id=1)
    assert_problem(node.post(elsewhere.body), 422, "INVALID_SIGNATURE")


@pytest.mark.parametrize("field", ["from", "to", "value", "gas"])
def test_a_missing_required_field_is_named(node: PublicNode, sender: LocalAccount, field: str) -> None:
    body = {name: value for name, value in complete(sender).items() if name != field}
    assert assert_problem(node.post(body), 400, "INVALID_FIELD")["field"] == field


def test_unknown_field_is_refused_by_name(node: PublicNode, sender: LocalAccount) -> None:
    problem = assert_problem(node.post(complete(sender) | {"input": "0x"}), 400, "INVALID_FIELD")
    assert problem["field"] == "input"


def test_a_reference_is_confirmed_with_its_payment(node: PublicNode) -> None:
    sender, data = node.fund(), b"invoice 4711"
    short = sign_transfer(sender, RECIPIENT, 1, 0, data=data)
    assert assert_problem(node.post(short.body), 422, "GAS_TOO_LOW")["detail"].endswith("21192")
    long = sign_transfer(sender, RECIPIENT, 1, 0, gas=30_000, data=bytes(257))
    assert_problem(node.post(long.body), 422, "DATA_TOO_LONG")
    paid = sign_transfer(sender, RECIPIENT, 1, 0, gas=30_000, data=data)
    both = paid.body | {"reference": "invoice 4711"}
    assert assert_problem(node.post(both), 400, "INVALID_FIELD")["field"] == "reference"
    node.submit(paid)
    shown = node.await_confirmed(paid.tx_hash)
    assert (shown["reference"], shown["data"], shown["fee"]) == ("invoice 4711", "0x" + data.hex(), 21_192 * GWEI)


def test_a_field_given_twice_is_refused(node: PublicNode, sender: LocalAccount) -> None:
    body = json.dumps(complete(sender))[:-1] + ', "value": 1}'
    assert assert_problem(post_raw(node, body.encode()), 400, "INVALID_FIELD")["field"] == "value"


@pytest.mark.parametrize("body", [b"", b"{", b"{]", b"nonsense", b'{"from":', b"\xff\xfe", b"[" * 100_000, b"{'a':1}"])
def test_a_body_that_is_not_json_is_refused(node: PublicNode, body: bytes) -> None:
    assert_problem(post_raw(node, body), 400, "MALFORMED_JSON")


@pytest.mark.parametrize("body", [b"{}", b"[]", b"1", b'"text"', b"null", b"true"])
def test_a_body_that_is_no_object_with_fields_is_refused(node: PublicNode, body: bytes) -> None:
    assert_problem(post_raw(node, body), 400, "INVALID_FIELD")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/xml", "json"])
def test_another_media_type_is_415(node: PublicNode, sender: LocalAccount, content_type: str) -> None:
    answer = post_raw(node, json.dumps(complete(sender)).encode(), content_type)
    assert_problem(answer, 415, "UNSUPPORTED_MEDIA_TYPE")


def test_json_with_a_charset_is_json(node: PublicNode) -> None:
    transfer = sign_transfer(node.fund(), RECIPIENT, 1, 0)
    answer = post_raw(node, json.dumps(transfer.body).encode(), "application/json; charset=utf-8")
    assert answer.status_code == 200


def test_a_body_too_large_is_413(node: PublicNode) -> None:
    assert_problem(post_raw(node, b'{"from":"' + b"1" * 131_072 + b'"}'), 413, "BODY_TOO_LARGE")
    assert_problem(
        node.http.post("/txs", content=b"[" + b" " * 2_097_152 + b"]", headers={"content-type": "application/json"}),
        413,
        "BODY_TOO_LARGE",
    )


def test_a_broken_rule_of_gas_funds_or_nonce_is_refused_by_its_code(node: PublicNode, sender: LocalAccount) -> None:
    limit = node.read("/chain")["blockGasLimit"]
    refused = {
        "GAS_TOO_LOW": sign_transfer(sender, RECIPIENT, 1, 0, gas=20_999),
        "GAS_TOO_HIGH": sign_transfer(sender, RECIPIENT, 1, 0, gas=limit + 1),
        "GAS_PRICE_TOO_LOW": sign_transfer(sender, RECIPIENT, 1, 0, gas_price=GWEI - 1),
        "INSUFFICIENT_FUNDS": sign_transfer(sender, RECIPIENT, 10 * COIN, 0),
        "NONCE_TOO_HIGH": sign_transfer(sender, RECIPIENT, 1, 10**6),
    }
    for code, transfer in refused.items():
        assert_problem(node.post(transfer.body), 422, code)
        assert_problem(node.get(f"/tx/{transfer.tx_hash}"), 404, "TX_NOT_FOUND")


def test_a_transfer_of_an_account_without_money_is_refused(node: PublicNode) -> None:
    assert_problem(node.post(sign_transfer(new_account(), RECIPIENT, 0, 0).body), 422, "INSUFFICIENT_FUNDS")


def test_a_used_nonce_is_409(node: PublicNode) -> None:
    sender = node.fund()
    node.await_confirmed(node.submit(sign_transfer(sender, RECIPIENT, 1, 0)))
    assert_problem(node.post(sign_transfer(sender, RECIPIENT, 2, 0).body), 409, "NONCE_TOO_LOW")


def test_gap_is_held_and_closes(node: PublicNode) -> None:
    sender = node.fund()
    later = sign_transfer(sender, RECIPIENT, 1, 1)
    node.submit(later)
    assert node.read(f"/tx/{later.tx_hash}", wait=1)["status"] == "pending"
    assert node.read(f"/account/{sender.address}")["pendingNonce"] == 0
    node.submit(sign_transfer(sender, RECIPIENT, 1, 0))
    assert node.await_confirmed(later.tx_hash)["nonce"] == 1


def test_gap_of_64_is_the_widest(node: PublicNode) -> None:
    sender = node.fund()
    node.submit(sign_transfer(sender, RECIPIENT, 1, 64))
    assert_problem(node.post(sign_transfer(sender, RECIPIENT, 1, 65).body), 422, "NONCE_TOO_HIGH")


def test_replacement_needs_a_tenth_more(node: PublicNode) -> None:
    sender = node.fund()
    # Behind a gap, so that no block can take it meanwhile.
    held = sign_transfer(sender, RECIPIENT, 1, 1, gas_price=100 * GWEI)
    node.submit(held)
    cheap = sign_transfer(sender, RECIPIENT, 2, 1, gas_price=110 * GWEI - 1)
    assert_problem(node.post(cheap.body), 409, "REPLACEMENT_UNDERPRICED")
    better = sign_transfer(sender, RECIPIENT, 3, 1, gas_price=110 * GWEI)
    node.submit(better)
    is_network = node.engine == "cometbft"
    if is_network:
        # Other nodes may have it, until its nonce is in a block.
        assert node.read(f"/tx/{held.tx_hash}")["replacedBy"] == better.tx_hash
    else:
        assert assert_problem(node.get(f"/tx/{held.tx_hash}"), 404, "TX_DROPPED")["reason"] == "replaced"
    node.submit(sign_transfer(sender, RECIPIENT, 1, 0))
    assert node.await_confirmed(better.tx_hash)["value"] == 3
    ended = assert_problem(node.get(f"/tx/{held.tx_hash}"), 404, "TX_DROPPED")
    assert ended["reason"] == ("nonce used" if is_network else "replaced")


def test_batch_answers_each_item_in_order(node: PublicNode) -> None:
    sender = node.fund()
    good = [sign_transfer(sender, RECIPIENT, 1, nonce) for nonce in (0, 1)]
    answer = node.post([good[0].body, good[1].without("to"), good[1].body, 7], path="/txs")
    assert answer.status_code == 200
    results = answer.json()
    assert [result.get("code") for result in results] == [None, "INVALID_FIELD", None, "INVALID_FIELD"]
    assert [results[at] for at in (0, 2)] == [{"status": "pending", "txHash": transfer.tx_hash} for transfer in good]
    assert results[1]["field"] == "to"
    node.await_confirmed(good[1].tx_hash)


def test_a_batch_beyond_its_limits_is_refused(node: PublicNode, sender: LocalAccount) -> None:
    assert node.post([], path="/txs").json() == []
    assert node.post([1] * 100, path="/txs").status_code == 200
    assert_problem(node.post([complete(sender)] * 101, path="/txs"), 400, "INVALID_FIELD")
    assert_problem(node.post({}, path="/txs"), 400, "INVALID_FIELD")
    answer = node.http.post("/txs", content=b"[", headers={"content-type": "application/json"})
    assert_problem(answer, 400, "MALFORMED_JSON")
