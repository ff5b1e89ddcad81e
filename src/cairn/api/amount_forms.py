"""Amounts in answers: JSON integers, or strings of digits with `?amounts=string`."""

import re
from collections.abc import Callable, Mapping

from cairn.domain.errors import InvalidQuery

FIELDS = ("value", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas", "baseFeePerGas", "fee", "balance")
"""Every field of an answer that is an amount of wei, however deep it stands."""

Form = Callable[[bytes], bytes]
"""Turns an answer with integers into the requested form."""

# Our encoders write no space around a colon, and a quote inside a string has a backslash before it.
_AMOUNT = re.compile(rb'("(?:%b)":)([0-9]+)' % "|".join(FIELDS).encode())


def as_integers(answer: bytes) -> bytes:
    return answer


def as_strings(answer: bytes) -> bytes:
    return _AMOUNT.sub(rb'\1"\2"', answer)


FORMS: Mapping[str, Form] = {"number": as_integers, "string": as_strings}


def amounts_of(query: Mapping[str, str]) -> Form:
    """Raises `InvalidQuery`."""
    form = FORMS.get(query.get("amounts", "number"))
    if form is None:
        raise InvalidQuery("amounts must be number or string")
    return form
