"""Balances and nonces of accounts, what a transfer costs, and the methods for contracts, of which there are none."""

import re
from typing import Any

from cairn.api.chain_reads import AnswerCache, CommonWork, reverted_meanwhile
from cairn.api.rpc.call_objects import check_call
from cairn.api.rpc.dispatch import Later, rpc_method
from cairn.api.rpc.rpc_chain import MethodGroup, RpcChain
from cairn.api.rpc.values import (
    MAX_SHOWN,
    SERVER_ERROR,
    BlockName,
    InvalidParams,
    RpcError,
    data,
    parse_account,
    parse_block,
    parse_block_number,
    parse_number,
    quantity,
    rpc_error_of,
)
from cairn.domain.errors import Rejected, Unavailable
from cairn.domain.transactions import price_in_record
from cairn.domain.types import TRANSFER_GAS, Address, BlockHash, BlockHeader

MAX_KEY_DIGITS = 64
NO_PROOFS = (
    "proofs of Ethereum's state trie are not supported: this chain's state root is another Merkle tree; "
    "GET /account/{address}/proof proves an account, by signatures that genesis.json alone checks"
)
MAX_BLOCKS = 1_024
MAX_REWARDED_BLOCKS = 64
"""The limit with reward percentiles, for which full blocks are read. The answer names its first block."""
MAX_PERCENTILES = 100
LEAST_TIPS_BYTES = 256 * 1024
_KEY = re.compile(r"(0[xX])?([0-9a-fA-F]*)")


class AccountMethods(MethodGroup):
    @rpc_method("eth_getBalance")
    def get_balance(self, account: object, block: object = None) -> object:
        address, named = parse_account(account, "address"), parse_block(block, "block")
        return self._chain.at_state(named, lambda height: quantity(self._view.account_at(address, height).balance))

    @rpc_method("eth_getTransactionCount")
    def get_transaction_count(self, account: object, block: object = None) -> object:
        address, named = parse_account(account, "address"), parse_block(block, "block")
        if named.tag != "pending":
            return self._chain.at_state(named, lambda height: quantity(self._view.account_at(address, height).nonce))
        # Looked at before: the account may be newer than the mempool's nonce, never the other way round.
        pending = self._chain.nonces.find(address, self._view.board.changes_of(address))
        if pending is None or not self._view.is_at_head():
            return Later(self._next_nonce, address)
        return quantity(max(pending, self._view.account(address).nonce))

    async def _next_nonce(self, address: Address) -> str:
        pending = await self._chain.nonces.ask(address)
        return quantity(max(pending, self._view.account_at(address, await self._view.reach_head()).nonce))

    @rpc_method("eth_getCode")
    def get_code(self, account: object, block: object = None) -> object:
        parse_account(account, "address")
        return self._chain.at_state(parse_block(block, "block"), lambda height: "0x")

    @rpc_method("eth_getStorageAt")
    def get_storage_at(self, account: object, key: object, block: object = None) -> object:
        parse_account(account, "address")
        check_storage_key(key)
        return self._chain.at_state(parse_block(block, "block"), lambda height: data(bytes(32)))

    @rpc_method("eth_getProof")
    def get_proof(self, account: object, keys: object, block: object = None) -> object:
        parse_account(account, "address")
        raise RpcError(SERVER_ERROR, NO_PROOFS)

    @rpc_method("eth_call")
    async def call(self, transfer: object, block: object = None, state: object = None, header: object = None) -> str:
        """Returns nothing when the sender could pay for the transfer: no address has code."""
        await self._check(transfer, block, state, header)
        return "0x"

    @rpc_method("eth_estimateGas")
    async def estimate_gas(
        self, transfer: object, block: object = None, state: object = None, header: object = None
    ) -> str:
        return quantity(await self._check(transfer, block, state, header))

    async def _check(self, transfer: object, block: object, *overrides: object) -> int:
        if any(overrides):
            raise RpcError(SERVER_ERROR, "overrides of the state or the block are not supported")
        try:
            return await check_call(self._chain, transfer, parse_block(block, "block"))
        except RpcError as refused:
            raise without_data(refused) from None
        except (Rejected, Unavailable) as refused:
            raise without_data(rpc_error_of(refused)) from None


def without_data(refused: RpcError) -> RpcError:
    """The error without `data`, which web3.py would read as a contract's revert."""
    return RpcError(refused.code, refused.message)


def check_storage_key(value: object) -> None:
    """A quantity, or up to 32 bytes, as in geth. Raises `RpcError`."""
    if not isinstance(value, str):
        raise InvalidParams("invalid argument 1: expected a storage key in a string")
    key = _KEY.fullmatch(value)
    if key is None:
        raise RpcError(SERVER_ERROR, "unable to decode storage key: hex string invalid")
    if len(key[2]) > MAX_KEY_DIGITS:
        raise RpcError(SERVER_ERROR, "unable to decode storage key: hex string too long, want at most 32 bytes")


class FeeMethods(MethodGroup):
    """The base fee, which is the same in every block, and tips."""

    def __init__(self, chain: RpcChain) -> None:
        super().__init__(chain)
        self._least_tips = AnswerCache(LEAST_TIPS_BYTES)
        """Of full blocks, by block hash."""
        self._reading = CommonWork()

    @rpc_method("eth_gasPrice")
    def gas_price(self) -> str:
        return quantity(self._chain.info.gas_price)

    @rpc_method("eth_maxPriorityFeePerGas")
    def max_priority_fee_per_gas(self) -> str:
        """No tip is needed: the base fee never rises, and a tip only moves a transfer ahead in the mining order."""
        return "0x0"

    @rpc_method("eth_blobBaseFee")
    def blob_base_fee(self) -> str:
        return "0x0"

    @rpc_method("eth_feeHistory")
    async def fee_history(self, blocks: object, newest_block: object, rewards: object = None) -> dict[str, Any]:
        count, percentiles = parse_number(blocks, "block count"), _parse_percentiles(rewards)
        newest = await self._find_newest(parse_block_number(newest_block, "newest block"))
        count = min(count, MAX_REWARDED_BLOCKS if percentiles else MAX_BLOCKS, newest - self._view.base + 1)
        if count == 0:
            return {"oldestBlock": "0x0", "gasUsedRatio": []}
        fullness: list[float] = []
        rewards_shown: list[list[str]] = []
        async for height in self._view.in_slices(range(newest - count + 1, newest + 1)):
            block_hash, header = self._view.get_header(height)
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
        """The height of the block that a fee history ends with. Raises `RpcError` or `BlockNotFound`."""
        height = await self._chain.find_height(block)
        head = self._view.height
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
            reverts = self._view.reverts
            prices = await self._reading.do(
                block_hash, lambda: map(price_in_record, self._view.tx_records(header.height))
            )
            if self._view.reverts != reverts:
                # Some may be of a block that took its place.
                raise reverted_meanwhile()
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
