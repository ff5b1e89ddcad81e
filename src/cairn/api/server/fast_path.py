"""What all connections of a worker share: the parts behind the fast lane, ready-made answers, and the clock."""

import asyncio
from binascii import Error as HexError
from binascii import unhexlify
from email.utils import formatdate

import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from cairn.api.chain_view import ChainView
from cairn.api.errors import Internal, encode_problem
from cairn.api.server.access import RateLimiter
from cairn.api.server.connection_slots import Occupancy
from cairn.api.server.known_heads import PlainHeads
from cairn.api.submitter import Submitter
from cairn.config import Settings
from cairn.core.gateway import Admission
from cairn.domain.errors import NodeError
from cairn.domain.types import TxHash

Header = tuple[bytes, bytes]

MAX_SWEEP_INTERVAL_S = 1.0
_PENDING = b'{"status":"pending","txHash":"0x'
_CONFIRMED = b'{"status":"confirmed","txHash":"0x'
_END = b'"}'
_HASH_DIGITS = 64

log = structlog.get_logger("cairn.api")


class FastPath:
    """One per worker. `refresh` is called about once a second."""

    def __init__(
        self, view: ChainView, intake: Submitter, heads: PlainHeads, limiter: RateLimiter, settings: Settings
    ) -> None:
        self._view = view
        self._intake = intake
        self.heads = heads
        self.limiter = limiter
        self.header_timeout_s = settings.header_timeout_s
        self.idle_timeout_s = settings.idle_timeout_s
        self.first_byte_timeout_s = settings.first_byte_timeout_s
        shortest_s = min(self.header_timeout_s, self.idle_timeout_s, self.first_byte_timeout_s)
        self.sweep_interval_s = min(MAX_SWEEP_INTERVAL_S, shortest_s / 2)
        self.occupancy = Occupancy(settings)
        self.common_headers: list[Header] = []
        self.now = 0.0
        """As of the last refresh: exact enough for time-outs, and free to read."""
        self._refreshed_at = 0.0
        self.refresh(0.0)

    def refresh(self, time: float) -> None:
        # While this worker stands still, its clients' time does too: it has yet to read what they sent meanwhile.
        self.now += min(time - self._refreshed_at, 2 * self.sweep_interval_s)
        self._refreshed_at = time
        self.common_headers = [(b"date", formatdate(usegmt=True).encode())]
        if self._view.chain_id is not None:
            self.common_headers.append((b"x-chain-id", str(self._view.chain_id).encode()))
        self._ok = self._head(200, [(b"content-type", b"application/json"), (b"cache-control", b"no-store")])
        self._pending = self._submitted(_PENDING)
        self._confirmed = self._submitted(_CONFIRMED)

    def _head(self, status: int, headers: list[Header]) -> bytes:
        """A response up to the value of its content-length."""
        lines = [b"%b: %b\r\n" % header for header in (*self.common_headers, *headers)]
        return STATUS_LINE[status] + b"".join(lines) + b"content-length: "

    def _submitted(self, start: bytes) -> bytes:
        length = len(start) + _HASH_DIGITS + len(_END)
        return self._ok + b"%d\r\n\r\n" % length + start

    def problem(self, error: NodeError, *extra: Header) -> bytes:
        """The whole response."""
        status, headers, body = encode_problem(error)
        headers += [(b"cache-control", b"no-store"), *extra]
        return self._head(status, headers) + b"%d\r\n\r\n" % len(body) + body

    # What the fast lane serves.

    def submit(self, body: bytes) -> "asyncio.Future[Admission] | bytes | None":
        """The result to wait for, or the whole response; None when the full lane must fill something in."""
        try:
            return self._intake.admit_complete(body)
        except NodeError as refused:
            return self.problem(refused)

    def admitted(self, admitting: "asyncio.Future[Admission]") -> bytes:
        """The whole response to a submission whose result has come."""
        failure = admitting.exception()
        if failure is None:
            admission = admitting.result()
            start = self._confirmed if admission.confirmed else self._pending
            return start + admission.tx_hash.hex().encode() + _END
        if isinstance(failure, NodeError):
            return self.problem(failure)
        log.error("a submission failed", exc_info=failure)
        return self.problem(Internal(str(failure)))

    def confirmed_tx(self, hash_digits: bytes) -> bytes | None:
        """The whole response for a transaction that is confirmed here; for any other the full lane asks further."""
        try:
            body = self._view.find_confirmed(TxHash(unhexlify(hash_digits)))
        except (HexError, NodeError):
            return None
        return None if body is None else self._ok + b"%d\r\n\r\n" % len(body) + body
