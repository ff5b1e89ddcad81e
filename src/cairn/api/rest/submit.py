"""POST /tx and POST /txs."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from cairn.api.chain_json import submitted_json
from cairn.api.rest.bodies import BatchResult, SubmissionBatch, SubmissionJson, read_json_body
from cairn.api.rest.lookups import encoded, json_response
from cairn.api.rest.operation import Answer, Operation
from cairn.api.rest.parameters import parse_query
from cairn.api.server.access import RateLimiter
from cairn.api.submitter import Submitter
from cairn.config import Settings
from cairn.domain.answers import Submitted
from cairn.domain.errors import RateLimited


class Submissions:
    def __init__(self, intake: Submitter, limiter: RateLimiter, settings: Settings) -> None:
        self._intake = intake
        self._limiter = limiter
        self._settings = settings

    @Operation(
        "POST /tx",
        "transactions",
        Answer("The transaction is valid, accepted and on disk.", Submitted),
        409,
        422,
        body=SubmissionJson,
    )
    async def submit_transaction(self, request: Request) -> Response:
        """Submit a transaction.

        200 means that it is valid, accepted and on disk. Sending the same transaction again is safe: it has the same
        hash and is paid once.
        """
        parse_query(request.scope["query_string"])
        admission = await self._intake.admit(await read_json_body(request, self._settings.max_body_bytes))
        return json_response(submitted_json(admission.tx_hash, admission.confirmed))

    @Operation(
        "POST /txs",
        "transactions",
        Answer("One result or error for each transaction, in the same order.", BatchResult),
        body=SubmissionBatch,
    )
    async def submit_transactions(self, request: Request) -> Response:
        """Submit up to 100 transactions at once.

        They are checked in their order, and each is accepted or refused on its own.
        """
        parse_query(request.scope["query_string"])
        body = await read_json_body(request, self._settings.max_batch_body_bytes)
        client = request.client.host if request.client else ""
        return encoded(await self._intake.admit_batch(body, partial(self._count, client)))

    def _count(self, client: str, transactions: int) -> None:
        """Count each transaction as a request: the first was counted when it came. Raises `RateLimited`."""
        further = self._limiter.within_burst(transactions - 1)
        if self._limiter.limits(client) and not self._limiter.take(client, further):
            raise RateLimited(f"this batch counts as {transactions} requests; slow down, or send smaller ones")
