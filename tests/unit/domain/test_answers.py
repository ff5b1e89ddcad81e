from collections.abc import Callable

import msgspec
import pytest

from cairn.client.account import Account
from cairn.domain.answers import (
    Block,
    Confirmed,
    ConfirmedTransaction,
    Dropped,
    Header,
    Outcome,
    PendingTransaction,
    Proof,
    SignedFields,
    Transaction,
)
from cairn.domain.errors import InvalidProof
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.merkle import inclusion_proof, tree_nodes, tx_root, verify_inclusion
from cairn.domain.transactions import sign_draft
from cairn.domain.types import Draft
from tests.support.lies import lies_about

SIGNED = [Account.dev(5).sign("0x" + "bb" * 20, 7, nonce=nonce, chain_id=1337, gas_price=10**9) for nonce in range(5)]
HASHES = [bytes.fromhex(signed.tx_hash[2:]) for signed in SIGNED]
PENDING = {
    "txHash": "0x" + "11" * 32,
    "status": "pending",
    "from": "0x" + "aa" * 20,
    "to": "0x" + "bb" * 20,
    "value": 2**256 - 1,
    "nonce": 2**64 - 1,
    "gas": 21_000,
    "gasPrice": 10**9,
}
CONFIRMED = PENDING | {
    "status": "confirmed",
    "blockHeight": 7,
    "blockHash": "0x" + "22" * 32,
    "transactionIndex": 0,
    "fee": 21_000 * 10**9,
}


def header(root: bytes = tx_root(HASHES), **changes: object) -> Header:
    fields: dict[str, object] = {
        "block_height": 7,
        "hash": "",
        "previous_hash": "0x" + "01" * 32,
        "timestamp": 1_800_000_000,
        "transactions_root": "0x" + root.hex(),
        "state_root": "0x" + "02" * 32,
        "receipts_root": "0x" + "02" * 32,
        "mix_hash": "0x" + "02" * 32,
        "transaction_count": len(HASHES),
        "gas_used": 105_000,
        "proposer": "0x" + "00" * 20,
        "chain_id": 1337,
        "gas_limit": 210_000_000,
        "base_fee_per_gas": 10**9,
    }
    made = Header(**(fields | changes))  # type: ignore[arg-type]
    return msgspec.structs.replace(made, hash=made.computed_hash()) if not made.hash else made


def proof(index: int = 2, **changes: object) -> Proof:
    siblings = ["0x" + sibling.hex() for sibling in inclusion_proof(tree_nodes(HASHES), len(HASHES), index)]
    signed = msgspec.convert(SIGNED[index].body(), SignedFields)
    made = Proof("0x" + HASHES[index].hex(), signed, index, siblings, header())
    return msgspec.structs.replace(made, **changes)


def test_a_transaction_is_pending_or_confirmed_by_its_type() -> None:
    pending = msgspec.json.decode(msgspec.json.encode(PENDING), type=Transaction)
    assert isinstance(pending, PendingTransaction)
    assert (pending.status, pending.value, pending.nonce) == ("pending", 2**256 - 1, 2**64 - 1)
    confirmed = msgspec.json.decode(msgspec.json.encode(CONFIRMED), type=Transaction)
    assert isinstance(confirmed, ConfirmedTransaction)
    assert (confirmed.status, confirmed.block_height, confirmed.fee) == ("confirmed", 7, 21_000 * 10**9)
    assert confirmed.cost == confirmed.value + confirmed.fee


@pytest.mark.parametrize("wire", [PENDING, CONFIRMED])
def test_a_transaction_decoded_and_encoded_is_the_same_json(wire: dict[str, object]) -> None:
    assert msgspec.to_builtins(msgspec.convert(wire, Transaction)) == wire


def test_fields_of_a_later_node_are_ignored() -> None:
    assert msgspec.convert(PENDING | {"mood": "good"}, Transaction) == msgspec.convert(PENDING, Transaction)


def test_the_event_field_selects_confirmed_or_dropped() -> None:
    confirmed = msgspec.convert({"event": "txConfirmed", "txHash": "0x1", "blockHeight": 3}, Outcome)
    assert confirmed == Confirmed("0x1", 3)
    dropped = msgspec.convert({"event": "txDropped", "txHash": "0x1", "reason": "nonce used"}, Outcome)
    assert dropped == Dropped("0x1", "nonce used")


def test_a_block_hash_is_computed_from_the_header() -> None:
    block = Block(**msgspec.structs.asdict(header()), transactions=[])
    assert block.computed_hash() == block.hash == header().hash
    assert header(timestamp=1).hash != block.hash


@pytest.mark.parametrize("index", range(len(HASHES)))
def test_a_true_proof_verifies(index: int) -> None:
    tx_hash = SIGNED[index].tx_hash
    proof(index).verify(tx_hash)
    shouted = [text.upper().replace("0X", "0x") for text in (tx_hash, header().hash)]
    proof(index).verify(*shouted)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tx_hash": "0x" + "99" * 32}, "is of transaction"),
        ({"transaction_index": 3}, "does not lead"),
        ({"transaction_index": 5}, "does not lead"),
        ({"header": header(transaction_count=6, hash=header().hash)}, "fields give"),
        ({"header": header(transaction_count=4)}, "does not lead"),
        ({"proof": []}, "does not lead"),
        ({"header": header(root=bytes(32))}, "does not lead"),
        ({"header": header(hash="0x" + "ee" * 32)}, "fields give"),
        ({"header": header(timestamp=1, hash=header().hash)}, "fields give"),
        ({"tx_hash": "11" * 32}, "cannot be read"),
        ({"proof": ["0xzz"]}, "cannot be read"),
    ],
)
def test_a_proof_with_a_changed_part_is_refused(changes: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidProof, match=why):
        proof(**changes).verify(SIGNED[2].tx_hash)  # type: ignore[arg-type]


def test_a_proof_for_another_block_does_not_verify() -> None:
    with pytest.raises(InvalidProof, match="not for"):
        proof().verify(SIGNED[2].tx_hash, "0x" + "77" * 32)


def test_the_proof_of_another_transaction_does_not_verify() -> None:
    """A true one, of the same block: not of the payment that was asked for."""
    with pytest.raises(InvalidProof, match="is of transaction"):
        proof(1).verify(SIGNED[2].tx_hash, header().hash)


def test_a_proof_with_another_transaction_count_is_refused_though_its_path_fits() -> None:
    """Trees of 5, 6, 7 and 8 leaves have paths of the same length: what differs is the header."""
    sizes = range(1, 10)
    path = [bytes.fromhex(sibling[2:]) for sibling in proof(0).proof]
    assert [size for size in sizes if verify_inclusion(HASHES[0], 0, size, path, tx_root(HASHES))] == [5, 6, 7, 8]
    for size in sizes:
        if size != 5:
            with pytest.raises(InvalidProof):
                proof(0, header=header(transaction_count=size)).verify(SIGNED[0].tx_hash, header().hash)


def test_a_proof_with_any_single_field_changed_is_refused() -> None:
    """With the hashes of transaction and block known, there is nothing in it that a node can change."""
    truth = proof()
    truth.verify(SIGNED[2].tx_hash, header().hash)

    def check(lie: object) -> None:
        msgspec.convert(lie, Proof).verify(SIGNED[2].tx_hash, header().hash)

    assert unnoticed(truth, check) == []


@pytest.mark.parametrize("data", [b"invoice 4711", b"\x00\xff"])
def test_a_proof_covers_the_data_and_the_fee_for_it(data: bytes) -> None:
    sender, key = DEV_KEYS[5]
    tx = sign_draft(Draft(sender, sender, 7, 30_000, 10**9, 0, data=data), key, 1337)
    tx_hash, own = "0x" + tx.hash.hex(), "0x" + sender.hex()
    told = {"from": own, "to": own, "value": 7, "nonce": 0, "gas": 30_000, "gasPrice": 10**9, "data": "0x" + data.hex()}
    signed = msgspec.convert(told | {"signature": "0x" + tx.signature.hex()}, SignedFields)
    block = header(tx_root([tx.hash]), transaction_count=1, gas_used=tx.gas_used)
    proven = Proof(tx_hash, signed, 0, [], block)
    proven.verify(tx_hash, block.hash)
    text = {"reference": data.decode()} if data.isascii() else {}
    place = {"txHash": tx_hash, "blockHash": block.hash, "fee": tx.gas_used * 10**9}
    truth = msgspec.convert(CONFIRMED | told | place | text, ConfirmedTransaction)
    proven.check_same(truth)

    def check_proof(lie: object) -> None:
        msgspec.convert(lie, Proof).verify(tx_hash, block.hash)

    def check_answer(lie: object) -> None:
        answer = msgspec.convert(lie, Transaction)
        assert isinstance(answer, ConfirmedTransaction)
        proven.check_same(answer)

    assert unnoticed(proven, check_proof) == []
    assert unnoticed(truth, check_answer) == []
    with pytest.raises(InvalidProof, match="reference"):
        check_answer(msgspec.to_builtins(truth) | {"reference": "invoice 4712"})


@pytest.mark.parametrize(("data", "is_text_there"), [("\u0378".encode(), True), ("ä".encode(), False)])
def test_a_node_with_another_unicode_may_take_other_letters_for_printable(data: bytes, is_text_there: bool) -> None:
    sender, key = DEV_KEYS[5]
    tx = sign_draft(Draft(sender, sender, 7, 30_000, 10**9, 0, data=data), key, 1337)
    tx_hash, own = "0x" + tx.hash.hex(), "0x" + sender.hex()
    told = {"from": own, "to": own, "value": 7, "nonce": 0, "gas": 30_000, "gasPrice": 10**9, "data": "0x" + data.hex()}
    signed = msgspec.convert(told | {"signature": "0x" + tx.signature.hex()}, SignedFields)
    block = header(tx_root([tx.hash]), transaction_count=1, gas_used=tx.gas_used)
    place = {"txHash": tx_hash, "blockHash": block.hash, "fee": tx.gas_used * 10**9}
    text = {"reference": data.decode()} if is_text_there else {}
    proven = Proof(tx_hash, signed, 0, [], block)
    proven.check_same(msgspec.convert(CONFIRMED | told | place | text, ConfirmedTransaction))
    with pytest.raises(InvalidProof, match="reference"):
        proven.check_same(msgspec.convert(CONFIRMED | told | place | {"reference": "ö"}, ConfirmedTransaction))


@pytest.mark.parametrize("written", ["0x", "00ff", "0xFF", "0x0", "0x" + "00" * 257])
def test_a_proof_with_malformed_data_is_refused(written: str) -> None:
    lie = proof(transaction=msgspec.structs.replace(proof().transaction, data=written))
    with pytest.raises(InvalidProof, match="cannot be read"):
        lie.verify(SIGNED[2].tx_hash)


def test_a_transaction_with_any_field_unlike_its_proof_is_refused() -> None:
    told = SIGNED[2].body() | {"txHash": SIGNED[2].tx_hash, "blockHash": header().hash, "transactionIndex": 2}
    del told["signature"]
    truth = msgspec.convert(CONFIRMED | told, ConfirmedTransaction)
    proof().check_same(truth)

    def check(lie: object) -> None:
        tx = msgspec.convert(lie, Transaction)
        assert isinstance(tx, ConfirmedTransaction)
        proof().check_same(tx)

    assert unnoticed(truth, check) == []


def unnoticed(truth: object, check: Callable[[object], None]) -> list[str]:
    """The parts of the answer that may be changed without the check noticing."""
    parts = []
    for part, lie in lies_about(msgspec.to_builtins(truth)):
        try:
            check(lie)
        except (InvalidProof, msgspec.ValidationError):
            continue
        parts.append(part)
    return parts
