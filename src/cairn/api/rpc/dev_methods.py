"""What anvil, hardhat and ganache let a developer do, under the names that their tools call. On dev chains only."""

from collections.abc import Awaitable, Callable

from cairn.api.rpc.block_tags import Chain
from cairn.api.rpc.dispatch import Handler
from cairn.api.rpc.errors import InvalidParams, MethodNotFound
from cairn.api.rpc.values import Params, check_count, given, parse_account, parse_quantity, quantity
from cairn.domain.types import MAX_UINT64, MAX_UINT256

MOST_MINED = 10_000
"""Blocks that one request makes, in several calls of the core."""
MINED_AT_ONCE = 50
"""In one call of the core, which may take some milliseconds for each."""

_MINED = "0x0"
"""What the others answer to `evm_mine`, whatever happened."""


class DevMethods:
    """Each is as if it were not there on a chain that is no dev chain."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._gateway = chain.gateway

    def methods(self) -> dict[str, Handler]:
        handlers: dict[str, Handler] = {
            "evm_mine": self.mine,
            "anvil_mine": self.mine_many,
            "hardhat_mine": self.mine_many,
            "evm_snapshot": self.snapshot,
            "anvil_snapshot": self.snapshot,
            "evm_revert": self.revert,
            "anvil_revert": self.revert,
            "anvil_setBalance": self.set_balance,
            "hardhat_setBalance": self.set_balance,
            "evm_setAccountBalance": self.set_balance,
            "evm_increaseTime": self.increase_time,
            "anvil_increaseTime": self.increase_time,
            "evm_setNextBlockTimestamp": self.set_next_timestamp,
            "anvil_setNextBlockTimestamp": self.set_next_timestamp,
        }
        return {name: self._on_dev_chains(name, handler) for name, handler in handlers.items()}

    def _on_dev_chains(self, name: str, handler: Handler) -> Callable[[Params], Awaitable[object]]:
        async def guarded(params: Params) -> object:
            if not self._chain.info.signs_for:
                raise MethodNotFound(name)
            return await handler(params)

        return guarded

    async def mine(self, params: Params) -> str:
        """One block; at a time that is given, or as many as an object says."""
        check_count(params, 0, 1)
        options = given(params, 0)
        if not isinstance(options, dict):
            options = {"timestamp": options}
        unknown = options.keys() - {"timestamp", "blocks"}
        if unknown:
            raise InvalidParams(f"options: {min(map(str, unknown))[:80]!a} is neither timestamp nor blocks")
        timestamp, blocks = options.get("timestamp"), options.get("blocks")
        await self._mine(
            1 if blocks is None else parse_number(blocks, "blocks"),
            timestamp=None if timestamp is None else parse_number(timestamp, "timestamp"),
        )
        return _MINED

    async def mine_many(self, params: Params) -> bool:
        check_count(params, 0, 2)
        blocks, interval_s = given(params, 0), given(params, 1)
        await self._mine(
            1 if blocks is None else parse_number(blocks, "blocks"),
            interval_s=0 if interval_s is None else parse_number(interval_s, "interval"),
        )
        return True

    async def _mine(self, blocks: int, interval_s: int = 0, timestamp: int | None = None) -> None:
        if blocks > MOST_MINED:
            raise InvalidParams(f"blocks: {blocks} are more than {MOST_MINED}")
        for done in range(0, blocks, MINED_AT_ONCE):
            if done and interval_s:
                await self._gateway.increase_time(interval_s)
            await self._gateway.mine(min(MINED_AT_ONCE, blocks - done), interval_s, None if done else timestamp)

    async def snapshot(self, params: Params) -> str:
        check_count(params, 0, 0)
        return quantity(await self._gateway.snapshot())

    async def revert(self, params: Params) -> bool:
        check_count(params, 1, 1)
        return await self._gateway.revert(parse_number(params[0], "snapshot"))

    async def set_balance(self, params: Params) -> bool:
        check_count(params, 2, 2)
        await self._gateway.set_balance(
            parse_account(params[0], "address"), parse_number(params[1], "balance", MAX_UINT256)
        )
        return True

    async def increase_time(self, params: Params) -> int:
        """Answers with a plain number, as anvil and ganache do: how far ahead the clock is in all."""
        check_count(params, 1, 1)
        return await self._gateway.increase_time(parse_number(params[0], "seconds"))

    async def set_next_timestamp(self, params: Params) -> None:
        check_count(params, 1, 1)
        await self._gateway.set_next_timestamp(parse_number(params[0], "timestamp"))


def parse_number(value: object, what: str, maximum: int = MAX_UINT64) -> int:
    """A quantity; scripts for these methods also write plain numbers, and decimal digits in a string."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(maximum)):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= maximum:
            raise InvalidParams(f"{what}: {value} is not from 0 to 2^{maximum.bit_length()}-1")
        return value
    return parse_quantity(value, what, maximum)
