"""The domain against the committed vectors, and the vectors against the libraries that they come from."""

import json
from pathlib import Path
from typing import Any

import pytest

from cairn.domain.crypto import address_of_key, checksum_address, keccak256, parse_address, recover_sender, sign_digest
from cairn.domain.genesis import DEV_KEYS, DEV_MNEMONIC
from cairn.domain.governance import (
    Admins,
    AdminsUpdate,
    Before,
    ChainIdentity,
    EvidenceKind,
    EvidenceRecord,
    Governance,
    Update,
    ValidatorRecord,
    ValidatorUpdate,
    decode_governance,
    decode_update,
    encode_governance,
    encode_update,
    update_digest,
)
from cairn.domain.headers import block_hash, decode_header, encode_header
from cairn.domain.merkle import inclusion_proof, leaf_hash, root_of, tree_nodes, tx_root, verify_inclusion
from cairn.domain.state_tree import record_leaf, update_state
from cairn.domain.transactions import (
    build_tx,
    decode_record,
    decode_tx,
    encode_record,
    encode_tx,
    encode_unsigned,
    price_terms,
    sign_draft,
    signing_bytes,
)
from cairn.domain.types import Account, Address, Draft
from cairn.domain.updates import sign_update
from tests.support.memory_state import MemoryState
from tests.support.replay import header_of, raw
from tests.vectors import generate

HERE = Path(__file__).parent
BASE_FEE = 10**9
PRICES = ("gasPrice", "maxFeePerGas", "maxPriorityFeePerGas")


def load(name: str) -> Any:
    return json.loads((HERE / name).read_text())


def test_the_files_are_what_the_reference_libraries_compute() -> None:
    for name, text in generate.files().items():
        assert (HERE / name).read_text() == text, name


@pytest.mark.parametrize("vector", load("transactions.json"), ids=lambda vector: vector["name"])
def test_a_transaction_is_what_a_wallet_makes_of_it(vector: dict[str, Any]) -> None:
    key, chain_id, signature = raw(vector["privateKey"]), vector["chainId"], raw(vector["signature"])
    sender, to = parse_address(vector["from"], "from"), parse_address(vector["to"], "to")
    value, gas, gas_price, nonce = int(vector["value"]), vector["gas"], int(vector["gasPrice"]), vector["nonce"]

    draft = Draft(sender, to, value, gas, gas_price, nonce, data=raw(vector["data"]))
    payload = signing_bytes(draft.kind, encode_unsigned(draft, nonce, chain_id), chain_id)
    assert payload == raw(vector["signingPayload"])
    assert keccak256(payload) == raw(vector["signingHash"])
    assert recover_sender(keccak256(payload), signature) == sender == address_of_key(key)
    assert sign_digest(keccak256(payload), key) == signature

    check_made(draft, vector)


def check_made(draft: Draft, vector: dict[str, Any]) -> None:
    chain_id = vector["chainId"]
    tx = build_tx(draft, raw(vector["signature"]), chain_id)
    assert tx.hash == raw(vector["txHash"])
    assert encode_tx(tx, chain_id) == raw(vector["raw"])
    assert decode_tx(raw(vector["raw"]), chain_id, BASE_FEE) == tx
    assert sign_draft(draft, raw(vector["privateKey"]), chain_id) == tx
    assert decode_record(encode_record(tx)) == tx


@pytest.mark.parametrize("vector", load("typed_transactions.json"), ids=lambda vector: vector["name"])
def test_a_typed_transaction_is_what_a_wallet_makes_of_it(vector: dict[str, Any]) -> None:
    kind, chain_id, nonce = vector["type"], vector["chainId"], vector["nonce"]
    sender, to = parse_address(vector["from"], "from"), parse_address(vector["to"], "to")
    price, max_fee, max_tip = (int(vector[name]) if name in vector else None for name in PRICES)
    terms = price_terms(kind, price, max_fee, max_tip, BASE_FEE)
    draft = Draft(
        sender, to, int(vector["value"]), vector["gas"], terms.gas_price, nonce, *terms[1:], raw(vector["data"])
    )
    payload = signing_bytes(kind, encode_unsigned(draft, nonce, chain_id), chain_id)
    assert payload == raw(vector["signingPayload"])
    assert keccak256(payload) == raw(vector["signingHash"])
    check_made(draft, vector)


def test_the_dev_accounts_are_those_of_the_mnemonic() -> None:
    vectors = load("addresses.json")
    assert vectors["mnemonic"] == DEV_MNEMONIC
    assert [(checksum_address(address), "0x" + key.hex()) for address, key in DEV_KEYS] == [
        (account["address"], account["privateKey"]) for account in vectors["accounts"]
    ]


@pytest.mark.parametrize("vector", load("addresses.json")["eip55"], ids=lambda vector: vector["checksum"][:10])
def test_an_address_has_its_eip_55_spelling(vector: dict[str, str]) -> None:
    address = parse_address(vector["lower"], "from")
    assert checksum_address(address) == vector["checksum"]
    assert parse_address(vector["checksum"], "from") == address


@pytest.mark.parametrize("vector", load("merkle.json"), ids=lambda vector: f"{len(vector['leaves'])} leaves")
def test_the_transactions_root_is_that_of_rfc_6962(vector: dict[str, Any]) -> None:
    leaves, root = [raw(leaf) for leaf in vector["leaves"]], raw(vector["root"])
    assert tx_root(leaves) == root
    for index, proof in enumerate(vector["proofs"]):
        path = [raw(node) for node in proof]
        assert inclusion_proof(tree_nodes(leaves), len(leaves), index) == path
        assert verify_inclusion(leaves[index], index, len(leaves), path, root)


@pytest.mark.parametrize(
    "vector", load("states.json"), ids=lambda vector: f"{len(vector['blocks'][0]['touched'])} accounts"
)
def test_the_state_root_and_the_root_of_touched_accounts_are_as_the_formats_say(vector: dict[str, Any]) -> None:
    state = MemoryState()
    for height, block in enumerate(vector["blocks"]):
        changes = []
        for shown in block["touched"]:
            who = Address(raw(shown["address"]))
            changes.append((who, state.account(who), Account(int(shown["balance"]), shown["nonce"])))
        update = update_state(state.tree, state, height, changes, None if height else record_leaf(None))
        assert update.tree.root == raw(block["stateRoot"])
        assert update.changes_root == raw(block["receiptsRoot"])
        state.take({who: account for who, _, account in changes}, update)


def read_validator(fields: dict[str, Any]) -> ValidatorRecord:
    fee_recipient = Address(raw(fields["feeRecipient"]))
    return ValidatorRecord(raw(fields["publicKey"]), fields["power"], fee_recipient, fields["name"])


@pytest.mark.parametrize("vector", load("validators.json")["sets"], ids=lambda vector: str(vector["sequence"]))
def test_the_validators_have_one_record_that_the_state_root_covers(vector: dict[str, Any]) -> None:
    governance = Governance(
        vector["sequence"],
        tuple(map(read_validator, vector["validators"])),
        None if vector["leaving"] is None else read_validator(vector["leaving"]),
        None if vector["admins"] is None else read_admins(vector["admins"]),
        tuple(map(read_evidence, vector["evidence"])),
        vector["evidenceCount"],
        vector["setChanges"],
        vector["setChangedAt"],
    )
    record = raw(vector["record"])
    assert encode_governance(governance) == record
    assert decode_governance(record) == governance
    assert root_of([leaf_hash(record_leaf(record))]) == raw(vector["stateRoot"])


def read_admins(shown: dict[str, Any]) -> Admins:
    return Admins(shown["threshold"], tuple(Address(raw(address)) for address in shown["addresses"]))


def read_evidence(shown: dict[str, Any]) -> EvidenceRecord:
    return EvidenceRecord(
        EvidenceKind(shown["kind"]), raw(shown["address"]), shown["blockHeight"], shown["timestamp"], shown["name"]
    )


def read_update(vector: dict[str, Any]) -> Update:
    if "admins" in vector:
        return AdminsUpdate(vector["sequence"], read_admins(vector["admins"]), read_admins(vector["replaces"]))
    before = vector["before"]
    known = Before(before["power"], before["totalPower"], before["validators"], before["namesakes"])
    return ValidatorUpdate(vector["sequence"], read_validator(vector["validator"]), known)


@pytest.mark.parametrize("vector", load("validators.json")["updates"], ids=lambda vector: str(vector["sequence"]))
def test_an_update_is_signed_and_carried_in_one_form(vector: dict[str, Any]) -> None:
    unsigned = read_update(vector)
    chain = ChainIdentity(vector["chainId"], raw(vector["genesis"]))
    assert update_digest(unsigned, chain) == raw(vector["signedHash"])
    signed = sign_update(unsigned, list(map(raw, vector["privateKeys"])), chain)
    assert encode_update(signed) == raw(vector["encoded"])
    assert decode_update(raw(vector["encoded"])) == signed


@pytest.mark.parametrize("vector", load("headers.json"), ids=lambda vector: f"height {vector['blockHeight']}")
def test_a_block_hash_is_that_of_an_ethereum_header(vector: dict[str, Any]) -> None:
    header = header_of(vector)
    assert encode_header(header) == raw(vector["encoded"])
    assert decode_header(raw(vector["encoded"])) == header
    assert block_hash(header) == raw(vector["hash"])
