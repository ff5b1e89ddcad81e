import json
from typing import Any

import msgspec
import pytest
from eth_account import Account as EthAccount

from cairn.client import Account, SignedTransfer
from cairn.client.errors import InvalidField
from tests.support.wallet import dev_account, sign_transfer

KEY = "0x" + "4c" * 32
TO = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


def signed(value: int = 5, nonce: int = 3, to: str = TO) -> SignedTransfer:
    return Account.dev(0).sign(to, value, nonce=nonce, chain_id=1337, gas_price=10**9)


@pytest.mark.parametrize("index", range(10))
def test_the_dev_accounts_are_those_of_the_mnemonic(index: int) -> None:
    assert Account.dev(index).address == dev_account(index).address
    assert Account.dev(index).key == "0x" + bytes(dev_account(index).key).hex()


@pytest.mark.parametrize("value", [0, 5, 2**256 - 1])
def test_a_signature_equals_that_of_eth_account(value: int) -> None:
    expected = sign_transfer(dev_account(0), TO, value, 3)
    transfer = signed(value)
    assert transfer.tx_hash == expected.tx_hash
    assert transfer.body() == expected.body | {"from": dev_account(0).address.lower(), "to": TO.lower()}


@pytest.mark.parametrize(
    ("prices", "fields"),
    [
        ({"kind": 1, "gas_price": 10**9}, {"type": 1, "gasPrice": 10**9}),
        ({"max_fee": 3 * 10**9, "tip": 5}, {"type": 2, "maxFeePerGas": 3 * 10**9, "maxPriorityFeePerGas": 5}),
        ({"kind": 2, "max_fee": 10**9}, {"type": 2, "maxFeePerGas": 10**9, "maxPriorityFeePerGas": 0}),
    ],
)
def test_a_typed_signature_equals_that_of_eth_account(prices: dict[str, int], fields: dict[str, int]) -> None:
    transfer = Account.dev(0).sign(TO, 5, nonce=3, chain_id=1337, **prices)  # type: ignore[arg-type]  # all are numbers
    whole: dict[str, Any] = {"to": TO, "value": 5, "nonce": 3, "gas": 21_000, "chainId": 1337, **fields}
    assert transfer.tx_hash == "0x" + dev_account(0).sign_transaction(whole).hash.hex()
    assert transfer.body().items() >= fields.items()


@pytest.mark.parametrize(
    ("given", "data", "reference", "gas"),
    [
        ({"reference": "invoice 4711"}, b"invoice 4711", "invoice 4711", 21_192),
        ({"reference": "Käse ✓"}, "Käse ✓".encode(), "Käse ✓", 21_000 + 16 * 9),
        ({"data": b"invoice 4711"}, b"invoice 4711", "invoice 4711", 21_192),
        ({"data": b"\x00\xff\x00"}, b"\x00\xff\x00", None, 21_024),
        ({"data": "0x00ff00"}, b"\x00\xff\x00", None, 21_024),
        ({"data": b"", "gas": 21_001}, b"", None, 21_001),
        ({"reference": "a", "gas": 50_000}, b"a", "a", 50_000),
    ],
)
def test_a_transfer_with_data_is_that_of_eth_account_with_the_gas_that_it_takes(
    given: dict[str, Any], data: bytes, reference: str | None, gas: int
) -> None:
    transfer = Account.dev(0).sign(TO, 5, nonce=3, chain_id=1337, gas_price=10**9, **given)
    whole: dict[str, Any] = {"to": TO, "value": 5, "nonce": 3, "gas": gas, "chainId": 1337, "gasPrice": 10**9}
    whole["data"] = data
    assert transfer.tx_hash == "0x" + dev_account(0).sign_transaction(whole).hash.hex()
    assert (transfer.gas, transfer.reference) == (gas, reference)
    assert transfer.data == ("0x" + data.hex() if data else None)
    # POST /tx takes one of the two.
    assert "reference" not in transfer.body()
    assert transfer.body().get("data") == transfer.data


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"reference": ""}, "reference"),
        ({"reference": "two\nlines"}, "reference"),
        ({"reference": "\u202eevil"}, "reference"),
        ({"reference": b"bytes"}, "reference"),
        ({"reference": "a", "data": b"a"}, "reference"),
        ({"reference": "a", "data": "0x61"}, "reference"),
        ({"data": "a"}, "data"),
        ({"data": "0x6"}, "data"),
        ({"data": None}, "data"),
    ],
)
def test_a_reference_that_is_not_printable_text_is_refused(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        Account.dev(0).sign(TO, 5, nonce=3, chain_id=1337, gas_price=10**9, **given)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "prices", [{"kind": 2, "gas_price": 1}, {"kind": 1, "max_fee": 1}, {"kind": 3, "gas_price": 1}]
)
def test_a_price_of_another_type_is_refused(prices: dict[str, int]) -> None:
    with pytest.raises(InvalidField, match="type: a transaction of type . has no") as refused:
        Account.dev(0).sign(TO, 5, nonce=3, chain_id=1337, **prices)  # type: ignore[arg-type]  # all are numbers
    assert refused.value.field == "type"


def test_the_same_transfer_is_the_same_transaction_unless_it_shall_be_unique() -> None:
    assert signed() == signed()
    first, second = (Account.dev(0).sign(TO, 5, nonce=3, chain_id=1337, gas_price=10**9, unique=True) for _ in range(2))
    assert len({first.tx_hash, second.tx_hash, signed().tx_hash}) == 3
    assert msgspec.structs.replace(first, tx_hash="", signature="") == msgspec.structs.replace(
        second, tx_hash="", signature=""
    )


def test_a_key_may_be_written_with_or_without_0x() -> None:
    assert Account.from_key(KEY) == Account.from_key(KEY[2:]) == Account(bytes.fromhex(KEY[2:]))
    assert Account.from_key(KEY).address == EthAccount.from_key(KEY).address
    assert Account.from_key(KEY) != Account.dev(0)
    assert len({Account.from_key(KEY), Account.from_key(KEY)}) == 1


def test_two_created_keys_differ() -> None:
    first, second = Account.create(), Account.create()
    assert first.address != second.address
    assert Account.from_key(first.key) == first


@pytest.mark.parametrize("key", ["", "0x12", "0x" + "00" * 32, "ff" * 32, KEY + "00", "zz" * 32])
def test_an_invalid_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ValueError, match="a private key is") as refused:
        Account.from_key(key)
    assert not key or key[2:] not in str(refused.value)


def test_the_repr_does_not_show_the_key() -> None:
    account = Account.from_key(KEY)
    assert repr(account) == str(account) == f"Account({account.address})"


def test_a_keystore_is_unlocked_with_its_password() -> None:
    keystore = EthAccount.encrypt(bytes.fromhex(KEY[2:]), "open sesame", kdf="scrypt", iterations=2)
    assert Account.from_keystore(keystore, "open sesame") == Account.from_key(KEY)
    assert Account.from_keystore(json.dumps(keystore), "open sesame") == Account.from_key(KEY)
    with pytest.raises(ValueError, match="wrong password"):
        Account.from_keystore(keystore, "open says me")


@pytest.mark.parametrize("index", [-1, 10])
def test_a_dev_chain_has_ten_accounts(index: int) -> None:
    with pytest.raises(ValueError, match="0 to 9"):
        Account.dev(index)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("to", {"to": "0x12"}),
        ("to", {"to": None}),
        ("to", {"to": 5}),
        ("to", {"to": TO.replace("C", "c", 1)}),
        ("value", {"value": -1}),
        ("value", {"value": 2**256}),
        ("value", {"value": 1.0}),
        ("nonce", {"nonce": True}),
    ],
)
def test_an_invalid_field_is_refused_before_signing(field: str, given: dict[str, object]) -> None:
    with pytest.raises(InvalidField) as refused:
        signed(**given)  # type: ignore[arg-type]
    assert (refused.value.field, refused.value.status, refused.value.code) == (field, 400, "INVALID_FIELD")
