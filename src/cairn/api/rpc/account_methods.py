"""Balances and nonces of accounts, and the methods for contracts, of which this chain has none."""

import re

from cairn.api.rpc.block_tags import RpcChain
from cairn.api.rpc.call_objects import check_call
from cairn.api.rpc.dispatch import Method
from cairn.api.rpc.errors import SERVER_ERROR, InvalidParams, RpcError, rpc_error_of
from cairn.api.rpc.values import (
    data,
    parse_account,
    parse_block,
    quantity,
)
from cairn.domain.errors import Rejected, Unavailable
from cairn.domain.types import TRANSFER_GAS

MAX_KEY_DIGITS = 64
NO_PROOFS = (
    "account proofs are not supported: the state root is no Merkle tree of accounts; "
    "GET /tx/{hash}/proof proves that a block holds a transaction"
)
_KEY = re.compile(r"(0[xX])?([0-9a-fA-F]*)")


class StateMethods:
    def __init__(self, chain: RpcChain) -> None:
        self._chain = chain

    def methods(self) -> dict[str, Method]:
        return {
            "eth_getBalance": self.get_balance,
            "eth_getTransactionCount": self.get_transaction_count,
            "eth_getCode": self.get_code,
            "eth_getStorageAt": self.get_storage_at,
            "eth_call": self.call,
            "eth_estimateGas": self.estimate_gas,
            "eth_getProof": self.get_proof,
        }

    async def get_balance(self, account: object, block: object = None) -> str:
        address, named = parse_account(account, "address"), parse_block(block, "block")
        return quantity((await self._chain.account(address, named)).balance)

    async def get_transaction_count(self, account: object, block: object = None) -> str:
        address, named = parse_account(account, "address"), parse_block(block, "block")
        if named.tag == "pending":
            pending = await self._chain.gateway.next_nonce(address)
            # The account may be newer than the answer about the mempool, never the other way round.
            return quantity(max(pending, (await self._chain.account(address, named)).nonce))
        return quantity((await self._chain.account(address, named)).nonce)

    async def get_code(self, account: object, block: object = None) -> str:
        parse_account(account, "address")
        await self._chain.state_height(parse_block(block, "block"))
        return "0x"

    async def get_storage_at(self, account: object, key: object, block: object = None) -> str:
        parse_account(account, "address")
        check_storage_key(key)
        await self._chain.state_height(parse_block(block, "block"))
        return data(bytes(32))

    async def get_proof(self, account: object, keys: object, block: object = None) -> object:
        parse_account(account, "address")
        raise RpcError(SERVER_ERROR, NO_PROOFS)

    async def call(self, transfer: object, block: object = None, state: object = None, header: object = None) -> str:
        """Returns no data when the sender could pay for the transfer."""
        await self._check(transfer, block, state, header)
        return "0x"

    async def estimate_gas(
        self, transfer: object, block: object = None, state: object = None, header: object = None
    ) -> str:
        await self._check(transfer, block, state, header)
        return quantity(TRANSFER_GAS)

    async def _check(self, transfer: object, block: object, *overrides: object) -> None:
        if any(overrides):
            raise RpcError(SERVER_ERROR, "overrides of the state or the block are not supported")
        try:
            await check_call(self._chain, transfer, parse_block(block, "block"))
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
