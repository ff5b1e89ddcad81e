"""The requests of one connection that are answered without the application, and the order of their answers.

A request for a route of the fast path is served here if its head is plain (see `PlainHeads`). Answers are written in
the order of the requests; those in front that are ready are written together.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from cairn.api.rpc.caller import Caller
from cairn.api.server.fast_path import MAX_PLAIN_HEAD_BYTES, NOT_PLAIN, Answering, FastPath

MAX_ANSWERS_DUE = 64
"""The most unanswered requests of a connection; more are read once some are answered."""

POST_TX = b"POST /tx "
POST_RPC = b"POST /rpc "
GET_TX = b"GET /tx/0x"
REST_OF_GET = len(GET_TX) + 64
HEAD_END = b"\r\n\r\n"

FULL_LANE = 0
INCOMPLETE = -1


class AnswerQueue:
    """`on_written` is called whenever answers that were waited for have been written."""

    def __init__(
        self, lane: FastPath, client: str, transport: asyncio.Transport, on_written: Callable[[], None]
    ) -> None:
        self._lane = lane
        self._limiter = lane.limiter
        self._address = client
        self._client = client if client and lane.limiter.limits(client) else None
        """Whose requests are counted."""
        self._transport = transport
        self._on_written = on_written
        self.is_calling = False
        """A JSON-RPC call is being answered; the next request waits for it, since its answer may be long."""
        self.due: deque[Answering | bytes] = deque()

    def take(self, data: bytes) -> tuple[int, int]:
        """Serve what can be answered here, from the start of `data`.

        Returns how many bytes that was, and why it stopped: `FULL_LANE` or `INCOMPLETE` for a request that was not
        served.
        """
        at = taken = 0
        size, due = len(data), self.due
        while at < size and len(due) < MAX_ANSWERS_DUE and not self.is_calling:
            taken = self._take_one(data, at)
            if taken <= 0:
                break
            at += taken
        if due and isinstance(due[0], bytes):
            # Nobody waits for them to be written: the caller goes on with what was not taken.
            self._write_ready()
        return at, taken

    def _take_one(self, data: bytes, at: int) -> int:
        """How many bytes the request at `at` took; or `FULL_LANE`, or `INCOMPLETE`."""
        client = self._client
        is_call = data.startswith(POST_RPC, at)
        if is_call or data.startswith(POST_TX, at):
            end = data.find(HEAD_END, at) + len(HEAD_END)
            if end < len(HEAD_END):
                return self._cut_off(data, at)
            length = self._lane.posts[data[at + len(POST_RPC if is_call else POST_TX) - 1 : end]]
            if length == NOT_PLAIN or (is_call and self.due):
                return FULL_LANE
            if len(data) < end + length:
                return INCOMPLETE
            body, end = data[end : end + length], end + length
            if client is not None and not self._may_ask(client):
                return FULL_LANE
            answer = self._call(body) if is_call else self._lane.submit(body)
        elif data.startswith(GET_TX, at):
            end = data.find(HEAD_END, at) + len(HEAD_END)
            if end < len(HEAD_END):
                return self._cut_off(data, at)
            if self._lane.gets[data[at + REST_OF_GET : end]] == NOT_PLAIN:
                return FULL_LANE
            digits = data[at + len(GET_TX) : at + REST_OF_GET]
            answer = self._lane.confirmed_tx(digits) if client is None or self._may_ask(client) else None
        else:
            return FULL_LANE
        if answer is None:
            return FULL_LANE
        if client is not None:
            self._limiter.take(client)
        self.due.append(answer)
        if not isinstance(answer, bytes):
            answer.add_done_callback(self._flush)
        return end - at

    @staticmethod
    def _cut_off(data: bytes, at: int) -> int:
        """The head is not complete; one that is already too long cannot be a plain one."""
        return INCOMPLETE if len(data) - at < MAX_PLAIN_HEAD_BYTES else FULL_LANE

    def _call(self, body: bytes) -> Answering:
        self.is_calling = True
        return self._lane.call(body, Caller(self._address, self._limiter, self._is_gone, already_counted=1))

    async def _is_gone(self) -> bool:
        return self._transport.is_closing()

    def _may_ask(self, client: str) -> bool:
        # A client over its rate limit is refused by the full lane, which also counts its requests.
        return self._limiter.has_left(client)

    def _flush(self, _: object) -> None:
        if self._write_ready():
            self._on_written()

    def _write_ready(self) -> bool:
        """Write the answers that are ready, in order. False when there was none, or nobody to write to."""
        due, ready = self.due, []
        while due:
            first = due[0]
            if isinstance(first, bytes):
                ready.append(first)
            elif first.done():
                ready.append(self._lane.answered(first))
                self.is_calling = False
            else:
                break
            due.popleft()
        if not ready or self._transport.is_closing():
            return False
        self._transport.write(ready[0] if len(ready) == 1 else b"".join(ready))
        return True
