"""Blocks, transactions and receipts."""

from collections.abc import AsyncIterator, Iterator
from itertools import accumulate

import msgspec

from cairn.api.chain_reads import AnswerCache, CommonWork, list_pending, reverted_meanwhile
from cairn.api.rpc.dispatch import rpc_method
from cairn.api.rpc.long_results import LongResult, long_array, long_data, with_long_array
from cairn.api.rpc.objects import (
    BlockPlace,
    Json,
    block_object,
    pending_block_object,
    receipt_object,
    transaction_object,
)
from cairn.api.rpc.rpc_chain import MethodGroup, RpcChain
from cairn.api.rpc.values import (
    SERVER_ERROR,
    BlockName,
    RpcError,
    data,
    parse_block,
    parse_block_number,
    parse_flag,
    parse_hash,
    parse_quantity,
    quantity,
)
from cairn.domain.headers import encode_header
from cairn.domain.merkle import tx_root
from cairn.domain.rlp import encode_list, encode_string, list_start
from cairn.domain.transactions import decode_record, encode_tx, gas_in_record
from cairn.domain.types import LEGACY, TRANSFER_GAS, BlockHash, BlockHeader, Tx, TxHash
from cairn.store.keys import split_hashes
from cairn.time_shares import give_way, in_slices

_encode = msgspec.json.Encoder().encode
PENDING_SHOWN = 1_000
"""Transactions of the pending block, at most."""
GAS_CACHE_BYTES = 1024 * 1024
"""A dozen blocks of 10,000 transactions."""
GAS_BYTES = 8
NO_UNCLES_ITEM = encode_list(b"")
UNKNOWN = "0x"
"""geth's answer for an unknown transaction or block number. An unknown block hash is an error."""


def by_number(value: object) -> BlockName:
    return parse_block_number(value, "block")


def by_hash(value: object) -> BlockName:
    return BlockName(hash=BlockHash(parse_hash(value, "block hash")))


class BlockMethods(MethodGroup):
    def __init__(self, chain: RpcChain) -> None:
        super().__init__(chain)
        self._gas_sums = AnswerCache(GAS_CACHE_BYTES)
        """What `_add_gas` gives, of blocks with data, by block hash."""
        self._adding = CommonWork()

    # Blocks.

    @rpc_method("eth_blockNumber")
    async def block_number(self) -> str:
        return quantity(await self._view.reach_head())

    @rpc_method("eth_getBlockByNumber", first=by_number)
    @rpc_method("eth_getBlockByHash", first=by_hash)
    async def get_block(self, named: BlockName, full: object = None) -> Json | LongResult | None:
        is_full = parse_flag(full, "full")
        if not is_full or named.tag == "pending":
            return await self._make_block(named, is_full)
        async with self._chain.large_answers.place():
            return await self._make_block(named, is_full)

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
            return pending_block_object(block_hash, header, root, shown, sum(tx.gas_used for tx in txs), now)
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
        status = await self._gateway.status()
        page = await list_pending(self._gateway, min(count, PENDING_SHOWN), None, None)
        # Queued ones come after them.
        return [pending.tx for pending in page.items[: page.pending]], status.now

    async def read_txs(self, height: int) -> AsyncIterator[tuple[int, Tx]]:
        """Position and transaction, in the block's order."""
        async for position, record in in_slices(enumerate(self._view.tx_records(height))):
            yield position, decode_record(record)

    @rpc_method("eth_getBlockReceipts")
    async def get_block_receipts(self, block: object) -> LongResult | None:
        named = parse_block(block, "block")
        async with self._chain.large_answers.place():
            height = await self._chain.find_height(named)
            if height is None:
                return None
            block_hash, header = self._view.get_header(height)
            receipts, gas_so_far = [], 0
            async for position, tx in self.read_txs(height):
                gas_so_far += tx.gas_used
                receipts.append(_encode(receipt_object(tx, BlockPlace(block_hash, header, position), gas_so_far)))
            return long_array(receipts)

    @rpc_method("eth_getBlockTransactionCountByNumber", first=by_number)
    @rpc_method("eth_getBlockTransactionCountByHash", first=by_hash)
    async def count_transactions(self, named: BlockName) -> str | None:
        if named.tag == "pending":
            return quantity(min(PENDING_SHOWN, (await self._gateway.status()).pending))
        height = await self._chain.find_height(named)
        return None if height is None else quantity(self._view.get_header(height)[1].tx_count)

    @rpc_method("eth_getUncleCountByBlockNumber", first=by_number)
    @rpc_method("eth_getUncleCountByBlockHash", first=by_hash)
    async def count_uncles(self, named: BlockName) -> str | None:
        return None if await self._chain.find_height(named) is None else "0x0"

    # Transactions.

    @rpc_method("eth_getTransactionByHash")
    async def get_transaction(self, tx_hash: object) -> Json | None:
        return self._shown(await self._chain.find_tx(TxHash(parse_hash(tx_hash, "transaction hash"))))

    @rpc_method("eth_getTransactionByBlockNumberAndIndex", first=by_number)
    @rpc_method("eth_getTransactionByBlockHashAndIndex", first=by_hash)
    async def get_transaction_in(self, named: BlockName, index: object) -> Json | None:
        return self._shown(await self._find_in(named, index))

    async def _find_in(self, named: BlockName, index: object) -> Tx | tuple[int, int] | None:
        """In the pending block, the transaction itself; in any other, its height and position."""
        position = parse_quantity(index, "index")
        if named.tag == "pending":
            txs, _ = await self._next_txs(position + 1)
            return txs[position] if position < len(txs) else None
        height = await self._chain.find_height(named)
        if height is None or position >= self._view.get_header(height)[1].tx_count:
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

    @rpc_method("eth_getTransactionReceipt")
    async def get_receipt(self, tx_hash: object) -> Json | None:
        found = await self._chain.find_tx(TxHash(parse_hash(tx_hash, "transaction hash")))
        if found is None or isinstance(found, Tx):
            return None
        return await self.receipt_at(*found)

    async def receipt_at(self, height: int, position: int) -> Json:
        tx, (block_hash, header) = self._view.tx_at(height, position), self._view.get_header(height)
        gas_so_far = await self._gas_up_to(block_hash, header, position)
        return receipt_object(tx, BlockPlace(block_hash, header, position), gas_so_far)

    async def _gas_up_to(self, block_hash: BlockHash, header: BlockHeader, position: int) -> int:
        """The gas that the block's transactions have used, up to this position and with it."""
        if header.gas_used == TRANSFER_GAS * header.tx_count:
            # None of them has data.
            return TRANSFER_GAS * (position + 1)
        sums = self._gas_sums.use(block_hash)
        if sums is None:
            reverts = self._view.reverts
            pieces = await self._adding.do(block_hash, lambda: _add_gas(self._view.tx_records(header.height)))
            if self._view.reverts != reverts:
                # Some may be of a block that took its place.
                raise reverted_meanwhile()
            sums = b"".join(pieces)
            self._gas_sums.keep(block_hash, sums)
        return int.from_bytes(sums[GAS_BYTES * position : GAS_BYTES * (position + 1)], "big")

    # Blocks as they are hashed and transactions as they were signed, byte for byte.

    @rpc_method("debug_getRawHeader")
    async def get_raw_header(self, block: object) -> str:
        height = await self._find_confirmed(block, "header")
        return UNKNOWN if height is None else data(encode_header(self._view.get_header(height)[1]))

    @rpc_method("debug_getRawBlock")
    async def get_raw_block(self, block: object) -> str | LongResult:
        async with self._chain.large_answers.place():
            height = await self._find_confirmed(block, "block")
            if height is None:
                return UNKNOWN
            _, header = self._view.get_header(height)
            txs = [_item_of(tx, header.chain_id) async for _, tx in self.read_txs(height)]
            head, txs_size = encode_header(header), sum(map(len, txs))
            txs_start = list_start(txs_size)
            start = list_start(len(head) + len(txs_start) + txs_size + len(NO_UNCLES_ITEM))
            return long_data([start, head, txs_start, *txs, NO_UNCLES_ITEM])

    async def _find_confirmed(self, block: object, what: str) -> int | None:
        """None for an unknown number. Raises `RpcError` for an unknown hash and for the pending block."""
        named = parse_block(block, "block")
        if named.tag == "pending":
            raise RpcError(SERVER_ERROR, "pending block is not available")
        height = await self._chain.find_height(named)
        if height is None and named.hash is not None:
            raise RpcError(SERVER_ERROR, f"{what} {data(named.hash)} not found")
        return height

    def _raw(self, found: Tx | tuple[int, int] | None) -> str:
        tx = self._view.tx_at(*found) if isinstance(found, tuple) else found
        return UNKNOWN if tx is None else data(encode_tx(tx, self._chain.info.chain_id))

    @rpc_method("eth_getRawTransactionByHash", "debug_getRawTransaction")
    async def get_raw_transaction(self, tx_hash: object) -> str:
        return self._raw(await self._chain.find_tx(TxHash(parse_hash(tx_hash, "transaction hash"))))

    @rpc_method("eth_getRawTransactionByBlockNumberAndIndex", first=by_number)
    @rpc_method("eth_getRawTransactionByBlockHashAndIndex", first=by_hash)
    async def get_raw_transaction_in(self, named: BlockName, index: object) -> str:
        return self._raw(await self._find_in(named, index))


def _add_gas(records: Iterator[bytes]) -> Iterator[bytes]:
    """For each transaction, the gas that it and those before it have used."""
    for gas in accumulate(map(gas_in_record, records)):
        yield gas.to_bytes(GAS_BYTES, "big")


def _item_of(tx: Tx, chain_id: int) -> bytes:
    """The RLP item of a transaction in a block: a legacy one is a list, a typed one a string."""
    raw = encode_tx(tx, chain_id)
    return raw if tx.kind == LEGACY else encode_string(raw)
