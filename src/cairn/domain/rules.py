"""What a transaction must satisfy: by itself, and against its sender's account."""

from cairn.domain.errors import GasPriceTooLow, GasTooHigh, GasTooLow, InsufficientFunds, NonceTooHigh, NonceTooLow
from cairn.domain.types import MAX_UINT64, TRANSFER_GAS, Account, Rules, Tx


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


def check_tx(account: Account, tx: Tx) -> None:
    """Check `tx` against its sender's confirmed account. Raises `NonceTooLow` or `InsufficientFunds`."""
    if tx.nonce < account.nonce:
        raise NonceTooLow(f"nonce is {tx.nonce}; the account's next one is {account.nonce}")
    if account.balance < tx.cost:
        raise InsufficientFunds(f"the transfer costs {tx.cost} with its fee; the account holds {account.balance}")
