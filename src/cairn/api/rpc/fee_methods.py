"""What a transfer costs: the base fee, which is the same in every block, and its tip."""

from collections.abc import Sequence
from typing import Any

from cairn.api.rpc.block_tags import RpcChain
from cairn.api.rpc.dispatch import Method
from cairn.api.rpc.errors import SERVER_ERROR, InvalidParams, RpcError
from cairn.api.rpc.values import MAX_SHOWN, BlockName, parse_block_number, parse_number, quantity
from cairn.api.server.yielding import in_turns
from cairn.domain.codec import decode_record
from cairn.domain.types import TRANSFER_GAS

MAX_BLOCKS = 1_024
MAX_REWARDED_BLOCKS = 64
"""The limit with reward percentiles, for which every transaction is read. The answer names its first block."""
MAX_PERCENTILES = 100
TURN_ITEMS = 200
"""Headers that are read before other requests are served."""


class FeeMethods:
    def __init__(self, chain: RpcChain) -> None:
        self._chain = chain

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
        heights = range(newest - count + 1, newest + 1)
        history: dict[str, Any] = {
            "oldestBlock": quantity(heights[0]),
            "baseFeePerGas": [quantity(self._chain.info.gas_price)] * (count + 1),
            "gasUsedRatio": [self._fullness(height) async for height in in_turns(heights, TURN_ITEMS)],
            "baseFeePerBlobGas": ["0x0"] * (count + 1),
            "blobGasUsedRatio": [0.0] * count,
        }
        if percentiles:
            history["reward"] = [self._rewards(height, percentiles) async for height in in_turns(heights, 1)]
        return history

    async def _find_newest(self, block: BlockName) -> int:
        """Raises `RpcError` or `BlockNotFound`."""
        height = await self._chain.find_height(block)
        head = self._chain.view.height
        if height is None and block.height is not None and block.height > head:
            raise RpcError(SERVER_ERROR, f"request beyond head block: requested {block.height}, head {head}")
        return await self._chain.state_height(block)

    def _fullness(self, height: int) -> float:
        return self._chain.view.get_header(height)[1].gas_used / self._chain.info.block_gas_limit

    def _rewards(self, height: int, percentiles: Sequence[float]) -> list[str]:
        """The tip at each percentile of the block's gas: of the first transfer that, with those before, has used it."""
        base_fee = self._chain.info.gas_price
        tips = sorted(decode_record(record).gas_price - base_fee for record in self._chain.view.tx_records(height))
        if not tips:
            return ["0x0"] * len(percentiles)
        gas_used = TRANSFER_GAS * len(tips)
        thresholds = (int(gas_used * percentile / 100) for percentile in percentiles)
        return [quantity(tips[max(0, -(-threshold // TRANSFER_GAS) - 1)]) for threshold in thresholds]


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
