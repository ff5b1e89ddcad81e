"""Requests that are answered without the application: POST /tx, POST /rpc, GET /health, and reads.

A route takes a request that it can finish: a complete submission, a JSON-RPC message, the probe, a read that this
worker can answer at once. Everything else, and each request with a header that needs more work, is for the application.
"""

import asyncio
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from cairn import metrics
from cairn.api.bodies import is_json
from cairn.api.chain_view import ChainView
from cairn.api.hot_heads import Heads
from cairn.api.next_nonces import NextNonces
from cairn.api.read_routes import ReadRoutes
from cairn.api.rest.submissions import Submitter, submitted
from cairn.api.rpc.caller import Caller
from cairn.api.rpc.calls import SUBMITTING, find_call
from cairn.api.rpc.dispatch import LARGE_BYTES, Dispatcher, Promised, Unanswered
from cairn.api.server.access import HostList, OriginList, RateLimiter
from cairn.api.server.exchange import AnswerFuture, Exchange, HotRoute
from cairn.config import Settings
from cairn.core.gateway import Admission
from cairn.domain.answers import Probe
from cairn.time_shares import QueueName, TimeShares, never

RPC = b"/rpc"
MAX_HOT_BODY_BYTES = 4_096
"""A transaction has some 450 bytes, and most calls have fewer."""
HASH_DIGITS = 64
SYNC_SUFFIX = b"RawTransactionSync"
"""Of the name of the method that waits for a block."""
# Each needs something that only the application does.
UNUSUAL = frozenset(
    {b"origin", b"expect", b"transfer-encoding", b"content-encoding", b"if-none-match", b"idempotency-key"}
)
ALIVE = msgspec.json.encode(Probe("alive"))
_PENDING = b'{"status":"pending","txHash":"0x'
_CONFIRMED = b'{"status":"confirmed","txHash":"0x'
_END = b'"}'


class HealthRoute:
    """GET /health: the process is alive if it answers. As a probe it waits for nobody and is never refused."""

    queue: QueueName | None = None
    is_alone = False
    is_limited = False

    def __init__(self, heads: Heads) -> None:
        self.traffic = metrics.HTTP.of_route("GET /health")
        self._heads = heads
        self._answer = b""

    def refresh(self) -> None:
        self._answer = self._heads.ok + b"%d\r\n\r\n" % len(ALIVE) + ALIVE

    def begin(self, request: Exchange, used_s: float) -> bytes:
        return self._answer

    def answer(self, request: Exchange, answering: AnswerFuture) -> Sequence[bytes]:
        raise AssertionError("it answers at once")


class SubmitRoute:
    """POST /tx."""

    queue: QueueName | None = "submissions"
    is_alone = False
    is_limited = True

    def __init__(self, submitter: Submitter, heads: Heads) -> None:
        self.traffic = metrics.HTTP.of_route("POST /tx")
        self._submitter = submitter
        self._heads = heads
        self._pending = self._confirmed = b""

    def refresh(self) -> None:
        self._pending, self._confirmed = self._start(_PENDING), self._start(_CONFIRMED)

    def _start(self, start: bytes) -> bytes:
        return self._heads.ok + b"%d\r\n\r\n" % (len(start) + HASH_DIGITS + len(_END)) + start

    def begin(self, request: Exchange, used_s: float) -> AnswerFuture | None:
        return self._submitter.admit_complete(request.body)

    def answer(self, request: Exchange, answering: AnswerFuture) -> Sequence[bytes]:
        if answering.cancelled() or answering.exception() is not None:
            return (self._heads.failure_of(request, answering),)
        admission: Admission = answering.result()
        if admission.waits_for_nonce is not None:
            body = msgspec.json.encode(submitted(admission))
            return (self._heads.ok + b"%d\r\n\r\n" % len(body) + body,)
        start = self._confirmed if admission.confirmed else self._pending
        return (start + admission.tx_hash.hex().encode() + _END,)


class CallRoute:
    """POST /rpc. A call's answer may have megabytes, and what a client submits keeps its order: so it is alone."""

    is_alone = True
    is_limited = True

    def __init__(self, calls: Dispatcher, limiter: RateLimiter, shares: TimeShares, heads: Heads) -> None:
        self.queue: QueueName | None = None
        self._traffic = self.traffic = metrics.HTTP.of_route(metrics.CALLS)
        self._calls = calls
        self._limiter = limiter
        self._shares = shares
        self._heads = heads

    def begin(self, request: Exchange, used_s: float) -> AnswerFuture | bytes | None:
        self.traffic = self._traffic
        call, shares, payer = find_call(request.body), self._shares, request.payer
        if call is None:
            # A batch, or something unusual.
            queue: QueueName = "submissions" if SUBMITTING.encode() in request.body else "reads"
            answering = self._calls.answer(request.body, self._caller_of(request))
        else:
            queue = call.queue
            began = shares.begin(payer, queue)
            if began is None:
                answering = self._calls.answer_call(call, self._caller_of(request))
            else:
                try:
                    method = self._calls.methods[call.method]
                    begun = self._calls.begin(call, method)
                    # Most answers are counted once, there, as a call and as an answer of this route.
                    self.traffic = method.traffic
                    if begun is None:
                        method.answered.count()
                except Exception as failure:
                    begun = self._calls.refuse(call, failure)
                shares.end(payer, queue, began, used_s)
                if begun is None:
                    return self._nothing(request)
                if isinstance(begun, bytes):
                    return self._heads.ok + b"%d\r\n\r\n" % len(begun) + begun
                if isinstance(begun.result, Promised):
                    request.asked = begun
                    return begun.result.future
                used_s, answering = 0.0, self._calls.finish(begun, self._caller_of(request))
        request.is_patient = SYNC_SUFFIX in request.body
        # What is submitted is submitted, whether its client waits for the answer or not.
        is_gone = never if queue == "submissions" else request.is_gone
        return asyncio.get_running_loop().create_task(shares.run(payer, answering, queue, is_gone, used_s))

    def _nothing(self, request: Exchange) -> bytes:
        """The answer to notifications."""
        request.status, request.is_plain = 204, False
        return self._heads.no_content

    def _caller_of(self, request: Exchange) -> Caller:
        return Caller(request.address, self._limiter, request.is_gone, already_counted=1)

    def answer(self, request: Exchange, answering: AnswerFuture) -> Sequence[bytes]:
        self.traffic = self._traffic
        if answering.cancelled():
            return (self._heads.failure_of(request, answering),)
        if isinstance(request.asked, Unanswered):
            answer = self._calls.settle(request.asked)
        elif answering.exception() is not None:
            return (self._heads.failure_of(request, answering),)
        else:
            answer = answering.result()
        if answer is None:
            return (self._nothing(request),)
        head = self._heads.ok + b"%d\r\n\r\n" % len(answer)
        return (head, answer) if len(answer) > LARGE_BYTES else (head + answer,)


class HotRoutes:
    def __init__(
        self, view: ChainView, nonces: NextNonces, submitter: Submitter, calls: Dispatcher, hosts: HostList,
        origins: OriginList, limiter: RateLimiter, shares: TimeShares, settings: Settings,
    ) -> None:  # fmt: skip
        self._hosts = hosts
        self._max_body_bytes = min(settings.max_body_bytes, settings.max_batch_body_bytes, MAX_HOT_BODY_BYTES)
        self._rest_heads = Heads(origins, view.fail, for_wallets=False)
        self._rpc_heads = Heads(origins, view.fail, for_wallets=True)
        self._submit = SubmitRoute(submitter, self._rest_heads)
        self._posts: dict[bytes, HotRoute] = {
            b"/tx": self._submit,
            RPC: CallRoute(calls, limiter, shares, self._rpc_heads),
        }
        self._health = HealthRoute(self._rest_heads)
        self.find_read = ReadRoutes(view, nonces, self._rest_heads, {b"/health": self._health}).find

    def refresh(self, common_lines: bytes) -> None:
        self._rest_heads.refresh(common_lines)
        self._rpc_heads.refresh(common_lines)
        self._submit.refresh()
        self._health.refresh()

    def failed(self, request: Exchange, failure: BaseException) -> bytes:
        heads = self._rpc_heads if request.target == RPC else self._rest_heads
        return heads.failed(request, failure)

    def find(self, request: Exchange) -> HotRoute | None:
        """The route, unless something in the head needs more work."""
        target, fields = request.target, request.fields
        if request.method == "POST":
            route = self._posts.get(target)
            # The parser has made sure that the length is digits.
            length = fields.get(b"content-length", b"")
            if route is None or not 0 < len(length) <= 5 or int(length) > self._max_body_bytes:
                return None
            if not _is_json(fields.get(b"content-type", b"")):
                return None
        elif request.method == "GET":
            route = self.find_read(target)
            if route is None or b"content-length" in fields:
                return None
        else:
            return None
        if request.version != "1.1" or not request.keeps_alive or request.is_upgrade:
            return None
        if len(fields) != len(request.headers) or not UNUSUAL.isdisjoint(fields):
            return None
        host = fields.get(b"host")
        return route if host is not None and self._hosts.allows(host) else None


@lru_cache(maxsize=100)
def _is_json(content_type: bytes) -> bool:
    return is_json(content_type.decode("latin-1"))
