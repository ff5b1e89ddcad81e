"""What the OpenAPI document cannot say in a schema, for the generator of test cases: schemathesis loads this file."""

import re
from typing import Any

import schemathesis
from hypothesis import strategies as st

from cairn.api.description.openapi import AMOUNT_FORMAT
from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS
from cairn.domain.json_fields import ADDRESS_FORMAT, REFERENCE_FORMAT
from cairn.domain.types import MAX_DATA_BYTES, MAX_UINT256, Address

SPELLINGS = (checksum_address, lambda address: "0x" + address.hex(), lambda address: "0x" + address.hex().upper())

addresses = st.binary(min_size=20, max_size=20).map(Address)
schemathesis.openapi.format(
    ADDRESS_FORMAT, st.builds(lambda spell, at: spell(at), st.sampled_from(SPELLINGS), addresses)
)
schemathesis.openapi.format(AMOUNT_FORMAT, st.integers(min_value=0, max_value=MAX_UINT256).map(str))
texts = st.text(min_size=1, max_size=MAX_DATA_BYTES).filter(str.isprintable)
schemathesis.openapi.format(REFERENCE_FORMAT, texts.filter(lambda text: len(text.encode()) <= MAX_DATA_BYTES))


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: object) -> object:
    """The signature may be left out, but only for the accounts whose keys the node holds."""
    if isinstance(body, dict) and "signature" not in body and "from" in body:
        sender = str(body["from"])
        if re.fullmatch("0x[0-9a-fA-F]{40}", sender):
            return body | {"from": checksum_address(DEV_KEYS[int(sender[-1], 16) % len(DEV_KEYS)][0])}
    return body


ONE_OF = (("height", "time"), ("after", "before"), ("fromHeight", "fromTime"), ("toHeight", "toTime"))
"""Parameters that say the same in two ways."""


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: "schemathesis.Case[Any]", kwargs: dict[str, Any]) -> None:
    """A valid price is one that fits the type, and a tip one that is within what is paid at most.

    Of two parameters that exclude each other, one is given.
    """
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if case.operation.path == "/tx" and isinstance(case.body, dict):
        case.body = with_fitting_prices(case.body)
    for first, second in (*ONE_OF, ("reference", "data")):
        if case.query and first in case.query:
            case.query.pop(second, None)


def with_fitting_prices(submission: dict[str, Any]) -> dict[str, Any]:
    kind = submission.get("type", 0 if "gasPrice" in submission else 2)
    others = ("gasPrice",) if kind == 2 else ("maxFeePerGas", "maxPriorityFeePerGas")
    fitting = {name: value for name, value in submission.items() if name not in others}
    if "maxPriorityFeePerGas" in fitting:
        fitting["maxFeePerGas"] = max(fitting.get("maxFeePerGas", 0), fitting["maxPriorityFeePerGas"], key=int)
    return fitting
