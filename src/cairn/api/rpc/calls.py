"""The transaction object of `eth_call`, `eth_estimateGas` and `eth_sendTransaction`: a plain transfer, or a refusal."""

import msgspec

from cairn.api.rpc.chain import Chain
from cairn.api.rpc.errors import SERVER_ERROR, InvalidParams, RpcError
from cairn.api.rpc.values import BlockName, parse_account, parse_data, parse_quantity
from cairn.domain.types import MAX_UINT64, MAX_UINT256, Address

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
    if "chainId" in fields and parse_quantity(fields["chainId"], "chainId", MAX_UINT256) != chain_id:
        raise RpcError(SERVER_ERROR, f"chainId does not match node's (have={fields['chainId']}, want={chain_id})")
    if "to" not in fields:
        raise RpcError(SERVER_ERROR, f"contract creation is not supported: {NO_CONTRACTS}")

    def number(name: str, maximum: int) -> int | None:
        return parse_quantity(fields[name], name, maximum) if name in fields else None

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
            raise RpcError(SERVER_ERROR, f"calls with data are not supported: {NO_CONTRACTS}")


def refuse_other_types(given: object) -> None:
    """For what is to be signed and sent: only legacy transactions are. Raises `RpcError`."""
    if not isinstance(given, dict):
        raise InvalidParams("transaction: expected an object")
    named = given.get("type")
    if named is not None and parse_quantity(named, "type") != 0:
        raise type_not_supported(str(named))
    for name, meant in OF_OTHER_TYPES.items():
        if given.get(name) not in (None, []):
            raise type_not_supported(meant)


def type_not_supported(named: str) -> RpcError:
    return RpcError(
        SERVER_ERROR,
        f"transaction type not supported: type {named[:20]}; this chain takes legacy (EIP-155) transfers only",
        {"code": "INVALID_FIELD"},
    )


async def check_call(chain: Chain, given: object, block: BlockName) -> None:
    """Raises `RpcError` when it is no plain transfer, or its sender could not pay for it."""
    call = parse_call(given, chain.info.chain_id)
    height = await chain.state_height(block)
    if call.sender is not None and call.value:
        balance = chain.view.account_at(call.sender, height).balance
        if balance < call.value:
            raise RpcError(
                SERVER_ERROR, f"insufficient funds for transfer: have {balance}, want {call.value}",
                {"code": "INSUFFICIENT_FUNDS"},
            )  # fmt: skip
