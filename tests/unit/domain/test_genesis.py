"""Genesis: a strict file, one digest however it is written, and block 0."""

import base64
import hashlib
import json
from typing import Any

import pytest

from cairn.domain.crypto import checksum_address, keccak256
from cairn.domain.ed25519 import public_key_of
from cairn.domain.errors import InvalidField, MalformedJson
from cairn.domain.genesis import (
    DEV_KEYS,
    DEV_SIGNER,
    DEV_SIGNING_SEED,
    MAX_CHAIN_ID,
    dev_genesis,
    encode_genesis,
    genesis_digest,
    genesis_outcome,
    parse_genesis,
)
from cairn.domain.headers import block_hash
from cairn.domain.merkle import EMPTY_ROOT, leaf_hash, root_of
from cairn.domain.state_tree import Place, change_leaf
from cairn.domain.types import (
    EMPTY_ACCOUNT,
    LATEST_TIME,
    MAX_UINT64,
    MAX_UINT256,
    ZERO_ADDRESS,
    ZERO_HASH,
    Account,
    Rules,
)
from tests.support.memory_state import MemoryState, naive_state_root

ALICE, BOB = (address for address, _ in DEV_KEYS[:2])
SIGNER = base64.b64encode(DEV_SIGNER).decode()
VALIDATOR = {"publicKey": SIGNER, "power": 1, "feeRecipient": checksum_address(ALICE), "name": ""}


def written(**changes: Any) -> bytes:
    fields = {
        "chainId": 5,
        "timestamp": 1_000,
        "gasPrice": 10,
        "blockGasLimit": 21_000,
        "alloc": {checksum_address(ALICE): 3, checksum_address(BOB): "4"},
        "signer": SIGNER,
        **changes,
    }
    return json.dumps({key: field for key, field in fields.items() if field is not None}).encode()


def test_a_file_is_read_exactly() -> None:
    genesis = parse_genesis(written())
    assert genesis.rules == Rules(chain_id=5, gas_price=10, block_gas_limit=21_000)
    assert genesis.timestamp == 1_000
    assert genesis.alloc == {ALICE: 3, BOB: 4}
    assert (genesis.signer, genesis.validators) == (DEV_SIGNER, ())


def test_a_network_names_its_validators_instead_of_a_signer() -> None:
    genesis = parse_genesis(written(signer=None, validators=[VALIDATOR]))
    assert (genesis.signer, [each.public_key for each in genesis.validators]) == (None, [DEV_SIGNER])
    assert parse_genesis(encode_genesis(genesis)) == genesis


def test_the_digest_of_a_large_genesis_is_computed_once() -> None:
    genesis = parse_genesis(written())
    before = genesis_digest.cache_info().misses
    assert genesis_digest(genesis) == keccak256(encode_genesis(genesis))
    assert genesis_digest(parse_genesis(written())) == genesis_digest(genesis)
    assert genesis_digest.cache_info().misses <= before + 1
    assert genesis_digest(parse_genesis(written(gasPrice=11))) != genesis_digest(genesis)


def test_everybody_can_sign_for_a_dev_chain() -> None:
    assert hashlib.sha256(b"cairn dev chain: this key protects nothing").digest() == DEV_SIGNING_SEED
    assert public_key_of(DEV_SIGNING_SEED) == DEV_SIGNER == dev_genesis().signer


def test_the_largest_numbers_are_read_exactly() -> None:
    genesis = parse_genesis(
        written(
            chainId=MAX_CHAIN_ID,
            timestamp=LATEST_TIME,
            gasPrice=MAX_UINT256,
            blockGasLimit=MAX_UINT64,
            alloc={checksum_address(ALICE): str(MAX_UINT256)},
        )
    )
    assert (genesis.chain_id, genesis.gas_price, genesis.alloc[ALICE]) == (MAX_CHAIN_ID, MAX_UINT256, MAX_UINT256)
    assert parse_genesis(encode_genesis(genesis)) == genesis


def test_the_smallest_numbers_are_read_exactly() -> None:
    genesis = parse_genesis(
        written(chainId=1, timestamp=0, gasPrice=0, blockGasLimit=21_000, alloc={checksum_address(ALICE): 0})
    )
    assert (genesis.chain_id, genesis.timestamp, genesis.gas_price, genesis.alloc) == (1, 0, 0, {ALICE: 0})


def test_the_largest_chain_id_is_that_of_eip_2294() -> None:
    assert MAX_CHAIN_ID == 9_223_372_036_854_775_771


@pytest.mark.parametrize("key", ["chainId", "timestamp", "gasPrice", "blockGasLimit", "alloc"])
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(InvalidField) as refusal:
        parse_genesis(written(**{key: None}))
    assert (refusal.value.field, refusal.value.detail) == (key, f"{key}: missing")


def test_an_address_may_be_written_in_one_case() -> None:
    assert parse_genesis(written(alloc={f"0x{ALICE.hex()}": 1})).alloc == {ALICE: 1}


@pytest.mark.parametrize(
    ("changes", "field", "why"),
    [
        ({"gasprice": 1}, "gasprice", "unknown key"),
        ({"chainId": None}, "chainId", "missing"),
        ({"alloc": None}, "alloc", "missing"),
        ({"chainId": 0}, "chainId", "not between"),
        ({"chainId": MAX_CHAIN_ID + 1}, "chainId", "not between"),
        ({"chainId": True}, "chainId", "not an integer"),
        ({"chainId": "five"}, "chainId", "not an integer"),
        ({"chainId": "0x5"}, "chainId", "not an integer"),
        ({"chainId": "٥"}, "chainId", "not an integer"),
        ({"timestamp": -1}, "timestamp", "not between"),
        ({"timestamp": "9" * 79}, "timestamp", "not an integer"),
        # In milliseconds, as JavaScript gives it.
        ({"timestamp": 1_735_689_600_000}, "timestamp", "not between"),
        ({"timestamp": LATEST_TIME + 1}, "timestamp", "not between"),
        ({"gasPrice": "-1"}, "gasPrice", "not an integer"),
        ({"gasPrice": [1]}, "gasPrice", "not an integer"),
        ({"gasPrice": MAX_UINT256 + 1}, "gasPrice", "not between"),
        ({"blockGasLimit": 20_999}, "blockGasLimit", "not between"),
        ({"signer": None}, "signer", "missing: every chain names who signs its blocks"),
        ({"signer": 5}, "signer", "not an Ed25519 public key"),
        ({"signer": "?"}, "signer", "not base64"),
        ({"signer": base64.b64encode(bytes(31)).decode()}, "signer", "not an Ed25519 public key"),
        ({"validators": [VALIDATOR]}, "signer", "the validators sign the blocks of a network: give one of the two"),
        ({"alloc": []}, "alloc", "expected an object that maps addresses to balances"),
        ({"alloc": {"0x12": 1}}, "alloc.0x12", "40 hexadecimal digits"),
        ({"alloc": {checksum_address(ALICE): -1}}, f"alloc.{checksum_address(ALICE)}", "not between"),
        ({"alloc": {checksum_address(ALICE): MAX_UINT256, checksum_address(BOB): 1}}, "alloc", "add up"),
        ({"alloc": {checksum_address(ALICE): 1, f"0x{ALICE.hex()}": 1}}, f"alloc.0x{ALICE.hex()}", "given twice"),
    ],
)
def test_a_value_out_of_range_or_of_another_type_is_refused_by_its_key(
    changes: dict[str, object], field: str, why: str
) -> None:
    with pytest.raises(InvalidField, match=why) as caught:
        parse_genesis(written(**changes))
    assert caught.value.field == field


def test_a_wrong_checksum_is_refused() -> None:
    spelled = checksum_address(ALICE)
    with pytest.raises(InvalidField, match=spelled):
        parse_genesis(written(alloc={spelled[:2] + spelled[2:].swapcase(): 1}))


def test_a_key_given_twice_is_refused() -> None:
    with pytest.raises(InvalidField, match="chainId: given twice"):
        parse_genesis(written().replace(b"{", b'{"chainId": 6, ', 1))


def test_a_key_given_twice_is_named_wherever_it_stands() -> None:
    with pytest.raises(InvalidField, match="gasPrice: given twice"):
        parse_genesis(written().replace(b'"alloc"', b'"gasPrice": 11, "alloc"'))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b"\xff",
        b"[" * 100_000,
        written().replace(b"1000", b"1000.0"),
        written().replace(b"1000", b"1e3"),
        written().replace(b"1000", b"NaN"),
    ],
    ids=["nothing", "cut", "array", "number", "not UTF-8", "deep", "fraction", "exponent", "NaN"],
)
def test_text_that_is_not_json_or_has_inexact_numbers_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedJson, match="genesis is not"):
        parse_genesis(text)


def test_one_chain_has_one_digest_however_it_is_written() -> None:
    genesis = parse_genesis(written())
    turned = parse_genesis(written(alloc={f"0x{BOB.hex()}": 4, f"0x{ALICE.hex()}": "3"}))
    assert encode_genesis(turned) == encode_genesis(genesis)
    assert genesis_digest(turned) == genesis_digest(genesis)
    assert genesis_digest(parse_genesis(written(chainId=6))) != genesis_digest(genesis)


def test_the_canonical_file_has_one_form() -> None:
    # Its digest tells one chain from another: another indent would make another chain of each.
    genesis = parse_genesis(written(alloc={checksum_address(ALICE): 3}))
    assert encode_genesis(genesis) == (
        b'{\n  "chainId": 5,\n  "timestamp": 1000,\n  "gasPrice": 10,\n  "blockGasLimit": 21000,\n'
        b'  "maxDataBytes": 256,\n'
        b'  "alloc": {\n    "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266": 3\n  },\n'
        b'  "signer": "YePV/YdfAH3ThteQZByMP7FgugIJcMpzP4hXqJaJRF8="\n}\n'
    )


@pytest.mark.parametrize("most", [0, 1, 256])
def test_the_genesis_says_how_much_data_a_transfer_may_carry(most: int) -> None:
    genesis = parse_genesis(written(maxDataBytes=most))
    assert genesis.rules.max_data_bytes == most
    assert parse_genesis(encode_genesis(genesis)) == genesis
    assert genesis_digest(genesis) != genesis_digest(parse_genesis(written(maxDataBytes=2)))


@pytest.mark.parametrize("most", [-1, 257, "x", True])
def test_a_limit_of_data_that_no_chain_may_have_is_refused(most: object) -> None:
    with pytest.raises(InvalidField) as caught:
        parse_genesis(written(maxDataBytes=most))
    assert caught.value.field == "maxDataBytes"


def test_block_0_holds_the_first_balances() -> None:
    genesis = parse_genesis(written(alloc={checksum_address(ALICE): 3, checksum_address(BOB): 0}))
    outcome = genesis_outcome(genesis)
    header = outcome.block.header
    assert outcome.accounts == {ALICE: Account(3, 0)}
    assert outcome.state.places == {ALICE: Place(1, 0, ALICE)}
    assert (header.height, header.previous_hash, header.proposer) == (0, ZERO_HASH, ZERO_ADDRESS)
    assert (header.timestamp, header.chain_id, header.gas_used, header.tx_root) == (1_000, 5, 0, EMPTY_ROOT)
    assert (header.gas_limit, header.base_fee) == (genesis.block_gas_limit, genesis.gas_price)
    assert header.state_root == naive_state_root(MemoryState(outcome))
    assert header.changes_root == root_of([leaf_hash(change_leaf(ALICE, None, EMPTY_ACCOUNT, Account(3, 0)))])
    assert header.history_root == EMPTY_ROOT
    assert outcome.block.hash == block_hash(header)
    assert outcome.block.txs == ()


def test_the_dev_chain_is_the_same_everywhere() -> None:
    genesis = dev_genesis()
    assert genesis.rules == Rules(chain_id=1337, gas_price=10**9, block_gas_limit=210_000_000)
    assert genesis.alloc == {address: 10**22 for address, _ in DEV_KEYS}
    assert len(genesis.alloc) == 10
    assert checksum_address(DEV_KEYS[0][0]) == "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
    # A change of this hash is a change of the chain's format: every existing directory would be another chain's.
    assert (
        genesis_outcome(genesis).block.hash.hex() == "8e38739ad62001a605ca896816fa2f77b5f0357b96e7097ab97a5f03136a91c5"
    )
