"""POST /faucet: sends coins to any address, on a dev chain."""

from starlette.requests import Request
from starlette.responses import Response

from cairn.api.chain_json import submitted_json
from cairn.api.chain_view import ChainView
from cairn.api.events.commands import decode_message
from cairn.api.rest.bodies import FaucetRequest, read_json_body
from cairn.api.rest.lookups import json_response
from cairn.api.rest.operation import Answer, Operation
from cairn.api.rest.parameters import parse_query
from cairn.core.gateway import CoreGateway, not_dev_chain
from cairn.domain.answers import Submitted
from cairn.domain.crypto import parse_address
from cairn.domain.errors import InvalidField, MalformedJson
from cairn.domain.json_fields import find_decimal, find_integer
from cairn.domain.types import Address

MAX_BODY_BYTES = 4_096


class Faucet:
    def __init__(self, gateway: CoreGateway, view: ChainView) -> None:
        self._gateway = gateway
        self._view = view

    @Operation(
        "POST /faucet", "dev", Answer("The transfer is accepted and on disk.", Submitted), 404, 422, body=FaucetRequest
    )
    async def ask_faucet(self, request: Request) -> Response:
        """Get coins on a dev chain. Other chains answer 404 NOT_A_DEV_CHAIN."""
        parse_query(request.scope["query_string"])
        body = await read_json_body(request, MAX_BODY_BYTES)
        if not self._view.get_info().signs_for:
            raise not_dev_chain()
        admission = await self._gateway.faucet(*parse_request(body))
        return json_response(submitted_json(admission.tx_hash, admission.confirmed))


def parse_request(body: bytes) -> tuple[Address, int | None]:
    """The receiver and the wei, None for the usual amount. Raises `MalformedJson` or `InvalidField`."""
    try:
        fields = decode_message(body.decode())
    except UnicodeDecodeError:
        raise MalformedJson("the body is not UTF-8") from None
    for name in fields:
        if name not in FaucetRequest.__struct_fields__:
            raise InvalidField(name[:80], "is not a field of this request: expected address or amount")
    if not isinstance(fields.get("address"), str):
        raise InvalidField("address", "expected a string, 0x and 40 hexadecimal digits")
    amount = _parse_amount(fields["amount"]) if "amount" in fields else None
    return parse_address(fields["address"], "address"), amount


def _parse_amount(value: object) -> int:
    """A number, or for clients whose numbers are doubles a string of decimal digits."""
    decimal = find_decimal(value)
    amount = find_integer(value) if decimal is None else decimal
    if amount is None:
        raise InvalidField("amount", "expected an integer, or its decimal digits in a string")
    return amount
