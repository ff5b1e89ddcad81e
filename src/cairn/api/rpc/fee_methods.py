"""What a transfer costs: the base fee, which is the same in every block, and its tip."""

from typing import Any

from cairn.api.chain_reads import AnswerCache, reverted_meanwhile
from cairn.api.common_work import CommonWork
from cairn.api.rpc.block_tags import RpcChain
from cairn.api.rpc.dispatch import Method
from cairn.api.rpc.errors import SERVER_ERROR, InvalidParams, RpcError
from cairn.api.rpc.values import MAX_SHOWN, BlockName, parse_block_number, parse_number, quantity
from cairn.domain.transactions import price_in_record
from cairn.domain.types import TRANSFER_GAS, BlockHash, BlockHeader
from cairn.time_shares import in_slices

MAX_BLOCKS = 1_024
MAX_REWARDED_BLOCKS = 64
"""The limit with reward percentiles, for which full blocks are read. The answer names its first block."""
MAX_PERCENTILES = 100
LEAST_TIPS_BYTES = 256 * 1024


class FeeMethods:
    def __init__(self, chain: RpcChain) -> None:
        self._chain = chain
        self._least_tips = AnswerCache(LEAST_TIPS_BYTES)
        """Of full blocks, by block hash."""
        self._reading = CommonWork()

    def methods(self) -> dict[str, Method]:
        return {
            "eth_gasPrice": self.gas_price,
            "eth_maxPriorityFeePerGas": self.max_priority_fee_per_gas,
            "eth_feeHistory": self.fee_history,
            "eth_blobBaseFee": self.blob_base_fee,
        }

    async def gas_price(self) -> str:
        return quantity(self._chain.info.gas_price)

    async def max_priority_fee_per_gas(self) -> str:
        """No tip is needed: the base fee never rises, and a tip only moves a transfer ahead in the mining order."""
        return "0x0"

    async def blob_base_fee(self) -> str:
        return "0x0"

    async def fee_history(self, blocks: object, newest_block: object, rewards: object = None) -> dict[str, Any]:
        count, percentiles = parse_number(blocks, "block count"), _parse_percentiles(rewards)
        newest = await self._find_newest(parse_block_number(newest_block, "newest block"))
        count = min(count, MAX_REWARDED_BLOCKS if percentiles else MAX_BLOCKS, newest - self._chain.view.base + 1)
        if count == 0:
            return {"oldestBlock": "0x0", "gasUsedRatio": []}
        reverts = self._chain.view.reverts
        fullness: list[float] = []
        rewards_shown: list[list[str]] = []
        async for height in in_slices(range(newest - count + 1, newest + 1)):
            if self._chain.view.reverts != reverts:
                raise reverted_meanwhile()
            block_hash, header = self._chain.view.get_header(height)
            fullness.append(header.gas_used / header.gas_limit)
            if percentiles:
                rewards_shown.append([quantity(await self._least_tip(block_hash, header))] * len(percentiles))
        history: dict[str, Any] = {
            "oldestBlock": quantity(newest - count + 1),
            "baseFeePerGas": [quantity(self._chain.info.gas_price)] * (count + 1),
            "gasUsedRatio": fullness,
            "baseFeePerBlobGas": ["0x0"] * (count + 1),
            "blobGasUsedRatio": [0.0] * count,
        }
        return history | {"reward": rewards_shown} if percentiles else history

    async def _find_newest(self, block: BlockName) -> int:
        """Raises `RpcError` or `BlockNotFound`."""
        height = await self._chain.find_height(block)
        head = self._chain.view.height
        if height is None and block.height is not None and block.height > head:
            raise RpcError(SERVER_ERROR, f"request beyond head block: requested {block.height}, head {head}")
        return await self._chain.state_height(block)

    async def _least_tip(self, block_hash: BlockHash, header: BlockHeader) -> int:
        """The tip with which a transfer got into the block: 0 if it had room for more, else the least that it took.

        It is the same at every percentile. What others paid beyond it is no reason to pay as much.
        """
        if header.gas_limit - header.gas_used >= TRANSFER_GAS:
            return 0
        known = self._least_tips.use(block_hash)
        if known is None:
            prices = await self._reading.do(
                block_hash, lambda: map(price_in_record, self._chain.view.tx_records(header.height))
            )
            known = (int.from_bytes(min(prices), "big") - header.base_fee).to_bytes(32, "big")
            self._least_tips.keep(block_hash, known)
        return int.from_bytes(known, "big")


def _parse_percentiles(value: object) -> list[float] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(each.__class__ in (int, float) for each in value):
        raise InvalidParams("reward percentiles: expected a list of numbers")
    if len(value) > MAX_PERCENTILES:
        raise RpcError(SERVER_ERROR, f"invalid reward percentile: over the query limit {MAX_PERCENTILES}")
    for before, each in zip([-1, *value], value, strict=False):
        if not (0 <= each <= 100 and before < each):
            shown = str(each)[:MAX_SHOWN]
            raise RpcError(SERVER_ERROR, f"invalid reward percentile: {shown}, not ascending between 0 and 100")
    return [float(each) for each in value]
