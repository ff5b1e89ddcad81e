"""The price fields of each type of transaction."""

import pytest

from cairn.domain.errors import InvalidField
from cairn.domain.transactions import check_caps, price_terms
from cairn.domain.types import ACCESS_LIST, DYNAMIC_FEE, LEGACY


@pytest.mark.parametrize(
    ("kind", "gas_price", "max_fee", "max_tip", "terms"),
    [
        (None, None, None, None, (10, LEGACY, 0, 0)),
        (None, 7, None, None, (7, LEGACY, 0, 0)),
        (LEGACY, 0, None, None, (0, LEGACY, 0, 0)),
        (ACCESS_LIST, None, None, None, (10, ACCESS_LIST, 0, 0)),
        (ACCESS_LIST, 7, None, None, (7, ACCESS_LIST, 0, 0)),
        (DYNAMIC_FEE, None, None, None, (10, DYNAMIC_FEE, 10, 0)),
        (None, None, 30, None, (10, DYNAMIC_FEE, 30, 0)),
        (None, None, 0, None, (0, DYNAMIC_FEE, 0, 0)),
        (None, None, None, 4, (14, DYNAMIC_FEE, 14, 4)),
        (None, None, None, 0, (10, DYNAMIC_FEE, 10, 0)),
        (None, None, 30, 4, (14, DYNAMIC_FEE, 30, 4)),
        (DYNAMIC_FEE, None, 13, 4, (13, DYNAMIC_FEE, 13, 4)),
    ],
)
def test_missing_price_fields_follow_from_the_others_and_the_base_fee(
    kind: int | None, gas_price: int | None, max_fee: int | None, max_tip: int | None, terms: tuple[int, ...]
) -> None:
    assert price_terms(kind, gas_price, max_fee, max_tip, 10) == terms


@pytest.mark.parametrize(
    ("kind", "gas_price", "max_fee", "max_tip", "field"),
    [
        (DYNAMIC_FEE, 7, None, None, "gasPrice"),
        (None, 7, 30, None, "gasPrice"),
        (None, 7, None, 4, "gasPrice"),
        (LEGACY, None, 30, 4, "maxFeePerGas"),
        (LEGACY, 7, 30, None, "maxFeePerGas"),
        (ACCESS_LIST, 7, None, 4, "maxPriorityFeePerGas"),
    ],
)
def test_a_price_of_another_type_is_refused_by_name(
    kind: int | None, gas_price: int | None, max_fee: int | None, max_tip: int | None, field: str
) -> None:
    with pytest.raises(InvalidField) as refusal:
        price_terms(kind, gas_price, max_fee, max_tip, 10)
    assert refusal.value.field == field


def test_a_tip_above_the_max_fee_is_refused() -> None:
    check_caps(5, 5)
    with pytest.raises(InvalidField) as refusal:
        check_caps(5, 6)
    assert refusal.value.field == "maxPriorityFeePerGas"
