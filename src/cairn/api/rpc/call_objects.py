"""The transaction object of `eth_call`, `eth_estimateGas` and `eth_sendTransaction`: a plain transfer, or a refusal."""

import msgspec

from cairn.api.rpc.block_tags import Chain
from cairn.api.rpc.errors import InvalidParams, RpcError, refusal
from cairn.api.rpc.values import BlockName, parse_account, parse_data, parse_quantity
from cairn.domain.errors import GasTooLow, InsufficientFunds, InvalidField
from cairn.domain.types import MAX_UINT64, MAX_UINT256, TRANSFER_GAS, Address

OF_OTHER_TYPES = {
    "accessList": "0x1",
    "maxFeePerGas": "0x2",
    "maxPriorityFeePerGas": "0x2",
    "maxFeePerBlobGas": "0x3",
    "blobVersionedHashes": "0x3",
    "blobs": "0x3",
    "authorizationList": "0x4",
}
"""Fields that only other types of transactions have, with the type that they stand for."""
KNOWN = {"from", "to", "value", "gas", "gasPrice", "nonce", "chainId", "type", "data", "input", *OF_OTHER_TYPES}
NO_CONTRACTS = "this chain moves coins and has no contracts"
NO_CREATION = f"contract creation is not supported: {NO_CONTRACTS}"


class Call(msgspec.Struct, frozen=True):
    sender: Address | None
    to: Address
    value: int
    gas: int | None
    gas_price: int | None
    nonce: int | None


def parse_call(given: object, chain_id: int) -> Call:
    """Raises `RpcError` with the reason when it is no plain transfer."""
    if not isinstance(given, dict):
        raise InvalidParams("transaction: expected an object")
    fields = {name: value for name, value in given.items() if value is not None}
    for name in fields:
        if name not in KNOWN:
            raise InvalidParams(f"transaction: {name[:80]!a} is not a field of a transaction")
    _refuse_data(fields)

    def number(name: str, maximum: int) -> int | None:
        return parse_quantity(fields[name], name, maximum) if name in fields else None

    named = number("chainId", MAX_UINT256)
    if named is not None and named != chain_id:
        raise refusal(f"chainId does not match node's (have={named}, want={chain_id})", InvalidField.code)
    if "to" not in fields:
        raise refusal(NO_CREATION, InvalidField.code)
    return Call(
        sender=parse_account(fields["from"], "from") if "from" in fields else None,
        to=parse_account(fields["to"], "to"),
        value=number("value", MAX_UINT256) or 0,
        gas=number("gas", MAX_UINT64),
        gas_price=number("gasPrice", MAX_UINT256),
        nonce=number("nonce", MAX_UINT64),
    )


def _refuse_data(fields: dict[str, object]) -> None:
    for name in ("data", "input"):
        if name in fields and parse_data(fields[name], name):
            raise refusal(f"calls with data are not supported: {NO_CONTRACTS}", InvalidField.code)


def refuse_other_types(given: object) -> None:
    """For what is to be signed and sent: only legacy transactions are. Raises `RpcError`."""
    if not isinstance(given, dict):
        raise InvalidParams("transaction: expected an object")
    named = _parse_type(given.get("type"))
    if named != 0:
        raise type_not_supported(hex(named))
    for name, meant in OF_OTHER_TYPES.items():
        if given.get(name) not in (None, []):
            raise type_not_supported(meant)


def _parse_type(named: object) -> int:
    """web3.py gives it as a number, and only it."""
    if named is None:
        return 0
    if isinstance(named, int) and not isinstance(named, bool) and 0 <= named <= MAX_UINT64:
        return named
    return parse_quantity(named, "type")


def type_not_supported(named: str) -> RpcError:
    why = "this chain takes legacy (EIP-155) transfers only"
    return refusal(f"transaction type not supported: type {named}; {why}", InvalidField.code)


async def check_call(chain: Chain, given: object, block: BlockName) -> None:
    """Raises `RpcError` when it is no plain transfer, or its sender could not pay for it."""
    call = parse_call(given, chain.info.chain_id)
    if call.gas is not None and call.gas < TRANSFER_GAS:
        raise refusal(f"intrinsic gas too low: have {call.gas}, want {TRANSFER_GAS}", GasTooLow.code)
    height = await chain.state_height(block)
    if call.sender is None:
        return
    balance = chain.view.account_at(call.sender, height).balance
    if balance < call.value:
        message = f"insufficient funds for transfer: have {balance}, want {call.value}"
        raise refusal(message, InsufficientFunds.code)
    left = balance - call.value
    # Without a price geth looks at the value alone, and so do wallets that ask before they know one.
    if call.gas_price and left < TRANSFER_GAS * call.gas_price:
        allowance = left // call.gas_price
        message = f"gas required exceeds allowance ({allowance}): insufficient funds for gas * price + value"
        raise refusal(message, InsufficientFunds.code)
