"""Transactions, receipts and blocks as libraries read them."""

from eth_account import Account as Wallet

from cairn.api.rpc.objects import (
    BlockPlace,
    block_object,
    head_object,
    header_object,
    pending_block_object,
    receipt_object,
    transaction_object,
)
from cairn.domain.headers import block_hash
from cairn.domain.merkle import EMPTY_ROOT
from cairn.domain.transactions import encode_tx
from cairn.domain.types import Address, BlockHash, BlockHeader
from tests.support.core_fixtures import CHAIN_ID, signed

HEADER = BlockHeader(
    height=7,
    previous_hash=BlockHash(b"\1" * 32),
    timestamp=1_700_000_000,
    tx_root=b"\2" * 32,
    changes_root=b"\x0c" * 32,
    history_root=b"\x0d" * 32,
    state_root=b"\3" * 32,
    gas_used=42_000,
    proposer=Address(b"\4" * 20),
    chain_id=CHAIN_ID,
    gas_limit=210_000_000,
    base_fee=10**9,
    tx_count=2,
)
HASH = block_hash(HEADER)


def test_a_wallet_recovers_the_sender_from_what_is_shown() -> None:
    tx = signed(3, value=10**20)
    shown = transaction_object(tx, CHAIN_ID, BlockPlace(HASH, HEADER.height, HEADER.timestamp, 1))
    assert (shown["nonce"], shown["value"], shown["gas"], shown["input"]) == ("0x3", hex(10**20), "0x5208", "0x")
    assert (shown["blockNumber"], shown["transactionIndex"]) == ("0x7", "0x1")
    assert shown["blockHash"] == "0x" + HASH.hex()
    parity = int(shown["v"], 16) - 2 * CHAIN_ID - 35
    assert shown["r"] + shown["s"][2:].rjust(64, "0") + f"{parity:02x}" == "0x" + tx.signature.hex()
    assert Wallet.recover_transaction(encode_tx(tx, CHAIN_ID)).lower() == shown["from"]


def test_a_pending_transaction_has_null_for_its_block() -> None:
    shown = transaction_object(signed(0), CHAIN_ID, None)
    assert {name for name, value in shown.items() if value is None} == {
        "blockHash", "blockNumber", "blockTimestamp", "transactionIndex",
    }  # fmt: skip


def test_a_receipt_counts_the_gas_before_it() -> None:
    receipt = receipt_object(signed(0), BlockPlace(HASH, HEADER.height, HEADER.timestamp, 4), 5 * 21_000)
    assert (receipt["gasUsed"], receipt["cumulativeGasUsed"]) == ("0x5208", hex(105_000))
    assert (receipt["status"], receipt["effectiveGasPrice"]) == ("0x1", hex(10**9))


def test_a_block_is_its_header_and_its_transactions() -> None:
    header = header_object(HASH, HEADER)
    block = block_object(HASH, HEADER, ["0x" + "00" * 32] * 2)
    assert block.items() >= header.items()
    assert block["baseFeePerGas"] == hex(10**9)
    assert (block["number"], block["timestamp"], block["gasUsed"]) == ("0x7", hex(1_700_000_000), hex(42_000))
    assert block["hash"] == "0x" + HASH.hex()


def test_a_head_is_told_with_null_for_what_later_headers_have() -> None:
    head = head_object(HASH, HEADER)
    assert {name for name, value in head.items() if value is None} == {
        "withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot", "requestsHash",
    }  # fmt: skip
    assert head.items() >= header_object(HASH, HEADER).items()
    # The schema of blocks has no null in these places.
    assert None not in block_object(HASH, HEADER, []).values()


def test_a_pending_block_has_null_for_what_only_mining_decides() -> None:
    block = pending_block_object(HASH, HEADER, EMPTY_ROOT, [], 0, now=1_700_000_005)
    assert block["timestamp"] == hex(1_700_000_005)
    # As a block that is made while the clock is behind.
    assert pending_block_object(HASH, HEADER, EMPTY_ROOT, [], 0, now=5)["timestamp"] == hex(HEADER.timestamp)
    assert (block["hash"], block["nonce"], block["miner"]) == (None, None, None)
    assert (block["number"], block["parentHash"]) == ("0x8", "0x" + HASH.hex())
