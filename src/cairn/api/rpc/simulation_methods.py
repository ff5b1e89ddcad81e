"""`eth_simulateV1`: tries transfers in blocks that would follow an existing one. Nothing is stored."""

import msgspec

from cairn.api.chain_view import ChainView
from cairn.api.rpc.call_objects import draft_to_sign, parse_call, type_to_sign
from cairn.api.rpc.caller import current_caller
from cairn.api.rpc.dispatch import rpc_method
from cairn.api.rpc.objects import BlockPlace, Json, block_object, transaction_object, transfer_log
from cairn.api.rpc.rpc_chain import MethodGroup
from cairn.api.rpc.values import (
    LIMIT_EXCEEDED,
    InvalidParams,
    RpcError,
    data,
    parse_account,
    parse_block,
    parse_fields,
    parse_flag,
    parse_list,
    parse_quantity,
    quantity,
    rpc_error_of,
)
from cairn.core.gateway import ChainInfo
from cairn.domain import errors
from cairn.domain.errors import InvalidBlock, NodeError, TxRejected
from cairn.domain.headers import block_hash
from cairn.domain.merkle import EMPTY_ROOT, tx_root
from cairn.domain.transactions import unsigned_tx
from cairn.domain.transition import Ledger
from cairn.domain.types import (
    MAX_UINT64,
    MAX_UINT256,
    ZERO_ADDRESS,
    ZERO_HASH,
    Account,
    Address,
    BlockHash,
    BlockHeader,
    Rules,
    Tx,
)
from cairn.time_shares import in_slices

MOST_BLOCKS = 16
MOST_ITEMS = 250
"""Transfers and overridden accounts in all blocks of a simulation together."""
FLAGS = ("validation", "traceTransfers", "returnFullTransactions")
PARTS = ("blockOverrides", "stateOverrides", "calls")
BLOCK_FIELDS = ("time", "gasLimit", "feeRecipient", "baseFeePerGas")
CODES: dict[type[NodeError], int] = {
    errors.NonceTooLow: -38010,
    errors.NonceTooHigh: -38011,
    errors.GasPriceTooLow: -38012,
    errors.GasTooLow: -38013,
    errors.InsufficientFunds: -38014,
    errors.GasTooHigh: -38015,
}
"""geth's codes for refused transfers, in this method only. Its other codes follow."""
BLOCK_FULL, TIME_NOT_IN_ORDER, TOO_MANY = -38015, -38021, -38026


class SimulationMethods(MethodGroup):
    @rpc_method("eth_simulateV1")
    async def simulate(self, simulation: object, block: object = None) -> list[Json]:
        asked = parse_fields(simulation, "simulation", ("blockStateCalls", *FLAGS))
        is_strict, traces, full = (parse_flag(asked.get(name), name) for name in FLAGS)
        blocks = [parse_fields(each, "block", PARTS) for each in parse_list(asked, "blockStateCalls")]
        if not blocks:
            raise InvalidParams("empty input")
        if len(blocks) > MOST_BLOCKS:
            raise RpcError(TOO_MANY, "too many blocks")
        items = sum(map(count_items, blocks))
        if items > MOST_ITEMS:
            raise RpcError(TOO_MANY, "too many transfers or overridden accounts")
        # The call itself is counted already.
        if items > 1 and not current_caller.get().may_do(items - 1):
            message = f"limit exceeded: this simulation counts as {items} calls; slow down, or try fewer transfers"
            raise RpcError(LIMIT_EXCEEDED, message)
        height = await self._chain.state_height(parse_block(block, "block"))
        state = TriedState(self._view, height)
        parent_hash, parent = self._view.get_header(height)
        # As in geth: without validation a transfer costs no fee, unless the caller names a base fee.
        base_fee = parent.base_fee if is_strict else 0
        shown: list[Json] = []
        async for asked_block in self._view.in_slices(blocks):
            state.override(asked_block)
            header = next_header(parent_hash, parent, asked_block, base_fee)
            txs = await state.try_calls(asked_block, header, self._chain.info, is_strict)
            root, gas_used = tx_root([tx.hash for tx in txs]), sum(tx.gas_used for tx in txs)
            parent = msgspec.structs.replace(header, tx_root=root, gas_used=gas_used, tx_count=len(txs))
            parent_hash = block_hash(parent)
            shown.append(await simulated_block(parent_hash, parent, txs, traces, full))
        return shown


def count_items(block: Json) -> int:
    return len(parse_list(block, "calls")) + len(parse_fields(block.get("stateOverrides"), "state overrides"))


def named_number(fields: Json, name: str, otherwise: int, maximum: int = MAX_UINT64) -> int:
    return parse_quantity(fields[name], name, maximum) if name in fields else otherwise


def next_header(parent_hash: BlockHash, parent: BlockHeader, block: Json, base_fee: int) -> BlockHeader:
    """The header before its transactions are known. Roots of the state stay zero: only real blocks have them."""
    named = parse_fields(block.get("blockOverrides"), "block override", BLOCK_FIELDS)
    timestamp = named_number(named, "time", parent.timestamp + 1)
    if not parent.timestamp < timestamp <= MAX_UINT64:
        raise RpcError(TIME_NOT_IN_ORDER, f"block timestamps must be in order: {timestamp} <= {parent.timestamp}")
    return BlockHeader(
        height=parent.height + 1,
        previous_hash=parent_hash,
        timestamp=timestamp,
        tx_root=EMPTY_ROOT,
        changes_root=ZERO_HASH,
        state_root=ZERO_HASH,
        history_root=ZERO_HASH,
        gas_used=0,
        proposer=parse_account(named["feeRecipient"], "feeRecipient") if "feeRecipient" in named else parent.proposer,
        chain_id=parent.chain_id,
        gas_limit=named_number(named, "gasLimit", parent.gas_limit),
        base_fee=named_number(named, "baseFeePerGas", base_fee, MAX_UINT256),
        tx_count=0,
    )


class TriedState:
    """The accounts after a block, with the overrides and the tried transfers applied."""

    def __init__(self, view: ChainView, height: int) -> None:
        self._view = view
        self._height = height
        self._accounts: dict[Address, Account] = {}

    def account(self, address: Address) -> Account:
        return self._accounts.get(address) or self._view.account_at(address, self._height)

    def override(self, block: Json) -> None:
        for name, value in parse_fields(block.get("stateOverrides"), "state overrides").items():
            address = parse_account(name, "state overrides")
            fields, before = parse_fields(value, "state override", ("balance", "nonce")), self.account(address)
            balance = named_number(fields, "balance", before.balance, MAX_UINT256)
            self._accounts[address] = Account(balance, named_number(fields, "nonce", before.nonce))

    async def try_calls(self, block: Json, header: BlockHeader, info: ChainInfo, is_strict: bool) -> list[Tx]:
        """Try the block's transfers in order. Raises `RpcError` for one that the block could not include."""
        ledger = Ledger(self, Rules(header.chain_id, header.base_fee, header.gas_limit))
        txs: list[Tx] = []
        async for call in self._view.in_slices(parse_list(block, "calls")):
            tx = transfer_of(call, ledger, header, info, is_strict)
            try:
                ledger.apply(tx)
            except InvalidBlock:
                raise RpcError(BLOCK_FULL, f"block gas limit reached: {header.gas_limit}") from None
            except TxRejected as refused:
                raise RpcError(CODES[type(refused)], rpc_error_of(refused).message) from None
            txs.append(tx)
        self._accounts.update((address, after) for address, _, after in ledger.close(header.proposer))
        return txs


def transfer_of(given: object, ledger: Ledger, header: BlockHeader, info: ChainInfo, is_strict: bool) -> Tx:
    """The transaction of a call. Without a price it pays the base fee. Without validation, a given nonce is ignored."""
    kind, call = type_to_sign(given), parse_call(given, info)
    sender = call.sender or ZERO_ADDRESS
    draft = draft_to_sign(call, sender, kind, header.base_fee)
    if call.nonce is None or not is_strict:
        draft = msgspec.structs.replace(draft, nonce=ledger.account(sender).nonce)
    return unsigned_tx(draft, header.chain_id)


async def simulated_block(own_hash: BlockHash, header: BlockHeader, txs: list[Tx], traces: bool, full: bool) -> Json:
    calls, shown, logged = [], [], 0
    async for position, tx in in_slices(enumerate(txs)):
        place = BlockPlace(own_hash, header.height, header.timestamp, position)
        logs = [transfer_log(tx, place, logged)] if traces and tx.value else []
        logged += len(logs)
        gas = quantity(tx.gas_used)
        calls.append({"returnData": "0x", "logs": logs, "gasUsed": gas, "maxUsedGas": gas, "status": "0x1"})
        shown.append(transaction_object(tx, header.chain_id, place) if full else data(tx.hash))
    return block_object(own_hash, header, shown) | {"calls": calls}
