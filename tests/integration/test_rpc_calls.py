"""`eth_call` and `eth_estimateGas`: for transfers only, and refused where the transaction would be."""

from typing import Any

import pytest

from cairn.domain.types import MAX_UINT256
from tests.support.core_fixtures import GWEI
from tests.support.rest_node import RestNode
from tests.support.rpc_node import FEE, FULL, NOBODY, RECIPIENT, SENDER, answer_of, call, refusal


async def test_methods_for_contracts_answer_that_there_are_none(node: RestNode) -> None:
    transfer = {"from": SENDER, "to": RECIPIENT, "value": "0x1"}
    assert await call(node, "eth_getCode", RECIPIENT) == "0x"
    assert await call(node, "eth_call", transfer, "latest") == "0x"
    assert await call(node, "eth_estimateGas", transfer | {"data": "0x", "maxFeePerGas": hex(GWEI)}) == "0x5208"
    for method in ("eth_call", "eth_estimateGas"):
        _, message = await refusal(node, method, {"from": SENDER})
        assert message.startswith("contract creation is not supported")
        code, message = await refusal(node, method, transfer | {"value": hex(MAX_UINT256)})
        assert code == -32000
        assert message.startswith("insufficient funds for transfer")
        code, message = await refusal(node, method, transfer | {"gas": "0x5207"})
        assert (code, message) == (-32000, "intrinsic gas too low: have 20999, want 21000")
    _, message = await refusal(node, "eth_call", transfer, "latest", {SENDER: {"balance": "0x0"}})
    assert message.startswith("overrides")
    assert await call(node, "eth_getLogs", {"fromBlock": "earliest"}) == []


@pytest.mark.parametrize(
    ("fields", "gas"),
    [
        ({"data": "0x00ff"}, 21_020),
        ({"input": "0x" + b"invoice 4711".hex()}, 21_192),
        ({"input": "0x" + "00" * 256}, 22_024),
        ({"data": "0x" + "Ff" * 256, "input": "0x" + "ff" * 256}, 25_096),
        ({"data": "0x", "input": None}, 21_000),
        # What a contract would be called with is a reference like any other, and nothing answers it.
        ({"data": "0x70a08231" + "00" * 32}, 21_192),
    ],
)
async def test_data_costs_what_it_costs_on_ethereum(node: RestNode, fields: dict[str, Any], gas: int) -> None:
    transfer = {"from": SENDER, "to": RECIPIENT, "value": "0x1"} | fields
    assert await call(node, "eth_estimateGas", transfer) == hex(gas)
    assert await call(node, "eth_call", transfer) == "0x"
    # The limit and the balance must cover it.
    assert await call(node, "eth_estimateGas", transfer | {"gas": hex(gas)}) == hex(gas)
    refused = await refusal(node, "eth_estimateGas", transfer | {"gas": hex(gas - 1)})
    assert refused == (-32000, f"intrinsic gas too low: have {gas - 1}, want {gas}")
    priced = transfer | {"gasPrice": hex(GWEI)}
    assert await call(node, "eth_estimateGas", priced | {"value": hex(FULL - gas * GWEI)}) == hex(gas)
    _, message = await refusal(node, "eth_estimateGas", priced | {"value": hex(FULL - gas * GWEI + 1)})
    assert message.startswith(f"gas required exceeds allowance ({gas - 1})")


@pytest.mark.parametrize("method", ["eth_call", "eth_estimateGas", "eth_sendTransaction", "eth_signTransaction"])
async def test_data_that_is_too_long_or_ambiguous_is_refused(node: RestNode, method: str) -> None:
    transfer = {"from": SENDER, "to": RECIPIENT, "value": "0x1"}
    code, message = await refusal(node, method, transfer | {"data": "0x" + "01" * 257})
    assert (code, message) == (-32000, "oversized data: the data has 257 bytes; this chain takes 256 at most")
    code, message = await refusal(node, method, transfer | {"data": "0x01", "input": "0x02"})
    assert (code, message[:46]) == (-32000, 'both "data" and "input" are set and not equal.')
    for malformed in ("0x1", "01", "0xzz", 1):
        assert (await refusal(node, method, transfer | {"input": malformed}))[0] == -32602


async def test_an_estimate_is_refused_for_a_sender_who_cannot_pay(node: RestNode) -> None:
    transfer = {"from": SENDER, "to": RECIPIENT, "gasPrice": hex(GWEI)}
    for method in ("eth_call", "eth_estimateGas"):
        await call(node, method, transfer | {"value": hex(FULL - FEE)})
        code, message = await refusal(node, method, transfer | {"value": hex(FULL - FEE + 1)})
        assert code == -32000
        assert message.startswith("gas required exceeds allowance (20999)")
        _, message = await refusal(node, method, transfer | {"from": NOBODY, "value": "0x0"})
        assert message.startswith("gas required exceeds allowance (0)")
    assert await call(node, "eth_estimateGas", {"from": SENDER, "to": RECIPIENT, "value": hex(FULL)}) == "0x5208"
    # Of type 2, the highest price counts, whatever it would pay.
    capped = {"from": SENDER, "to": RECIPIENT, "maxFeePerGas": hex(3 * GWEI), "maxPriorityFeePerGas": "0x0"}
    await call(node, "eth_estimateGas", capped | {"value": hex(FULL - 3 * FEE)})
    _, message = await refusal(node, "eth_estimateGas", capped | {"value": hex(FULL - 3 * FEE + 1)})
    assert message.startswith("gas required exceeds allowance (20999)")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gasPrice": "0x1"}, "max fee per gas less than block base fee: maxFeePerGas: 1, baseFee: 1000000000"),
        ({"maxFeePerGas": "0x1"}, "max fee per gas less than block base fee: maxFeePerGas: 1, baseFee: 1000000000"),
        ({"maxFeePerGas": hex(GWEI), "maxPriorityFeePerGas": hex(GWEI + 1)}, "maxFeePerGas (0x3b9aca00) < "),
        ({"maxFeePerGas": "0x0", "maxPriorityFeePerGas": "0x1"}, "maxFeePerGas (0x0) < maxPriorityFeePerGas (0x1)"),
        ({"type": "0x0", "maxFeePerGas": hex(GWEI)}, "a transaction of type 0 has no maxFeePerGas"),
        ({"type": "0x1", "maxPriorityFeePerGas": "0x0"}, "a transaction of type 1 has no maxPriorityFeePerGas"),
        ({"type": "0x3"}, "transaction type not supported: type 0x3"),
        ({"accessList": [{"address": RECIPIENT, "storageKeys": []}]}, "access lists are not supported"),
    ],
)
async def test_a_call_is_refused_where_the_transaction_would_be(
    node: RestNode, fields: dict[str, Any], message: str
) -> None:
    transfer = {"from": SENDER, "to": RECIPIENT, "value": "0x1"}
    for method in ("eth_call", "eth_estimateGas"):
        code, said = await refusal(node, method, transfer | fields)
        assert code == -32000
        assert said.startswith(message)


async def test_a_call_without_a_price_needs_funds_for_its_value_only(node: RestNode) -> None:
    """Wallets ask before they know a price; some then write 0."""
    transfer = {"from": SENDER, "to": RECIPIENT, "value": hex(FULL)}
    for fields in (
        {},
        {"gasPrice": "0x0"},
        {"maxFeePerGas": "0x0", "maxPriorityFeePerGas": "0x0"},
        {"type": "0x1"},
    ):
        assert await call(node, "eth_estimateGas", transfer | fields) == "0x5208"


async def test_no_refusal_of_a_call_looks_like_a_contracts_revert(node: RestNode) -> None:
    transfer = {"from": SENDER, "to": RECIPIENT, "value": "0x1"}
    refused = (
        [transfer | {"value": hex(MAX_UINT256)}],
        [transfer | {"gas": "0x1"}],
        [transfer | {"data": "0x" + "01" * 257}],
        [transfer | {"chainId": "0x1"}],
        [{"from": SENDER}],
        [transfer, "0x99"],
    )
    for method in ("eth_call", "eth_estimateGas"):
        for params in refused:
            error = (await answer_of(node, method, *params))["error"]
            assert error["code"] == -32000
            assert "data" not in error
