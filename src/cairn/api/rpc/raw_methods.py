"""Transactions as they were signed, byte for byte."""

from cairn.api.rpc.block_methods import ReadingMethods, block_of_hash
from cairn.api.rpc.block_tags import Chain
from cairn.api.rpc.dispatch import Handler
from cairn.api.rpc.values import Params, check_count, data, parse_block_number, parse_hash
from cairn.domain.codec import encode_tx
from cairn.domain.types import Tx, TxHash

UNKNOWN = "0x"
"""What geth answers for a transaction that is not there."""


class RawMethods:
    def __init__(self, chain: Chain, reading: ReadingMethods) -> None:
        self._chain = chain
        self._reading = reading

    def methods(self) -> dict[str, Handler]:
        return {
            "eth_getRawTransactionByHash": self.by_hash,
            "debug_getRawTransaction": self.by_hash,
            "eth_getRawTransactionByBlockNumberAndIndex": self.by_number,
            "eth_getRawTransactionByBlockHashAndIndex": self.by_block_hash,
        }

    def _shown(self, tx: Tx | None) -> str:
        return UNKNOWN if tx is None else data(encode_tx(tx, self._chain.info.chain_id))

    async def by_hash(self, params: Params) -> str:
        check_count(params, 1, 1)
        found = await self._chain.find_tx(TxHash(parse_hash(params[0], "transaction hash")))
        return self._shown(self._chain.view.tx_at(*found) if isinstance(found, tuple) else found)

    async def by_number(self, params: Params) -> str:
        check_count(params, 2, 2)
        return self._shown(await self._reading.find_tx_in(parse_block_number(params[0], "block"), params[1]))

    async def by_block_hash(self, params: Params) -> str:
        check_count(params, 2, 2)
        return self._shown(await self._reading.find_tx_in(block_of_hash(params[0]), params[1]))
