"""From a submission to the core: fills in what is missing, checks the signature, submits."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from cairn.api.chain_json import hex_text
from cairn.api.chain_view import ChainView
from cairn.api.problems import problem_of
from cairn.api.rest.submission import Submission, parse_submission, split_batch
from cairn.core.gateway import Admission, ChainInfo, ConfirmedTx, CoreGateway, PendingTx
from cairn.domain.answers import Problem, Submitted
from cairn.domain.errors import Internal, InvalidField, InvalidSignature, NodeError
from cairn.domain.transactions import build_tx, decode_tx
from cairn.domain.types import Draft, Tx
from cairn.time_shares import give_way, in_slices

log = structlog.get_logger("cairn.api")


class Submitter:
    def __init__(self, gateway: CoreGateway, view: ChainView) -> None:
        self._gateway = gateway
        self._view = view

    def admit_complete(self, body: bytes) -> asyncio.Future[Admission] | None:
        """The common case, without a task of its own. None if nonce or signature is missing."""
        info = self._accepting_info()
        submission = parse_submission(body, info.gas_price)
        signature = submission.signature
        if signature is None or submission.nonce is None:
            return None
        return self._gateway.submit(build_tx(submission, signature, info.chain_id))

    async def admit(self, body: bytes) -> Admission:
        return await (self.admit_complete(body) or await self._begin(body))

    def admit_raw(self, raw: bytes) -> asyncio.Future[Admission]:
        """A signed transaction in RLP. Raises `InvalidField` for anything but a transfer."""
        info = self._accepting_info()
        return self._gateway.submit(decode_tx(raw, info.chain_id, info.gas_price))

    async def admit_draft(self, draft: Draft) -> Admission:
        """A transfer that the node signs."""
        self._accepting_info()
        return await self._gateway.submit_draft(draft)

    async def admit_batch(self, body: bytes, count: Callable[[int], None]) -> list[Submitted | Problem]:
        """One result or problem for each item, in order. All are sent to the core first, so that they share a sync.

        `count` is told how many there are, and may refuse them.
        """
        self._accepting_info()
        begun: list[asyncio.Future[Admission] | Problem] = []
        # Putting a body of megabytes together was enough for one step.
        await give_way()
        found = split_batch(body)
        # So was looking through it.
        await give_way()
        # All of them before the first is submitted: a body that is not JSON has no transactions.
        items = [item async for item in in_slices(found)]
        count(len(items))
        async for item in in_slices(items):
            try:
                begun.append(self.admit_complete(item) or await self._begin(item))
            except NodeError as refused:
                # Not the error itself: with its traceback it would refer to this list, and stay until a collection.
                begun.append(problem_of(refused))
        return [item if isinstance(item, Problem) else await _result_of(item) async for item in in_slices(begun)]

    async def _begin(self, body: bytes) -> asyncio.Future[Admission]:
        """Submit one without a nonce or a signature. The future gives the result."""
        info = self._accepting_info()
        submission = parse_submission(body, info.gas_price)
        signature = submission.signature
        if signature is None:
            admitting = asyncio.ensure_future(self._gateway.submit_draft(draft_of(submission, info)))
            # Run its first step now: it submits, and so stays ahead of what this client sends next.
            await asyncio.sleep(0)
            return admitting
        nonce = await self._gateway.next_nonce(submission.sender)
        try:
            tx = signed_tx(submission, signature, nonce, info)
        except InvalidSignature:
            sent_before = await self._find_sent_before(submission, signature, nonce - 1, info)
            if sent_before is None:
                raise
            tx = sent_before
        return self._gateway.submit(tx)

    async def _find_sent_before(
        self, submission: Submission, signature: bytes, nonce: int, info: ChainInfo
    ) -> Tx | None:
        """The transaction that was sent before, if this is the same again: the first has moved the next nonce on."""
        if nonce < 0:
            return None
        try:
            tx = signed_tx(submission, signature, nonce, info)
        except InvalidSignature:
            return None
        known = self._view.find_location(tx.hash) or await self._gateway.find_tx(tx.hash)
        return tx if isinstance(known, tuple | PendingTx | ConfirmedTx) else None

    def _accepting_info(self) -> ChainInfo:
        info = self._view.info
        if info is None or self._view.phase != "ready":
            raise self._view.why_unavailable()
        return info


def signed_tx(submission: Submission, signature: bytes, nonce: int, info: ChainInfo) -> Tx:
    """Check the signature over these fields and this nonce. Raises `InvalidSignature`."""
    return build_tx(msgspec.structs.replace(submission, nonce=nonce), signature, info.chain_id)


def draft_of(submission: Submission, info: ChainInfo) -> Draft:
    """Raises `InvalidField` when the node does not hold the sender's key."""
    if submission.sender not in info.signs_for:
        why = "and this node does not hold the sender's key" if info.signs_for else "and this node holds no keys"
        raise InvalidField("signature", f"is missing, {why}")
    return Draft(
        sender=submission.sender,
        to=submission.to,
        value=submission.value,
        gas=submission.gas,
        gas_price=submission.gas_price,
        nonce=submission.nonce,
        kind=submission.kind,
        max_fee=submission.max_fee,
        max_tip=submission.max_tip,
    )


async def _result_of(admitting: Awaitable[Admission]) -> Submitted | Problem:
    try:
        admission = await admitting
    except NodeError as refused:
        return problem_of(refused)
    except Exception as failure:
        # The other items still need their results.
        log.error("a submission failed", exc_info=failure)
        return problem_of(Internal(str(failure)))
    finally:
        # It keeps the error, whose traceback keeps this frame: without this all stay until a collection.
        del admitting
    return Submitted("confirmed" if admission.confirmed else "pending", hex_text(admission.tx_hash))
