"""POST /tx, POST /txs and POST /faucet: from the body of a request to a transaction that the core has on disk."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from hashlib import sha256
from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from cairn import metrics
from cairn.api.bodies import encoded, problem_of, read_json_body
from cairn.api.chain_view import ChainView
from cairn.api.failures import error_of
from cairn.api.parameters import parse_query
from cairn.api.rest.idempotency import IDEMPOTENCY_KEY, find_key, keyed_item, keyed_request
from cairn.api.rest.submission_fields import (
    FIELDS,
    REQUIRED,
    SIGNATURE_BYTES,
    BatchResult,
    SubmissionBatch,
    SubmissionJson,
    read_address,
    read_amount,
    read_data,
    read_fields,
    read_object,
    split_batch,
)
from cairn.api.routing import Answer, Operation
from cairn.api.server.access import GUEST, RateLimiter, check_no_guest
from cairn.config import Settings
from cairn.core.gateway import Admission, ChainInfo, ConfirmedTx, CoreGateway, KeyedRequest, PendingTx, not_dev_chain
from cairn.domain.answers import Problem, Submitted, queued_reason
from cairn.domain.crypto import parse_address
from cairn.domain.errors import InvalidField, InvalidSignature, NodeError, RateLimited
from cairn.domain.json_fields import AnyAddressText, about, find_bytes, hex_text, ref
from cairn.domain.transactions import build_tx, decode_tx, effective_price
from cairn.domain.types import ACCESS_LIST, DYNAMIC_FEE, LEGACY, MAX_UINT64, MAX_UINT256, Address, Draft, Tx
from cairn.time_shares import give_way, in_slices

MAX_FAUCET_BODY_BYTES = 4_096
MOST_NOTES = 100
"""Refusals of this worker that the core of a dev chain is told of at once."""
COMPLETE_FIELDS = len(REQUIRED) + len(("nonce", "signature"))

_decode_plain = msgspec.json.Decoder(SubmissionJson).decode


def parse_submission(body: bytes, base_fee: int) -> tuple[Draft, bytes | None]:
    """The transaction in the body, and its signature if it has one. Raises `MalformedJson`, `InvalidField`.

    The common case is decoded in one typed pass: numbers as digits, and the price fields that wallets give for the
    type. Whatever else it may be is read field by field, where every rule and every refusal is.
    """
    try:
        plain = _decode_plain(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return read_fields(body, base_fee)
    return _complete_transfer(plain, body, base_fee) or _plain_fields(plain, body, base_fee)


def _complete_transfer(plain: SubmissionJson, body: bytes, base_fee: int) -> tuple[Draft, bytes] | None:
    """Most submissions: a signed legacy transfer with its nonce, and nothing else but a gas price, perhaps."""
    value, gas, nonce, price, text = plain.value, plain.gas, plain.nonce, plain.gasPrice, plain.signature
    colons = COMPLETE_FIELDS + 1
    if price is UNSET:
        colons, price = COMPLETE_FIELDS, base_fee
    if (
        # Each of the fields has a colon, so there is no other, none is given twice, and no text has one.
        body.count(b":") != colons
        or text is UNSET
        or nonce is UNSET
        or value.__class__ is not int
        or price.__class__ is not int
        # Something is left if any of them is negative or has more bits.
        or (value | price) >> 256
        or (gas | nonce) >> 64
    ):
        return None
    signature = find_bytes(text, SIGNATURE_BYTES)
    if signature is None:
        return None
    return Draft(
        parse_address(plain.sender, "from"), parse_address(plain.to, "to"), value, gas, price, nonce
    ), signature


def _plain_fields(plain: SubmissionJson, body: bytes, base_fee: int) -> tuple[Draft, bytes | None]:
    value, gas, nonce, kind, text = plain.value, plain.gas, plain.nonce, plain.type, plain.signature
    price, max_fee, max_tip = plain.gasPrice, plain.maxFeePerGas, plain.maxPriorityFeePerGas
    given, reference = plain.data, plain.reference
    optional = (nonce, kind, text, price, max_fee, max_tip, given, reference)
    signature = b"" if text is UNSET else find_bytes(text, SIGNATURE_BYTES)
    if kind is UNSET:
        kind = LEGACY if max_fee is UNSET else DYNAMIC_FEE
    if kind == DYNAMIC_FEE and max_tip is UNSET:
        max_tip = 0
    if kind == DYNAMIC_FEE and price is UNSET and max_fee.__class__ is int and max_tip.__class__ is int:
        price = effective_price(max_fee, max_tip, base_fee)
    elif LEGACY <= kind <= ACCESS_LIST and max_fee is UNSET and max_tip is UNSET:
        price, max_fee, max_tip = base_fee if price is UNSET else price, 0, 0
    else:
        # It does not fit the type: left to the reading that says so.
        price, max_fee, max_tip = UNSET, 0, 0
    if (
        # Each field has a colon. More of them mean that a field is given twice, or that a reference has one.
        body.count(b":") != len(FIELDS) - optional.count(UNSET)
        or signature is None
        or value.__class__ is not int
        or price.__class__ is not int
        or not 0 <= value <= MAX_UINT256
        or not 0 <= price <= MAX_UINT256
        or not 0 <= max_fee <= MAX_UINT256
        or not 0 <= max_tip <= MAX_UINT256
        or not 0 <= gas <= MAX_UINT64
        or (nonce is not UNSET and not 0 <= nonce <= MAX_UINT64)
    ):
        return read_fields(body, base_fee)
    sender, to = parse_address(plain.sender, "from"), parse_address(plain.to, "to")
    data = b"" if given is UNSET and reference is UNSET else read_data(given, reference)
    draft = Draft(sender, to, value, gas, price, None if nonce is UNSET else nonce, kind, max_fee, max_tip, data)
    return draft, signature or None


class Asked(NamedTuple):
    """What a request says beside a transaction that the node is to sign."""

    key: str | None = None
    """The idempotency key."""
    guest: str | None = None
    """The origin of a page that may not use the node's keys."""
    keyed: KeyedRequest | None = None
    """Of one in a list, instead of `key`."""


NOTHING_ASKED = Asked()


class Submitter:
    """Fills in what is missing, checks the signature, and submits. JSON-RPC uses it, too."""

    def __init__(self, gateway: CoreGateway, view: ChainView) -> None:
        self._gateway = gateway
        self._view = view
        self._notes: set[asyncio.Task[None]] = set()
        """Refusals that the core of a dev chain is being told of."""

    def admit_complete(self, body: bytes) -> asyncio.Future[Admission] | None:
        """The common case, without a task of its own. None if nonce or signature is missing."""
        info = self.accepting_info()
        try:
            draft, signature = parse_submission(body, info.gas_price)
            if signature is None or draft.nonce is None:
                return None
            return self._gateway.submit(build_tx(draft, signature, info.chain_id))
        except NodeError as refused:
            self.note_refusal(refused.code, refused.detail)
            raise

    def note_refusal(self, code: str, reason: str) -> None:
        """Have `cairn dev` print it: what a worker refuses never comes to the core."""
        info = self._view.info
        # A client that floods a dev chain with rubbish is told so; its developer need not read all of it.
        if info is not None and info.signs_for and len(self._notes) < MOST_NOTES:
            note = asyncio.get_running_loop().create_task(self._note(code, reason))
            self._notes.add(note)
            note.add_done_callback(self._notes.discard)

    async def _note(self, code: str, reason: str) -> None:
        with suppress(NodeError):
            await self._gateway.note_refusal(code, reason)

    async def admit(self, body: bytes, asked: Asked = NOTHING_ASKED) -> Admission:
        return await (self.admit_complete(body) or await self.begin(body, asked))

    def admit_raw(self, raw: bytes) -> asyncio.Future[Admission]:
        """A signed transaction in RLP. Raises `InvalidField` for anything but a transfer."""
        info = self.accepting_info()
        try:
            return self._gateway.submit(decode_tx(raw, info.chain_id, info.gas_price))
        except NodeError as refused:
            self.note_refusal(refused.code, refused.detail)
            raise

    async def admit_draft(self, draft: Draft) -> Admission:
        """A transfer that the node signs."""
        self.accepting_info()
        return await self._gateway.submit_draft(draft)

    async def begin(self, body: bytes, asked: Asked = NOTHING_ASKED) -> asyncio.Future[Admission]:
        """Submit one without a nonce or a signature. The future gives the result.

        `asked` is for one that the node signs. The signature of another makes it safe to repeat, whoever sends it.
        """
        info = self.accepting_info()
        draft, signature = parse_submission(body, info.gas_price)
        if signature is None:
            try:
                check_no_guest(asked.guest, "have it sign one")
                check_signs_for(draft.sender, info)
            except NodeError as refused:
                self.note_refusal(refused.code, refused.detail)
                raise
            keyed = asked.keyed if asked.key is None else keyed_request(asked.key, "transfer", draft)
            admitting = asyncio.ensure_future(self._gateway.submit_draft(draft, keyed))
            # Run its first step now: it submits, and so stays ahead of what this client sends next.
            await asyncio.sleep(0)
            return admitting
        nonce = await self._gateway.next_nonce(draft.sender)
        # A core that has ended meanwhile cannot tell the nonce: then the signature would seem to be wrong.
        self.accepting_info()
        try:
            tx = build_tx(replace(draft, nonce=nonce), signature, info.chain_id)
        except InvalidSignature as wrong:
            sent_before = await self._find_sent_before(draft, signature, nonce - 1, info.chain_id)
            if sent_before is None:
                self.note_refusal(wrong.code, wrong.detail)
                raise
            tx = sent_before
        return self._gateway.submit(tx)

    async def digest_of(self, items: list[bytes]) -> bytes:
        """What a list asks for, however it was written."""
        base_fee, whole = self.accepting_info().gas_price, sha256()
        async for item in in_slices(items):
            try:
                content = msgspec.json.encode(parse_submission(item, base_fee))
            except NodeError:
                content = item
            whole.update(sha256(content).digest())
        return whole.digest()

    async def _find_sent_before(self, draft: Draft, signature: bytes, nonce: int, chain_id: int) -> Tx | None:
        """The transaction that was sent before, if this is the same again: the first has moved the next nonce on."""
        if nonce < 0:
            return None
        try:
            tx = build_tx(replace(draft, nonce=nonce), signature, chain_id)
        except InvalidSignature:
            return None
        known = self._view.find_location(tx.hash) or await self._gateway.find_tx(tx.hash)
        return tx if isinstance(known, tuple | PendingTx | ConfirmedTx) else None

    def problem_of(self, failure: Exception) -> Problem:
        """What is said of one item of a list."""
        problem = problem_of(error_of(failure, self._view.fail))
        metrics.HTTP_REFUSALS.inc(problem.code)
        return problem

    def accepting_info(self) -> ChainInfo:
        """The chain, if the node accepts transactions now. Raises `Unavailable`."""
        info = self._view.info
        if info is None or self._view.phase != "ready":
            raise self._view.why_unavailable()
        return info


def check_signs_for(sender: Address, info: ChainInfo) -> None:
    """Check that the node holds the sender's key. Raises `InvalidField`."""
    if sender not in info.signs_for:
        why = "and this node does not hold the sender's key" if info.signs_for else "and this node holds no keys"
        raise InvalidField("signature", f"is missing, {why}")


class Submissions:
    def __init__(self, submitter: Submitter, limiter: RateLimiter, settings: Settings) -> None:
        self._submitter = submitter
        self._limiter = limiter
        self._settings = settings

    @Operation(
        "POST /tx",
        "transactions",
        Answer("The transaction is valid, accepted and on disk.", Submitted),
        IDEMPOTENCY_KEY,
        409,
        422,
        body=SubmissionJson,
    )
    async def submit_transaction(self, request: Request) -> Response:
        """Submit a transaction.

        200 means that it is valid, accepted and on disk. Sending the same signed transaction again is safe: it has the
        same hash and is paid once. Where the node signs, an Idempotency-Key makes it safe.
        """
        parse_query(request.scope["query_string"])
        body = await read_json_body(request, self._settings.max_body_bytes)
        asked = Asked(find_key(request.scope["headers"]), request.scope.get(GUEST))
        return encoded(submitted(await self._submitter.admit(body, asked)))

    @Operation(
        "POST /txs",
        "transactions",
        Answer("One result or error for each transaction, in the same order.", BatchResult),
        IDEMPOTENCY_KEY,
        body=SubmissionBatch,
    )
    async def submit_transactions(self, request: Request) -> Response:
        """Submit up to 100 transactions at once.

        They are checked in their order, and each is accepted or refused on its own. An Idempotency-Key belongs to the
        whole list: what the node signs in another list with it is refused.
        """
        parse_query(request.scope["query_string"])
        body = await read_json_body(request, self._settings.max_batch_body_bytes)
        asked = Asked(find_key(request.scope["headers"]), request.scope.get(GUEST))
        self._submitter.accepting_info()
        # Putting a body of megabytes together was enough for one step.
        await give_way()
        found = split_batch(body)
        # So was looking through it.
        await give_way()
        # All of them before the first is submitted: a body that is not JSON has no transactions.
        items = [item async for item in in_slices(found)]
        self._count(request.client.host if request.client else "", len(items))
        return encoded(await self._submit_all(items, asked))

    def _count(self, client: str, transactions: int) -> None:
        """Count each transaction as a request: the first was counted when it came. Raises `RateLimited`."""
        further = self._limiter.within_burst(transactions - 1)
        if self._limiter.limits(client) and not self._limiter.take(client, further):
            raise RateLimited(f"this batch counts as {transactions} requests; slow down, or send smaller ones")

    async def _submit_all(self, items: list[bytes], asked: Asked) -> list[Submitted | Problem]:
        """One result or problem for each item, in order. All are sent to the core first, so that they share a sync."""
        begun: list[asyncio.Future[Admission] | Problem] = []
        whole = None if asked.key is None else await self._submitter.digest_of(items)
        async for number, item in in_slices(enumerate(items)):
            own = asked
            if asked.key is not None:
                own = Asked(guest=asked.guest, keyed=keyed_item(asked.key, number, "list", whole))
            try:
                begun.append(self._submitter.admit_complete(item) or await self._submitter.begin(item, own))
            except Exception as failure:
                # Not the error itself: with its traceback it would refer to this list, and stay until a collection.
                begun.append(self._submitter.problem_of(failure))
        return [item if isinstance(item, Problem) else await self._result_of(item) async for item in in_slices(begun)]

    async def _result_of(self, admitting: Awaitable[Admission]) -> Submitted | Problem:
        try:
            return submitted(await admitting)
        except Exception as failure:
            # The other items still need their results.
            return self._submitter.problem_of(failure)
        finally:
            # It keeps the error, whose traceback keeps this frame: without this all stay until a collection.
            del admitting


def submitted(admission: Admission) -> Submitted:
    tx_hash, missing = hex_text(admission.tx_hash), admission.waits_for_nonce
    if missing is not None:
        return Submitted("pending", tx_hash, True, queued_reason(missing))
    return Submitted("confirmed" if admission.confirmed else "pending", tx_hash)


class FaucetRequest(msgspec.Struct, frozen=True):
    """Who gets the coins, and how many."""

    address: AnyAddressText
    amount: Annotated[int | str | UnsetType, about("Wei to send. If left out, 100 coins.", **ref("FaucetAmount"))] = (
        UNSET
    )


class Faucet:
    """Sends coins to any address, on a dev chain."""

    def __init__(self, gateway: CoreGateway, view: ChainView) -> None:
        self._gateway = gateway
        self._view = view

    @Operation(
        "POST /faucet",
        "dev",
        Answer("The transfer is accepted and on disk.", Submitted),
        IDEMPOTENCY_KEY,
        404,
        422,
        body=FaucetRequest,
    )
    async def ask_faucet(self, request: Request) -> Response:
        """Get coins on a dev chain. Other chains answer 404 NOT_A_DEV_CHAIN."""
        parse_query(request.scope["query_string"])
        body = await read_json_body(request, MAX_FAUCET_BODY_BYTES)
        check_no_guest(request.scope.get(GUEST), "use its faucet")
        if not self._view.get_info().signs_for:
            raise not_dev_chain()
        key = find_key(request.scope["headers"])
        asked = parse_faucet_request(body)
        keyed = None if key is None else keyed_request(key, "faucet", *asked)
        return encoded(submitted(await self._gateway.faucet(*asked, keyed)))


def parse_faucet_request(body: bytes) -> tuple[Address, int | None]:
    """The receiver and the wei, None for the usual amount. Raises `MalformedJson` or `InvalidField`."""
    if_unknown = "is not a field of this request: expected address or amount"
    fields = read_object(body, FaucetRequest.__struct_fields__, if_unknown)
    address = read_address("address", fields.get("address"))
    return address, read_amount("amount", fields["amount"]) if "amount" in fields else None
