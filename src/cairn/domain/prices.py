"""What a transaction pays for gas: the price fields of each type."""

from typing import NamedTuple

from cairn.domain.errors import InvalidField
from cairn.domain.types import DYNAMIC_FEE, LEGACY


def effective_price(max_fee: int, max_tip: int, base_fee: int) -> int:
    """What a type 2 transaction pays for a unit of gas (EIP-1559)."""
    return min(max_fee, base_fee + max_tip)


class Terms(NamedTuple):
    """The price fields of a `Draft`."""

    gas_price: int
    kind: int
    max_fee: int = 0
    max_tip: int = 0


def price_terms(
    kind: int | None, gas_price: int | None, max_fee: int | None, max_tip: int | None, base_fee: int
) -> Terms:
    """The terms of a transaction that gives those fields that are not None.

    A missing price means the chain's gas price, a missing tip 0. Raises `InvalidField`.
    """
    if kind is None:
        kind = LEGACY if max_fee is None and max_tip is None else DYNAMIC_FEE
    if kind == DYNAMIC_FEE:
        if gas_price is not None:
            raise InvalidField("gasPrice", "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified")
        tip = max_tip or 0
        fee = base_fee + tip if max_fee is None else max_fee
        return Terms(effective_price(fee, tip, base_fee), kind, fee, tip)
    if max_fee is not None or max_tip is not None:
        field = "maxPriorityFeePerGas" if max_fee is None else "maxFeePerGas"
        raise InvalidField(field, f"a transaction of type {kind} has no {field}")
    return Terms(base_fee if gas_price is None else gas_price, kind)


def check_caps(max_fee: int, max_tip: int) -> None:
    """Raises `InvalidField`."""
    if max_tip > max_fee:
        raise InvalidField("maxPriorityFeePerGas", "max priority fee per gas higher than max fee per gas")
