"""How amounts are transmitted: as JSON integers, or as strings of digits."""

from collections.abc import Mapping
from typing import Literal

Amounts = Literal["number", "string"]

FIELDS = frozenset({"value", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas", "amount"})
"""Every field of a request that is an amount of wei."""


def with_strings(body: object) -> object:
    """A request's body, or a list of them, with its amounts as strings of digits."""
    if isinstance(body, list):
        return [with_strings(item) for item in body]
    if not isinstance(body, Mapping):
        return body
    return {name: str(value) if name in FIELDS and type(value) is int else value for name, value in body.items()}
