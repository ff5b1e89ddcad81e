"""Blocks, transactions and receipts."""

from collections.abc import AsyncIterator

import msgspec

from cairn.api.mempool_pages import list_pending
from cairn.api.rpc.block_tags import RpcChain
from cairn.api.rpc.dispatch import Method
from cairn.api.rpc.long_results import LongResult, long_array, with_long_array
from cairn.api.rpc.objects import (
    BlockPlace,
    Json,
    block_object,
    pending_block_object,
    receipt_object,
    transaction_object,
)
from cairn.api.rpc.values import (
    BlockName,
    data,
    parse_block,
    parse_block_number,
    parse_flag,
    parse_hash,
    parse_quantity,
    quantity,
)
from cairn.domain.merkle import tx_root
from cairn.domain.transactions import decode_record
from cairn.domain.types import TRANSFER_GAS, BlockHash, Tx, TxHash
from cairn.store.keys import split_hashes
from cairn.time_shares import give_way, in_slices

_encode = msgspec.json.Encoder().encode
PENDING_SHOWN = 1_000
"""Transactions of the pending block, at most."""


class ReadingMethods:
    def __init__(self, chain: RpcChain) -> None:
        self._chain = chain
        self._view = chain.view

    def methods(self) -> dict[str, Method]:
        return {
            "eth_blockNumber": self.block_number,
            "eth_getBlockByNumber": self.get_block_by_number,
            "eth_getBlockByHash": self.get_block_by_hash,
            "eth_getBlockReceipts": self.get_block_receipts,
            "eth_getBlockTransactionCountByNumber": self.count_by_number,
            "eth_getBlockTransactionCountByHash": self.count_by_hash,
            "eth_getUncleCountByBlockNumber": self.uncles_by_number,
            "eth_getUncleCountByBlockHash": self.uncles_by_hash,
            "eth_getTransactionByHash": self.get_transaction,
            "eth_getTransactionByBlockNumberAndIndex": self.get_transaction_by_number,
            "eth_getTransactionByBlockHashAndIndex": self.get_transaction_by_block_hash,
            "eth_getTransactionReceipt": self.get_receipt,
        }

    # Blocks.

    async def block_number(self) -> str:
        return quantity(await self._chain.view.reach_head())

    async def get_block_by_number(self, number: object, full: object = None) -> Json | LongResult | None:
        return await self._block(parse_block_number(number, "block"), parse_flag(full, "full"))

    async def get_block_by_hash(self, block_hash: object, full: object = None) -> Json | LongResult | None:
        return await self._block(block_of_hash(block_hash), parse_flag(full, "full"))

    async def _block(self, named: BlockName, full: bool) -> Json | LongResult | None:
        if not full or named.tag == "pending":
            return await self._make_block(named, full)
        async with self._chain.large_answers.place():
            return await self._make_block(named, full)

    async def _make_block(self, named: BlockName, full: bool) -> Json | LongResult | None:
        height = await self._chain.find_height(named)
        if height is None:
            return None
        block_hash, header = self._view.get_header(height)
        if named.tag == "pending":
            txs, now = await self._next_txs()
            shown = [
                msgspec.Raw(_encode(transaction_object(tx, header.chain_id, None))) if full else data(tx.hash)
                async for tx in in_slices(txs)
            ]
            root = tx_root([tx.hash for tx in txs])
            # A thousand hashes were enough for one step.
            await give_way()
            return pending_block_object(block_hash, header, root, shown, now)
        if full:
            objects = [
                _encode(transaction_object(tx, header.chain_id, BlockPlace(block_hash, header, position)))
                async for position, tx in self.read_txs(height)
            ]
            return with_long_array(block_object(block_hash, header, []), "transactions", objects)
        hashes = [data(tx_hash) async for tx_hash in in_slices(split_hashes(self._view.tx_hashes(height)))]
        return block_object(block_hash, header, hashes)

    async def _next_txs(self, count: int = PENDING_SHOWN) -> tuple[list[Tx], int]:
        """The first transactions that the next block can include, and the time by the chain's clock."""
        status = await self._chain.gateway.status()
        page = await list_pending(self._chain.gateway, min(count, PENDING_SHOWN), None, None)
        # Queued ones come after them.
        return [pending.tx for pending in page.items[: page.pending]], status.now

    async def read_txs(self, height: int) -> AsyncIterator[tuple[int, Tx]]:
        """Position and transaction, in the block's order."""
        async for position, record in in_slices(enumerate(self._view.tx_records(height))):
            yield position, decode_record(record)

    async def get_block_receipts(self, block: object) -> LongResult | None:
        named = parse_block(block, "block")
        async with self._chain.large_answers.place():
            height = await self._chain.find_height(named)
            if height is None:
                return None
            block_hash, header = self._view.get_header(height)
            receipts = [
                _encode(receipt_object(tx, BlockPlace(block_hash, header, position)))
                async for position, tx in self.read_txs(height)
            ]
            return long_array(receipts)

    async def count_by_number(self, number: object) -> str | None:
        return await self._count(parse_block_number(number, "block"))

    async def count_by_hash(self, block_hash: object) -> str | None:
        return await self._count(block_of_hash(block_hash))

    async def _count(self, named: BlockName) -> str | None:
        if named.tag == "pending":
            return quantity(min(PENDING_SHOWN, (await self._chain.gateway.status()).pending))
        height = await self._chain.find_height(named)
        return None if height is None else quantity(self._view.get_header(height)[1].gas_used // TRANSFER_GAS)

    async def uncles_by_number(self, number: object) -> str | None:
        return None if await self._chain.find_height(parse_block_number(number, "block")) is None else "0x0"

    async def uncles_by_hash(self, block_hash: object) -> str | None:
        return None if await self._chain.find_height(block_of_hash(block_hash)) is None else "0x0"

    # Transactions.

    async def get_transaction(self, tx_hash: object) -> Json | None:
        return self._shown(await self._chain.find_tx(TxHash(parse_hash(tx_hash, "transaction hash"))))

    async def get_transaction_by_number(self, number: object, index: object) -> Json | None:
        return self._shown(await self.find_in(parse_block_number(number, "block"), index))

    async def get_transaction_by_block_hash(self, block_hash: object, index: object) -> Json | None:
        return self._shown(await self.find_in(block_of_hash(block_hash), index))

    async def find_in(self, named: BlockName, index: object) -> Tx | tuple[int, int] | None:
        """In the pending block, the transaction itself; in any other, its height and position."""
        position = parse_quantity(index, "index")
        if named.tag == "pending":
            txs, _ = await self._next_txs(position + 1)
            return txs[position] if position < len(txs) else None
        height = await self._chain.find_height(named)
        if height is None or position >= self._view.get_header(height)[1].gas_used // TRANSFER_GAS:
            return None
        return height, position

    def _shown(self, found: Tx | tuple[int, int] | None) -> Json | None:
        if found is None:
            return None
        chain_id = self._chain.info.chain_id
        if isinstance(found, Tx):
            return transaction_object(found, chain_id, None)
        height, position = found
        place = BlockPlace(*self._view.get_header(height), position)
        return transaction_object(self._view.tx_at(height, position), chain_id, place)

    async def get_receipt(self, tx_hash: object) -> Json | None:
        found = await self._chain.find_tx(TxHash(parse_hash(tx_hash, "transaction hash")))
        if found is None or isinstance(found, Tx):
            return None
        return self.receipt_at(*found)

    def receipt_at(self, height: int, position: int) -> Json:
        return receipt_object(self._view.tx_at(height, position), BlockPlace(*self._view.get_header(height), position))


def block_of_hash(value: object) -> BlockName:
    return BlockName(hash=BlockHash(parse_hash(value, "block hash")))
