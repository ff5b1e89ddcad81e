"""Blocks, transactions and receipts."""

from collections.abc import AsyncIterator, Iterator
from itertools import accumulate

import msgspec

from cairn.api.chain_reads import AnswerCache, CommonWork, list_pending, reverted_meanwhile
from cairn.api.rpc.dispatch import Later, rpc_method
from cairn.api.rpc.long_results import LongResult, long_array, long_data, with_long_array
from cairn.api.rpc.objects import (
    BlockPlace,
    Json,
    block_object,
    pending_block_object,
    receipt_object,
    transaction_object,
)
from cairn.api.rpc.ready_answers import ReadyAnswers
from cairn.api.rpc.rpc_chain import MethodGroup, RpcChain
from cairn.api.rpc.values import (
    LATEST,
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
from cairn.domain.types import LEGACY, TRANSFER_GAS, BlockHash, Tx, TxHash
from cairn.store.keys import split_hashes
from cairn.time_shares import give_way, in_slices

_encode = msgspec.json.Encoder().encode
PENDING_SHOWN = 1_000
"""Transactions of the pending block, at most."""
HASHES_AT_ONCE = 1_000
TXS_AT_ONCE = 200
"""Hashes and whole transactions of a block that are shown at once, which takes about a millisecond."""
TX_CACHE_BYTES = 8 * 1024 * 1024
"""Some ten thousand transactions, or as many receipts."""
BLOCK_CACHE_BYTES = 12 * 1024 * 1024
"""A hundred blocks of 200 whole transactions."""
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
        self._blocks = ReadyAnswers(chain.view, BLOCK_CACHE_BYTES)
        """By hash, with hashes or with all transactions."""
        self._txs = ReadyAnswers(chain.view, TX_CACHE_BYTES)
        self._receipts = ReadyAnswers(chain.view, TX_CACHE_BYTES)
        self._gas_sums = AnswerCache(GAS_CACHE_BYTES)
        """What `_add_gas` gives, of blocks with data, by block hash."""
        self._adding = CommonWork()

    # Blocks.

    @rpc_method("eth_blockNumber")
    def block_number(self) -> object:
        return self._chain.at_block(LATEST, quantity)

    @rpc_method("eth_getBlockByNumber", first=by_number)
    @rpc_method("eth_getBlockByHash", first=by_hash)
    def get_block(self, named: BlockName, full: object = None) -> object:
        is_full = parse_flag(full, "full")
        if named.tag == "pending":
            return Later(self._make_pending_block, is_full)
        height = self._chain.shown_height(named)
        found = None if height is None else self._find_small_block(height, is_full)
        if found is not None:
            return found
        return Later(self._make_full_block if is_full else self._make_block, named)

    def _find_small_block(self, height: int, full: bool) -> msgspec.Raw | None:
        """The block, unless it takes longer than a slice of time to make it."""
        block_hash = self._view.block_hash(height)
        key = block_hash + b"full" if full else block_hash
        found = self._blocks.find(key)
        if found is None:
            _, header = self._view.get_header(height)
            if header.tx_count > (TXS_AT_ONCE if full else HASHES_AT_ONCE):
                return None
            shown = block_object(block_hash, header, [])
            if full:
                place = BlockPlace(block_hash, height, header.timestamp, 0)
                items = [
                    _encode(transaction_object(tx, header.chain_id, place.at(position)))
                    for position, tx in enumerate(map(decode_record, self._view.tx_records(height)))
                ]
            else:
                items = [_encode(data(tx_hash)) for tx_hash in split_hashes(self._view.tx_hashes(height))]
            found = self._blocks.keep(key, height, b"".join(with_long_array(shown, "transactions", items).pieces))
        return found

    async def _make_block(self, named: BlockName) -> Json | None:
        height = await self._chain.find_height(named)
        if height is None:
            return None
        block_hash, header = self._view.get_header(height)
        hashes = [data(tx_hash) async for tx_hash in in_slices(split_hashes(self._view.tx_hashes(height)))]
        return block_object(block_hash, header, hashes)

    async def _make_full_block(self, named: BlockName) -> LongResult | None:
        async with self._chain.large_answers.place():
            height = await self._chain.find_height(named)
            if height is None:
                return None
            block_hash, header = self._view.get_header(height)
            place = BlockPlace(block_hash, height, header.timestamp, 0)
            objects = [
                _encode(transaction_object(tx, header.chain_id, place.at(position)))
                async for position, tx in self.read_txs(height)
            ]
            return with_long_array(block_object(block_hash, header, []), "transactions", objects)

    async def _make_pending_block(self, full: bool) -> Json:
        block_hash, header = self._view.get_header(await self._view.reach_head())
        txs, now = await self._next_txs()
        shown = [
            msgspec.Raw(_encode(transaction_object(tx, header.chain_id, None))) if full else data(tx.hash)
            async for tx in in_slices(txs)
        ]
        root = tx_root([tx.hash for tx in txs])
        # A thousand hashes were enough for one step.
        await give_way()
        return pending_block_object(block_hash, header, root, shown, sum(tx.gas_used for tx in txs), now)

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
            receipts, gas_so_far, place = [], 0, BlockPlace(block_hash, height, header.timestamp, 0)
            async for position, tx in self.read_txs(height):
                gas_so_far += tx.gas_used
                receipts.append(_encode(receipt_object(tx, place.at(position), gas_so_far)))
            return long_array(receipts)

    @rpc_method("eth_getBlockTransactionCountByNumber", first=by_number)
    @rpc_method("eth_getBlockTransactionCountByHash", first=by_hash)
    def count_transactions(self, named: BlockName) -> object:
        if named.tag == "pending":
            return Later(self._count_pending)
        return self._chain.at_block(named, lambda height: quantity(self._view.get_header(height)[1].tx_count))

    async def _count_pending(self) -> str:
        return quantity(min(PENDING_SHOWN, (await self._gateway.status()).pending))

    @rpc_method("eth_getUncleCountByBlockNumber", first=by_number)
    @rpc_method("eth_getUncleCountByBlockHash", first=by_hash)
    def count_uncles(self, named: BlockName) -> object:
        return self._chain.at_block(named, lambda height: "0x0")

    # Transactions.

    @rpc_method("eth_getTransactionByHash")
    def get_transaction(self, tx_hash: object) -> object:
        wanted = TxHash(parse_hash(tx_hash, "transaction hash"))
        found = self._txs.find(wanted)
        if found is not None:
            return found
        location = self._view.find_location(wanted)
        return Later(self._get_transaction, wanted) if location is None else self._confirmed(*location)

    async def _get_transaction(self, tx_hash: TxHash) -> msgspec.Raw | None:
        return self._shown(await self._chain.find_tx(tx_hash))

    @rpc_method("eth_getTransactionByBlockNumberAndIndex", first=by_number)
    @rpc_method("eth_getTransactionByBlockHashAndIndex", first=by_hash)
    async def get_transaction_in(self, named: BlockName, index: object) -> msgspec.Raw | None:
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

    def _shown(self, found: Tx | tuple[int, int] | None) -> msgspec.Raw | None:
        if found is None:
            return None
        if isinstance(found, Tx):
            return msgspec.Raw(_encode(transaction_object(found, self._chain.info.chain_id, None)))
        return self._confirmed(*found)

    def _confirmed(self, height: int, position: int) -> msgspec.Raw:
        tx, place = self._view.tx_at(height, position), self._place(height, position)
        shown = _encode(transaction_object(tx, self._chain.info.chain_id, place))
        return self._txs.keep(tx.hash, height, shown)

    def _place(self, height: int, position: int) -> BlockPlace:
        mark = self._view.block_mark(height)
        return BlockPlace(mark.hash, height, mark.timestamp, position)

    @rpc_method("eth_getTransactionReceipt")
    def get_receipt(self, tx_hash: object) -> object:
        wanted = TxHash(parse_hash(tx_hash, "transaction hash"))
        found = self._receipts.find(wanted)
        if found is not None:
            return found
        location = self._view.find_location(wanted)
        found = None if location is None else self._find_receipt(*location)
        return Later(self._get_receipt, wanted) if found is None else found

    async def _get_receipt(self, tx_hash: TxHash) -> msgspec.Raw | None:
        found = await self._chain.find_tx(tx_hash)
        return await self.receipt_at(*found) if isinstance(found, tuple) else None

    async def receipt_at(self, height: int, position: int) -> msgspec.Raw:
        found = self._find_receipt(height, position)
        if found is not None:
            return found
        reverts, (block_hash, header) = self._view.reverts, self._view.get_header(height)
        pieces = await self._adding.do(block_hash, lambda: _add_gas(self._view.tx_records(header.height)))
        if self._view.reverts != reverts:
            # Some may be of a block that took its place.
            raise reverted_meanwhile()
        sums = b"".join(pieces)
        self._gas_sums.keep(block_hash, sums)
        return self._make_receipt(height, position, sums)

    def _find_receipt(self, height: int, position: int) -> msgspec.Raw | None:
        """The receipt, unless it takes longer than a slice of time to add up the gas of those before it."""
        mark = self._view.block_mark(height)
        if not mark.holds_data:
            return self._make_receipt(height, position, None)
        sums = self._gas_sums.use(mark.hash)
        if sums is None and self._view.get_header(height)[1].tx_count <= HASHES_AT_ONCE:
            sums = b"".join(_add_gas(self._view.tx_records(height)))
            self._gas_sums.keep(mark.hash, sums)
        return None if sums is None else self._make_receipt(height, position, sums)

    def _make_receipt(self, height: int, position: int, sums: bytes | None) -> msgspec.Raw:
        """`sums` is what `_add_gas` gives, if a transaction of the block has data."""
        tx, place = self._view.tx_at(height, position), self._place(height, position)
        gas_so_far = TRANSFER_GAS * (position + 1)
        if sums is not None:
            gas_so_far = int.from_bytes(sums[GAS_BYTES * position : GAS_BYTES * (position + 1)], "big")
        return self._receipts.keep(tx.hash, height, _encode(receipt_object(tx, place, gas_so_far)))

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
