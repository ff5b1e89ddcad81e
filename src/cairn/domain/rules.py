"""What a transaction must satisfy by itself."""

from cairn.domain.errors import GasPriceTooLow, GasTooHigh, GasTooLow, NonceTooHigh
from cairn.domain.types import MAX_UINT64, TRANSFER_GAS, Rules, Tx


def validate_tx(tx: Tx, rules: Rules) -> None:
    """Check `tx` against the chain's parameters. Needs no state; raises `TxRejected`."""
    if tx.gas < TRANSFER_GAS:
        raise GasTooLow(f"gas is {tx.gas}; a transfer takes {TRANSFER_GAS}")
    if tx.gas > rules.block_gas_limit:
        raise GasTooHigh(f"gas is {tx.gas}; a block has {rules.block_gas_limit}")
    if tx.gas_price < rules.gas_price:
        raise GasPriceTooLow(f"gasPrice is {tx.gas_price}; this chain takes {rules.gas_price} or more")
    # The account's nonce after it must still fit 64 bits (EIP-2681).
    if tx.nonce >= MAX_UINT64:
        raise NonceTooHigh(f"nonce is {tx.nonce}; the last one is {MAX_UINT64 - 1}")
