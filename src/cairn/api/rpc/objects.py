"""Blocks, transactions and receipts as Ethereum's JSON-RPC shows them."""

from typing import Any

from cairn.api.rpc.values import data, quantity
from cairn.domain.crypto import keccak256
from cairn.domain.headers import EMPTY_BLOOM, NO_NONCE, NO_UNCLES, encode_header, extra_data
from cairn.domain.merkle import EMPTY_ROOT
from cairn.domain.types import DYNAMIC_FEE, TRANSFER_GAS, ZERO_ADDRESS, BlockHash, BlockHeader, Tx

Json = dict[str, Any]

_EMPTY_BLOOM = data(EMPTY_BLOOM)
_NO_UNCLES = data(NO_UNCLES)
_NO_NONCE = data(NO_NONCE)
TRANSFER_BYTES = 110
"""The approximate size of a signed transfer without data."""
GAS_OF_A_BYTE = 16
"""Of data; of a zero byte it is 4."""
OF_LATER_FORKS = ("withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot", "requestsHash")
"""Header fields that Ethereum added after London; ours do not have them."""
_COIN = data(b"\xee" * 20)
_TRANSFER = data(keccak256(b"Transfer(address,address,uint256)"))


class BlockPlace:
    """The block of a confirmed transaction, and its position there."""

    __slots__ = ("block_hash", "height", "position", "timestamp")

    def __init__(self, block_hash: BlockHash, height: int, timestamp: int, position: int) -> None:
        self.block_hash = data(block_hash)
        self.height = quantity(height)
        self.timestamp = quantity(timestamp)
        self.position = position

    def at(self, position: int) -> "BlockPlace":
        """Itself, moved to another position of the block."""
        self.position = position
        return self


def transaction_object(tx: Tx, chain_id: int, place: BlockPlace | None) -> Json:
    """`place` is None for a pending transaction."""
    # Without calls of our own: a full block has thousands of these fields.
    signature, parity = tx.signature.hex(), tx.signature[64]
    shown: Json = {
        "blockHash": place and place.block_hash,
        "blockNumber": place and place.height,
        "blockTimestamp": place and place.timestamp,
        "transactionIndex": place and quantity(place.position),
        "hash": f"0x{tx.hash.hex()}",
        "type": quantity(tx.kind),
        "chainId": quantity(chain_id),
        "from": f"0x{tx.sender.hex()}",
        "to": f"0x{tx.to.hex()}",
        "nonce": quantity(tx.nonce),
        "value": quantity(tx.value),
        "gas": quantity(tx.gas),
        "gasPrice": quantity(tx.gas_price),
        "input": f"0x{tx.data.hex()}",
        "v": quantity(parity if tx.kind else 2 * chain_id + 35 + parity),
        "r": f"0x{signature[:64].lstrip('0') or '0'}",
        "s": f"0x{signature[64:128].lstrip('0') or '0'}",
    }
    if tx.kind:
        shown |= {"yParity": quantity(parity), "accessList": []}
    if tx.kind == DYNAMIC_FEE:
        shown |= {"maxFeePerGas": quantity(tx.max_fee), "maxPriorityFeePerGas": quantity(tx.max_tip)}
        if place is None:
            # As in geth: the price that is paid is known once it is in a block.
            shown["gasPrice"] = shown["maxFeePerGas"]
    return shown


def receipt_object(tx: Tx, place: BlockPlace, gas_so_far: int) -> Json:
    """The receipt. Every transaction in a block has succeeded; up to and with this one they have used `gas_so_far`."""
    return {
        "transactionHash": data(tx.hash),
        "transactionIndex": quantity(place.position),
        "blockHash": place.block_hash,
        "blockNumber": place.height,
        "from": data(tx.sender),
        "to": data(tx.to),
        "type": quantity(tx.kind),
        "status": "0x1",
        "gasUsed": quantity(tx.gas_used),
        "cumulativeGasUsed": quantity(gas_so_far),
        "effectiveGasPrice": quantity(tx.gas_price),
        "contractAddress": None,
        "logs": [],
        "logsBloom": _EMPTY_BLOOM,
    }


def transfer_log(tx: Tx, place: BlockPlace, index: int) -> Json:
    """How geth shows a transfer of coins in a simulation: as the log of a token contract."""
    return {
        "address": _COIN,
        "topics": [_TRANSFER, data(bytes(12) + tx.sender), data(bytes(12) + tx.to)],
        "data": data(tx.value.to_bytes(32, "big")),
        "blockNumber": place.height,
        "blockHash": place.block_hash,
        "blockTimestamp": place.timestamp,
        "transactionHash": data(tx.hash),
        "transactionIndex": quantity(place.position),
        "logIndex": quantity(index),
        "removed": False,
    }


def header_object(block_hash: BlockHash, header: BlockHeader) -> Json:
    """The fields of a block that come from its header."""
    return {
        "number": quantity(header.height),
        "hash": data(block_hash),
        "parentHash": data(header.previous_hash),
        "timestamp": quantity(header.timestamp),
        "transactionsRoot": data(header.tx_root),
        "stateRoot": data(header.state_root),
        "receiptsRoot": data(header.changes_root),
        "miner": data(header.proposer),
        "gasLimit": quantity(header.gas_limit),
        "gasUsed": quantity(header.gas_used),
        "difficulty": "0x0",
        "extraData": data(extra_data(header)),
        "logsBloom": _EMPTY_BLOOM,
        "mixHash": data(header.history_root),
        "nonce": _NO_NONCE,
        "sha3Uncles": _NO_UNCLES,
        "baseFeePerGas": quantity(header.base_fee),
    }


def head_object(block_hash: BlockHash, header: BlockHeader) -> Json:
    """What `newHeads` sends. As in geth, header fields that a chain does not have are null."""
    return header_object(block_hash, header) | dict.fromkeys(OF_LATER_FORKS)


def block_object(block_hash: BlockHash, header: BlockHeader, transactions: list[Any]) -> Json:
    """`transactions` are their hashes or their objects; they may be filled in later."""
    count, gas_of_data = header.tx_count, header.gas_used - TRANSFER_GAS * header.tx_count
    size = len(encode_header(header)) + TRANSFER_BYTES * count + gas_of_data // GAS_OF_A_BYTE
    return header_object(block_hash, header) | {
        "size": quantity(size),
        "totalDifficulty": "0x0",
        "transactions": transactions,
        "uncles": [],
    }


def pending_block_object(
    block_hash: BlockHash, head: BlockHeader, tx_root: bytes, transactions: list[Any], gas_used: int, now: int
) -> Json:
    """The pending block, as if it were made `now`: fields that only a real block has are null."""
    undecided = BlockHeader(
        height=head.height + 1,
        previous_hash=block_hash,
        timestamp=max(now, head.timestamp),
        tx_root=tx_root,
        changes_root=EMPTY_ROOT,
        state_root=head.state_root,
        history_root=head.history_root,
        gas_used=gas_used,
        proposer=ZERO_ADDRESS,
        chain_id=head.chain_id,
        gas_limit=head.gas_limit,
        base_fee=head.base_fee,
        tx_count=len(transactions),
    )
    block = block_object(block_hash, undecided, transactions)
    return block | {"hash": None, "nonce": None, "miner": None}
