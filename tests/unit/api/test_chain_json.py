"""The public JSON: exact at any size, with the fields of the interface."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from cairn.api.bodies import as_strings
from cairn.api.chain_json import block_json, confirmed_json, mempool_json, pending_json, signed_view
from cairn.core.gateway import PendingTx
from cairn.domain.answers import Block, ConfirmedTransaction, Header, MempoolItem, PendingTransaction
from cairn.domain.types import DYNAMIC_FEE, LEGACY, MAX_UINT64, MAX_UINT256, Address, BlockHash, BlockHeader, Tx, TxHash

TX = Tx(
    hash=TxHash(b"\xaa" * 32),
    sender=Address(b"\x01" * 20),
    to=Address(b"\x02" * 20),
    nonce=MAX_UINT64,
    gas=21_000,
    gas_price=10**30,
    value=MAX_UINT256,
    signature=bytes(65),
)
HEADER = BlockHeader(
    height=7,
    previous_hash=BlockHash(b"\x03" * 32),
    timestamp=1_700_000_000,
    tx_root=b"\x04" * 32,
    changes_root=b"\x0c" * 32,
    history_root=b"\x0d" * 32,
    state_root=b"\x05" * 32,
    gas_used=42_000,
    proposer=Address(b"\x06" * 20),
    chain_id=1337,
    gas_limit=210_000_000,
    base_fee=10**30,
    tx_count=2,
)
BLOCK_HASH = BlockHash(b"\x07" * 32)
OWN = {
    "from": "0x" + "01" * 20,
    "to": "0x" + "02" * 20,
    "value": MAX_UINT256,
    "nonce": MAX_UINT64,
    "gas": 21_000,
    "gasPrice": 10**30,
}


def test_a_pending_transaction_has_no_block() -> None:
    assert json.loads(pending_json(PendingTx(TX, 0))) == {"txHash": "0x" + "aa" * 32, "status": "pending"} | OWN


def test_a_pending_transaction_that_is_not_held_has_the_reason_and_its_replacement() -> None:
    shown = json.loads(pending_json(PendingTx(TX, 0, "replaced", TxHash(b"\xbb" * 32))))
    assert (shown["status"], shown["notHeld"], shown["replacedBy"]) == ("pending", "replaced", "0x" + "bb" * 32)
    assert msgspec.convert(shown, PendingTransaction).replaced_by == "0x" + "bb" * 32
    alone = json.loads(pending_json(PendingTx(TX, 0, "evicted")))
    assert alone["notHeld"] == "evicted"
    assert "replacedBy" not in alone


def test_a_queued_transaction_says_which_nonce_it_waits_for() -> None:
    queued = PendingTx(TX, 0, waits_for_nonce=3)
    for text, described in ((pending_json(queued), PendingTransaction), (mempool_json(queued), MempoolItem)):
        shown = json.loads(text)
        assert (shown["queued"], shown["queuedReason"]) == (True, "waits for nonce 3")
        assert json.loads(msgspec.json.encode(msgspec.json.decode(text, type=described))) == shown


def test_a_confirmed_transaction_has_its_block_and_its_fee() -> None:
    assert json.loads(confirmed_json(TX, 7, 3, BLOCK_HASH)) == {
        "txHash": "0x" + "aa" * 32,
        "status": "confirmed",
        "blockHeight": 7,
        **OWN,
        "blockHash": "0x" + "07" * 32,
        "transactionIndex": 3,
        "fee": 21_000 * 10**30,
    }


HOSTILE = '","value":5,"status":"confirmed" \\" \\ </script> <b> 😀 gasPrice":1'


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"invoice 4711", {"data": "0x" + b"invoice 4711".hex(), "reference": "invoice 4711"}),
        (HOSTILE.encode(), {"data": "0x" + HOSTILE.encode().hex(), "reference": HOSTILE}),
        (b"\x00\xff", {"data": "0x00ff"}),
        (b"two\nlines", {"data": "0x" + b"two\nlines".hex()}),
        ("\u202eevil".encode(), {"data": "0x" + "\u202eevil".encode().hex()}),
    ],
)
def test_data_is_shown_and_its_text_where_it_is_printable(data: bytes, shown: dict[str, str]) -> None:
    tx = replace(TX, data=data)
    own = OWN | shown
    assert json.loads(pending_json(PendingTx(tx, 0))) == {"txHash": "0x" + "aa" * 32, "status": "pending"} | own
    assert json.loads(mempool_json(PendingTx(tx, 7))) == {"txHash": "0x" + "aa" * 32, "receivedAt": 7} | own
    confirmed = json.loads(confirmed_json(tx, 7, 3, BLOCK_HASH))
    assert confirmed == confirmed | own | {"fee": tx.gas_used * 10**30}
    signed = msgspec.to_builtins(signed_view(tx))
    assert (signed["data"], "reference" in signed) == (shown["data"], False)


def test_text_of_a_sender_is_no_amount() -> None:
    shown = json.loads(as_strings(confirmed_json(replace(TX, data=HOSTILE.encode()), 7, 3, BLOCK_HASH)))
    assert (shown["reference"], shown["value"]) == (HOSTILE, str(MAX_UINT256))


def test_a_block_has_its_header_and_the_hashes_of_its_transactions() -> None:
    hashes = b"\xaa" * 32 + b"\xbb" * 32
    block = json.loads(block_json(BLOCK_HASH, HEADER, hashes))
    assert block["transactions"] == ["0x" + "aa" * 32, "0x" + "bb" * 32]
    header = Header.of(BLOCK_HASH, HEADER)
    assert block == {"transactions": block["transactions"]} | msgspec.to_builtins(header)
    assert json.loads(block_json(BLOCK_HASH, HEADER, b""))["transactions"] == []


@pytest.mark.parametrize("data", [b"", b"invoice 4711", b"\x00"])
@pytest.mark.parametrize("kind", [LEGACY, DYNAMIC_FEE])
def test_json_written_without_an_encoder_has_the_fields_of_its_type(kind: int, data: bytes) -> None:
    """Each field that the type has, and no other: what is read into the type and written again is the same."""
    tx = replace(TX, kind=kind, max_fee=10**31, max_tip=10**29, data=data)
    for text, described in (
        (pending_json(PendingTx(tx, 0)), PendingTransaction),
        (mempool_json(PendingTx(tx, 7)), MempoolItem),
        (confirmed_json(tx, 7, 3, BLOCK_HASH), ConfirmedTransaction),
        (block_json(BLOCK_HASH, HEADER, b"\xaa" * 32), Block),
    ):
        assert json.loads(msgspec.json.encode(msgspec.json.decode(text, type=described))) == json.loads(text)
