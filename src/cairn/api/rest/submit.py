"""POST /tx and POST /txs."""

from starlette.requests import Request
from starlette.responses import Response

from cairn.api.chain_json import submitted_json
from cairn.api.rest.bodies import read_json_body
from cairn.api.rest.lookups import encoded, json_response
from cairn.api.rest.operation import Answer, Operation
from cairn.api.schemas import BatchResult, SubmissionBatch, SubmissionJson, Submitted
from cairn.api.submitter import Submitter
from cairn.config import Settings


class Submissions:
    def __init__(self, intake: Submitter, settings: Settings) -> None:
        self._intake = intake
        self._settings = settings

    @Operation(
        "POST /tx",
        "transactions",
        Answer("It is valid, admitted and on disk.", Submitted),
        409,
        422,
        body=SubmissionJson,
    )
    async def submit_transaction(self, request: Request) -> Response:
        """Submit a transaction.

        200 means valid, admitted and on disk. Sent again, it is the same transaction with the same hash.
        """
        admission = await self._intake.admit(await read_json_body(request, self._settings.max_body_bytes))
        return json_response(submitted_json(admission.tx_hash, admission.confirmed))

    @Operation(
        "POST /txs",
        "transactions",
        Answer("One result or problem for each, in order.", BatchResult),
        body=SubmissionBatch,
    )
    async def submit_transactions(self, request: Request) -> Response:
        """Submit up to 100 transactions at once.

        Each is taken or refused by itself, and they are looked at in their order.
        """
        body = await read_json_body(request, self._settings.max_batch_body_bytes)
        return encoded(await self._intake.admit_batch(body))
