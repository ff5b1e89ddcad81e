"""The transaction object of `eth_call`, `eth_estimateGas` and `eth_sendTransaction`: a transfer, or a refusal."""

import msgspec

from cairn.api.rpc.rpc_chain import RpcChain
from cairn.api.rpc.values import (
    BlockName,
    InvalidParams,
    RpcError,
    parse_account,
    parse_data,
    parse_fields,
    parse_quantity,
    quantity,
    refusal,
)
from cairn.core.gateway import ChainInfo
from cairn.domain.errors import GasPriceTooLow, GasTooLow, InsufficientFunds, InvalidField
from cairn.domain.rules import check_data
from cairn.domain.transactions import Terms, price_terms, type_not_supported
from cairn.domain.types import (
    ACCESS_LIST,
    DYNAMIC_FEE,
    LEGACY,
    MAX_UINT64,
    MAX_UINT256,
    Address,
    Draft,
    intrinsic_gas,
)

OF_OTHER_TYPES = {"maxFeePerBlobGas": 3, "blobVersionedHashes": 3, "blobs": 3, "authorizationList": 4}
"""Fields of transaction types that are not supported here, with that type."""
PRICES = ("gasPrice", "maxFeePerGas", "maxPriorityFeePerGas")
KNOWN = {
    "from", "to", "value", "gas", "nonce", "chainId", "type", "data", "input", "accessList", *PRICES, *OF_OTHER_TYPES,
}  # fmt: skip
NO_CONTRACTS = "this chain moves coins and has no contracts"
NO_CREATION = f"contract creation is not supported: {NO_CONTRACTS}"


class CallObject(msgspec.Struct, frozen=True):
    sender: Address | None
    to: Address
    value: int
    gas: int | None
    gas_price: int | None
    max_fee: int | None
    max_tip: int | None
    nonce: int | None
    data: bytes

    @property
    def gas_used(self) -> int:
        return intrinsic_gas(self.data)


def parse_call(given: object, info: ChainInfo) -> CallObject:
    """The fields of a transfer. Raises `RpcError` with the reason for anything else, or `DataTooLong`."""
    fields = parse_fields(given, "transaction", KNOWN)

    def number(name: str, maximum: int) -> int | None:
        return parse_quantity(fields[name], name, maximum) if name in fields else None

    named = number("chainId", MAX_UINT256)
    if named is not None and named != info.chain_id:
        raise refusal(f"chainId does not match node's (have={named}, want={info.chain_id})", InvalidField.code)
    if "to" not in fields:
        raise refusal(NO_CREATION, InvalidField.code)
    data = _parse_input(fields)
    check_data(data, info.max_data_bytes)
    gas_price, max_fee, max_tip = (number(name, MAX_UINT256) for name in PRICES)
    if gas_price is not None and not (max_fee is max_tip is None):
        message = "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified"
        raise refusal(message, InvalidField.code)
    return CallObject(
        sender=parse_account(fields["from"], "from") if "from" in fields else None,
        to=parse_account(fields["to"], "to"),
        value=number("value", MAX_UINT256) or 0,
        gas=number("gas", MAX_UINT64),
        gas_price=gas_price,
        max_fee=max_fee,
        max_tip=max_tip,
        nonce=number("nonce", MAX_UINT64),
        data=data,
    )


def _parse_input(fields: dict[str, object]) -> bytes:
    """The data, under its older name or its newer one. As in geth, both may be given if they are the same."""
    given = {parse_data(fields[name], name) for name in ("data", "input") if name in fields}
    if len(given) > 1:
        message = 'both "data" and "input" are set and not equal. Please use "input" to pass transaction call data'
        raise refusal(message, InvalidField.code)
    return given.pop() if given else b""


def type_to_sign(given: object) -> int:
    """The type of the transaction to sign; if it is not given, chosen as in geth. Raises `RpcError`."""
    if not isinstance(given, dict):
        raise InvalidParams("transaction: expected an object")
    for name, meant in OF_OTHER_TYPES.items():
        if given.get(name) not in (None, []):
            raise _refused(type_not_supported(meant))
    if given.get("accessList") not in (None, []):
        raise refusal(f"access lists are not supported: {NO_CONTRACTS}", InvalidField.code)
    named = given.get("type")
    if named is None:
        by_price = LEGACY if given.get("accessList") is None else ACCESS_LIST
        return DYNAMIC_FEE if given.get("gasPrice") is None else by_price
    kind = _parse_type(named)
    if kind > DYNAMIC_FEE:
        raise _refused(type_not_supported(kind))
    return kind


def _parse_type(named: object) -> int:
    """web3.py gives the type as a plain number."""
    if isinstance(named, int) and not isinstance(named, bool) and 0 <= named <= MAX_UINT64:
        return named
    return parse_quantity(named, "type")


def _refused(refused: InvalidField) -> RpcError:
    return refusal(refused.why, refused.code)


def _terms_of(call: CallObject, kind: int, base_fee: int) -> Terms:
    """What it pays. Raises `RpcError` when its prices do not fit its type."""
    try:
        terms = price_terms(kind, call.gas_price, call.max_fee, call.max_tip, base_fee)
    except InvalidField as refused:
        raise _refused(refused) from None
    if terms.max_tip > terms.max_fee:
        message = f"maxFeePerGas ({quantity(terms.max_fee)}) < maxPriorityFeePerGas ({quantity(terms.max_tip)})"
        raise refusal(message, InvalidField.code)
    return terms


def draft_to_sign(call: CallObject, sender: Address, kind: int, base_fee: int) -> Draft:
    """The transfer, its gas and prices filled in. Raises `RpcError` when its prices do not fit its type."""
    terms = _terms_of(call, kind, base_fee)
    gas = call.gas_used if call.gas is None else call.gas
    caps = terms.max_fee, terms.max_tip
    return Draft(sender, call.to, call.value, gas, terms.gas_price, call.nonce, terms.kind, *caps, call.data)


def own_draft(chain: RpcChain, given: object) -> Draft:
    """The transfer to sign of a sender whose key the node holds. Raises `RpcError` for any other."""
    kind = type_to_sign(given)
    info = chain.info
    call = parse_call(given, info)
    return draft_to_sign(call, own_account(chain, call.sender), kind, info.gas_price)


def own_account(chain: RpcChain, address: Address | None) -> Address:
    """The address, if the node holds its key. Raises `RpcError` for any other."""
    if address not in chain.info.signs_for:
        raise refusal("unknown account", InvalidField.code)
    return address


async def check_call(chain: RpcChain, given: object, block: BlockName) -> int:
    """The gas of a transfer that its sender could pay for. Raises `RpcError` or `DataTooLong` for anything else."""
    call = parse_call(given, chain.info)
    gas_used = call.gas_used
    if call.gas is not None and call.gas < gas_used:
        raise refusal(f"intrinsic gas too low: have {call.gas}, want {gas_used}", GasTooLow.code)
    base_fee = chain.info.gas_price
    terms = _terms_of(call, type_to_sign(given), base_fee)
    # Without a price only the value is checked, as in geth: wallets ask before they know a price.
    cap = terms.max_fee if terms.kind == DYNAMIC_FEE else terms.gas_price
    price = cap if call.gas_price or call.max_fee or call.max_tip else 0
    if 0 < price < base_fee:
        message = f"max fee per gas less than block base fee: maxFeePerGas: {price}, baseFee: {base_fee}"
        raise refusal(message, GasPriceTooLow.code)
    height = await chain.state_height(block)
    if call.sender is None:
        return gas_used
    balance = chain.view.account_at(call.sender, height).balance
    if balance < call.value:
        message = f"insufficient funds for transfer: have {balance}, want {call.value}"
        raise refusal(message, InsufficientFunds.code)
    left = balance - call.value
    if price and left < gas_used * price:
        allowance = left // price
        message = f"gas required exceeds allowance ({allowance}): insufficient funds for gas * price + value"
        raise refusal(message, InsufficientFunds.code)
    return gas_used
