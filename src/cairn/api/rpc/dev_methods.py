"""The development methods of anvil, hardhat and ganache, under the names that their tools use. On dev chains only."""

from collections.abc import Mapping

import cairn
from cairn.api.rpc.dispatch import rpc_method
from cairn.api.rpc.objects import Json
from cairn.api.rpc.rpc_chain import MethodGroup
from cairn.api.rpc.values import (
    InvalidParams,
    data,
    parse_account,
    parse_fields,
    parse_flag,
    parse_number,
    quantity,
    refusal,
)
from cairn.core.gateway import MiningMode
from cairn.domain.crypto import keccak256
from cairn.domain.errors import InvalidField
from cairn.domain.types import MAX_UINT256, BlockHash, BlockHeader

MOST_MINED = 10_000
"""Blocks that one request may make, in several calls of the core."""
MINED_AT_ONCE = 50
"""Blocks in one call of the core. Each may take some milliseconds."""

LEAST_INTERVAL_S, MOST_INTERVAL_S = 0.000_001, 86_400
_MINED = "0x0"
"""What other tools always answer to `evm_mine`."""


class DevMethods(MethodGroup):
    @rpc_method("evm_mine")
    async def mine(self, options: object = None) -> str:
        """Make one block. The option is its timestamp, or an object with `timestamp` and `blocks`, how many to make."""
        named = options if isinstance(options, dict) else {"timestamp": options}
        unknown = named.keys() - {"timestamp", "blocks"}
        if unknown:
            raise InvalidParams(f"options: {min(map(str, unknown))[:80]!a} is neither timestamp nor blocks")
        timestamp, blocks = named.get("timestamp"), named.get("blocks")
        await self._mine(
            1 if blocks is None else parse_number(blocks, "blocks"),
            timestamp=None if timestamp is None else parse_number(timestamp, "timestamp"),
        )
        return _MINED

    @rpc_method("anvil_mine", "hardhat_mine")
    async def mine_many(self, blocks: object = None, interval_s: object = None) -> bool:
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

    @rpc_method("evm_snapshot", "anvil_snapshot")
    async def snapshot(self) -> str:
        return quantity(await self._gateway.snapshot())

    @rpc_method("evm_revert", "anvil_revert")
    async def revert(self, snapshot: object) -> bool:
        return await self._gateway.revert(parse_number(snapshot, "snapshot"))

    @rpc_method("anvil_setBalance", "hardhat_setBalance", "evm_setAccountBalance")
    async def set_balance(self, account: object, balance: object) -> bool:
        await self._gateway.set_balance(
            parse_account(account, "address"), parse_number(balance, "balance", MAX_UINT256)
        )
        return True

    @rpc_method("evm_increaseTime", "anvil_increaseTime")
    async def increase_time(self, seconds: object) -> int:
        """Returns by how many seconds the clock is ahead in all; a plain number, as in anvil and ganache."""
        return await self._gateway.increase_time(parse_number(seconds, "seconds"))

    @rpc_method("evm_setNextBlockTimestamp", "anvil_setNextBlockTimestamp")
    async def set_next_timestamp(self, timestamp: object) -> None:
        await self._gateway.set_next_timestamp(parse_number(timestamp, "timestamp"))

    @rpc_method("evm_setAutomine")
    async def set_automine(self, on: object) -> bool:
        """As in hardhat: interval mining continues."""
        return await self._set_automine(on, alone=False)

    @rpc_method("anvil_setAutomine")
    async def set_automine_alone(self, on: object) -> bool:
        """As in anvil: switching automine on ends interval mining."""
        return await self._set_automine(on, alone=True)

    async def _set_automine(self, on: object, alone: bool) -> bool:
        await self._gateway.set_automine(parse_flag(on, "automine"), alone)
        return True

    @rpc_method("anvil_getAutomine", "hardhat_getAutomine")
    async def get_automine(self) -> bool:
        """Whether each submission makes a block at once."""
        return (await self._gateway.mining_mode()).automine == 0

    @rpc_method("evm_setIntervalMining")
    async def set_interval(self, interval: object) -> bool:
        """As in hardhat: the interval is in milliseconds, and automine continues."""
        return await self._set_interval(parse_number(interval, "interval") / 1000, alone=False)

    @rpc_method("anvil_setIntervalMining")
    async def set_interval_alone(self, interval: object) -> bool:
        """As in anvil: the interval is in seconds, and automine ends."""
        return await self._set_interval(parse_number(interval, "interval"), alone=True)

    async def _set_interval(self, seconds: float, alone: bool) -> bool:
        if seconds > MOST_INTERVAL_S:
            raise InvalidParams(f"interval: more than {MOST_INTERVAL_S} s")
        await self._gateway.set_mining_interval(seconds, alone)
        return True

    @rpc_method("cairn_getMiningMode")
    async def get_mining_mode(self) -> Json:
        """Automine and the interval, in seconds between two blocks."""
        mode = await self._gateway.mining_mode()
        return {"automine": mode.automine, "interval": mode.interval}

    @rpc_method("cairn_setMiningMode")
    async def set_mining_mode(self, mode: object) -> bool:
        """Back to an earlier mode. The methods of other tools cannot set automine to the period of `--block-time`."""
        fields = parse_fields(mode, "mining mode", ("automine", "interval"))
        await self._gateway.set_mining_mode(
            MiningMode(_parse_period(fields, "automine"), _parse_period(fields, "interval"))
        )
        return True

    @rpc_method("anvil_impersonateAccount", "hardhat_impersonateAccount")
    async def impersonate(self, account: object) -> None:
        """Does nothing for accounts that the node signs for. Others are refused: the node does not have their keys."""
        address = parse_account(account, "address")
        if address not in self._chain.info.signs_for:
            raise refusal(
                f"no signer available: this node has no key of {data(address)}, and a block holds nothing that its "
                "sender did not sign; anvil_setBalance can move money instead",
                InvalidField.code,
            )

    @rpc_method("anvil_stopImpersonatingAccount", "hardhat_stopImpersonatingAccount")
    async def stop_impersonating(self, account: object) -> None:
        parse_account(account, "address")

    @rpc_method("anvil_nodeInfo")
    async def node_info(self) -> Json:
        """The fields of anvil, by which tools recognise a dev chain."""
        info, (block_hash, header) = self._chain.info, await self._newest()
        return {
            "currentBlockNumber": quantity(header.height),
            "currentBlockTimestamp": header.timestamp,
            "currentBlockHash": data(block_hash),
            "hardFork": "london",
            "transactionOrder": "fees",
            "environment": {
                "baseFee": quantity(info.gas_price),
                "chainId": info.chain_id,
                "gasLimit": quantity(info.block_gas_limit),
                "gasPrice": quantity(info.gas_price),
            },
            "forkConfig": {},
        }

    @rpc_method("hardhat_metadata")
    async def metadata(self) -> Json:
        """The fields of hardhat. `instanceId` differs for every chain, and changes with a revert."""
        info, (block_hash, header) = self._chain.info, await self._newest()
        genesis = self._view.block_hash(self._view.base)
        return {
            "clientVersion": f"Cairn/v{cairn.__version__}",
            "chainId": info.chain_id,
            "instanceId": data(keccak256(genesis + info.reverts.to_bytes(8, "big"))),
            "latestBlockNumber": header.height,
            "latestBlockHash": data(block_hash),
        }

    async def _newest(self) -> tuple[BlockHash, BlockHeader]:
        return self._view.get_header(await self._view.reach_head())


def _parse_period(fields: Mapping[str, object], name: str) -> float | None:
    """Seconds between two blocks; None when there are none to be made."""
    period = fields.get(name)
    if period is None:
        return None
    if isinstance(period, bool) or not isinstance(period, int | float) or not _is_period(period):
        raise InvalidParams(f"{name}: expected null, 0, or seconds from {LEAST_INTERVAL_S:f} to {MOST_INTERVAL_S}")
    return period


def _is_period(seconds: float) -> bool:
    return seconds == 0 or LEAST_INTERVAL_S <= seconds <= MOST_INTERVAL_S
