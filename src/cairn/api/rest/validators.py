"""The validators of a network, and updates of them, for operators."""

from collections import Counter
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from cairn.api.bodies import encoded, read_json_body
from cairn.api.parameters import AMOUNTS, amounts_of
from cairn.api.routing import Answer, Operation
from cairn.core.gateway import CoreGateway, ValidatorSet
from cairn.domain.answers import EVIDENCE_KINDS, Evidence, UpdateSubmitted, Validator, Validators
from cairn.domain.governance import MAX_UPDATE_BYTES
from cairn.domain.json_fields import hex_text
from cairn.domain.update_json import ValidatorUpdateJson, encode_public_key, parse_update_json
from cairn.domain.updates import check_chain

MAX_BODY_BYTES = 4 * MAX_UPDATE_BYTES
"""The JSON of an update is longer than its binary form."""


class ValidatorRoutes:
    """GET and POST /validators; 404 on a chain without validators."""

    def __init__(self, gateway: CoreGateway) -> None:
        self._gateway = gateway

    @Operation(
        "GET /validators", "validators", AMOUNTS, Answer("The validators after the latest block.", Validators), 404
    )
    async def list_validators(self, request: Request, query: Mapping[str, str]) -> Response:
        """List the validators, the administrators, missing votes and evidence. On networks only; else 404."""
        form = amounts_of(query)
        return encoded(view_of(await self._gateway.validators()), form)

    @Operation(
        "POST /validators",
        "validators",
        Answer("The node has checked the update and passed it to CometBFT.", UpdateSubmitted, status=202),
        404,
        422,
        body=ValidatorUpdateJson,
    )
    async def update_validators(self, request: Request) -> Response:
        """Submit a signed change of validators or administrators. It is done once the sequence is higher."""
        body = await read_json_body(request, MAX_BODY_BYTES)
        current = await self._gateway.validators()
        chain, update = parse_update_json(body)
        check_chain(chain, current.chain)
        await self._gateway.submit_update(update)
        return encoded(UpdateSubmitted("submitted", update.sequence), status=202)


def engine_text(engine_address: bytes) -> str:
    return engine_address.hex().upper()


def view_of(current: ValidatorSet) -> Validators:
    governance, admins = current.governance, current.governance.admins
    accused = Counter(each.engine_address for each in governance.evidence)
    return Validators(
        chain_id=current.chain.chain_id,
        genesis=hex_text(current.chain.genesis),
        block_height=current.height,
        sequence=governance.sequence,
        threshold=admins.threshold if admins else 0,
        admins=[hex_text(address) for address in admins.addresses] if admins else [],
        validators=[
            Validator(
                address=engine_text(validator.engine_address),
                public_key=encode_public_key(validator.public_key),
                power=validator.power,
                fee_recipient=hex_text(validator.fee_recipient),
                name=validator.name,
                missed_blocks=missed,
                evidence=accused[validator.engine_address],
            )
            for validator, missed in zip(governance.validators, current.missed, strict=True)
        ],
        voted_blocks=current.voted_blocks,
        evidence_count=governance.evidence_count,
        evidence=[
            Evidence(
                address=engine_text(each.engine_address),
                name=each.name,
                kind=EVIDENCE_KINDS[each.kind],
                block_height=each.height,
                timestamp=each.timestamp,
            )
            for each in reversed(governance.evidence)
        ],
    )
