"""The checks of one transaction, at and beside each bound."""

import msgspec
import pytest

from cairn.domain.errors import GasPriceTooLow, GasTooHigh, GasTooLow, NonceTooHigh
from cairn.domain.rules import validate_tx
from cairn.domain.types import DYNAMIC_FEE, MAX_UINT64, MAX_UINT256, ZERO_ADDRESS, Rules, Tx, TxHash

RULES = Rules(chain_id=1337, gas_price=10, block_gas_limit=42_000)


def tx_with(gas: int = 21_000, gas_price: int = 10, nonce: int = 3, value: int = 5) -> Tx:
    return Tx(TxHash(bytes(32)), ZERO_ADDRESS, ZERO_ADDRESS, nonce, gas, gas_price, value, bytes(65))


@pytest.mark.parametrize("gas", [21_000, 42_000])
@pytest.mark.parametrize("gas_price", [10, MAX_UINT256])
@pytest.mark.parametrize("nonce", [0, MAX_UINT64 - 1])
def test_gas_price_and_nonce_at_their_bounds_are_accepted(gas: int, gas_price: int, nonce: int) -> None:
    validate_tx(tx_with(gas=gas, gas_price=gas_price, nonce=nonce), RULES)


def test_gas_below_21_000_is_refused() -> None:
    with pytest.raises(GasTooLow, match="gas is 20999; a transfer takes 21000"):
        validate_tx(tx_with(gas=20_999), RULES)


def test_gas_above_the_block_gas_limit_is_refused() -> None:
    with pytest.raises(GasTooHigh, match="gas is 42001; a block has 42000"):
        validate_tx(tx_with(gas=42_001), RULES)


def test_a_gas_price_below_the_chains_is_refused() -> None:
    with pytest.raises(GasPriceTooLow, match="gasPrice is 9; this chain takes 10 or more"):
        validate_tx(tx_with(gas_price=9), RULES)


def test_a_max_fee_below_the_base_fee_is_refused() -> None:
    tx = msgspec.structs.replace(tx_with(gas_price=9), kind=DYNAMIC_FEE, max_fee=9, max_tip=2)
    with pytest.raises(GasPriceTooLow, match=r"max fee per gas less than .*: maxFeePerGas: 9, baseFee: 10$"):
        validate_tx(tx, RULES)


def test_the_largest_64_bit_nonce_is_refused() -> None:
    with pytest.raises(NonceTooHigh, match=str(MAX_UINT64)):
        validate_tx(tx_with(nonce=MAX_UINT64), RULES)
