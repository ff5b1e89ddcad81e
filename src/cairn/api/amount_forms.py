"""Amounts in answers: JSON integers, or with `?amounts=string` their digits, for clients whose numbers are doubles."""

import re
from collections.abc import Callable, Mapping

from cairn.domain.errors import InvalidQuery

FIELDS = ("value", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas", "baseFeePerGas", "fee", "balance")
"""Every field of an answer that is an amount of wei, however deep it stands."""

Form = Callable[[bytes], bytes]
"""Writes an answer's amounts as they were asked for; it is given the answer with integers."""

# Our own encoders leave no space around a colon, and within a text a quote has a backslash before it.
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
