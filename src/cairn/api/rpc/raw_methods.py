"""Blocks as they are hashed and transactions as they were signed, byte for byte."""

from cairn.api.rpc.block_methods import ReadingMethods, block_of_hash
from cairn.api.rpc.block_tags import RpcChain
from cairn.api.rpc.dispatch import Method
from cairn.api.rpc.errors import SERVER_ERROR, RpcError
from cairn.api.rpc.long_results import LongResult, long_data
from cairn.api.rpc.values import data, parse_block, parse_block_number, parse_hash
from cairn.domain.headers import encode_header
from cairn.domain.rlp import encode_list, encode_string, list_start
from cairn.domain.transactions import encode_tx
from cairn.domain.types import LEGACY, Tx, TxHash

NO_UNCLES_ITEM = encode_list(b"")
UNKNOWN = "0x"
"""geth's answer for an unknown transaction or block number. An unknown block hash is an error."""


class RawMethods:
    def __init__(self, chain: RpcChain, reading: ReadingMethods) -> None:
        self._chain = chain
        self._reading = reading

    def methods(self) -> dict[str, Method]:
        return {
            "debug_getRawHeader": self.header,
            "debug_getRawBlock": self.block,
            "eth_getRawTransactionByHash": self.by_hash,
            "debug_getRawTransaction": self.by_hash,
            "eth_getRawTransactionByBlockNumberAndIndex": self.by_number,
            "eth_getRawTransactionByBlockHashAndIndex": self.by_block_hash,
        }

    async def header(self, block: object) -> str:
        height = await self._find_height(block, "header")
        return UNKNOWN if height is None else data(encode_header(self._chain.view.get_header(height)[1]))

    async def block(self, block: object) -> str | LongResult:
        async with self._chain.large_answers.place():
            height = await self._find_height(block, "block")
            if height is None:
                return UNKNOWN
            _, header = self._chain.view.get_header(height)
            txs = [_item_of(tx, header.chain_id) async for _, tx in self._reading.read_txs(height)]
            head, txs_size = encode_header(header), sum(map(len, txs))
            txs_start = list_start(txs_size)
            start = list_start(len(head) + len(txs_start) + txs_size + len(NO_UNCLES_ITEM))
            return long_data([start, head, txs_start, *txs, NO_UNCLES_ITEM])

    async def _find_height(self, block: object, what: str) -> int | None:
        """None for an unknown number. Raises `RpcError` for an unknown hash and for the pending block."""
        named = parse_block(block, "block")
        if named.tag == "pending":
            raise RpcError(SERVER_ERROR, "pending block is not available")
        height = await self._chain.find_height(named)
        if height is None and named.hash is not None:
            raise RpcError(SERVER_ERROR, f"{what} {data(named.hash)} not found")
        return height

    def _shown(self, found: Tx | tuple[int, int] | None) -> str:
        tx = self._chain.view.tx_at(*found) if isinstance(found, tuple) else found
        return UNKNOWN if tx is None else data(encode_tx(tx, self._chain.info.chain_id))

    async def by_hash(self, tx_hash: object) -> str:
        return self._shown(await self._chain.find_tx(TxHash(parse_hash(tx_hash, "transaction hash"))))

    async def by_number(self, number: object, index: object) -> str:
        return self._shown(await self._reading.find_in(parse_block_number(number, "block"), index))

    async def by_block_hash(self, block_hash: object, index: object) -> str:
        return self._shown(await self._reading.find_in(block_of_hash(block_hash), index))


def _item_of(tx: Tx, chain_id: int) -> bytes:
    """The RLP item of a transaction in a block: a legacy one is a list, a typed one a string."""
    raw = encode_tx(tx, chain_id)
    return raw if tx.kind == LEGACY else encode_string(raw)
