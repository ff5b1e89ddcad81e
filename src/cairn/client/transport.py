"""HTTP to one node: attempts, growing pauses, time limits, and refusals as exceptions."""

import asyncio
import random
import re
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import msgspec
from msgspec.json import Decoder

from cairn.client.errors import (
    ApiError,
    ClientError,
    InvalidField,
    Limited,
    MempoolFull,
    NodeUnreachable,
    Problem,
    Starting,
    TooManyConnections,
    TooManyUnansweredBytes,
    TxRejected,
    UnexpectedAnswer,
    error_of,
)
from cairn.loopback import is_loopback

T = TypeVar("T")

Query = Mapping[str, str | int | float]
Amounts = Literal["number", "string"]
"""How amounts are transmitted: as JSON integers, or as strings of digits."""

AMOUNT_FIELDS = frozenset({"value", "gasPrice", "maxFeePerGas", "maxPriorityFeePerGas", "amount"})
"""Every field of a request that is an amount of wei."""

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 3.0
LEAST_ATTEMPT_S = 1.0
"""An attempt with less time than this would only fail by its time-out, and hide the error of the one before."""

CONNECT_TIMEOUT_S = 5.0
MAX_KEY_CHARACTERS = 255
MAX_CONNECTIONS = 1_000
"""Each `wait` holds a connection; submissions must still find a free one."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""No real answer comes near it. A longer one is not read into memory."""

NUMBER = re.compile("[0-9]{1,19}")
"""In a header. Python refuses to read one of thousands of digits."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises for bytes that are no answer of a node."""

PROBLEM = Decoder(Problem)
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_NOT_ACCEPTED = (Limited, MempoolFull, Starting, TooManyConnections, TooManyUnansweredBytes)
"""Errors after which nothing was accepted for certain. After a proxy's 502, or a lost core, that is open."""


def delays(first_s: float = FIRST_DELAY_S, longest_s: float = LONGEST_DELAY_S) -> Iterator[float]:
    """Growing delays, each shortened at random by up to a half, so that clients do not retry all at once."""
    delay_s = first_s
    while True:
        yield delay_s * random.uniform(0.5, 1.0)
        delay_s = min(2 * delay_s, longest_s)


def proxies_for(url: httpx.URL) -> dict[str, None] | None:
    """As `mounts` of a client of httpx: whatever the environment says, no proxy is asked for this machine."""
    return dict.fromkeys(("all://", "http://", "https://")) if is_loopback(url.host) else None


class Deadline:
    """The time limit for all attempts together; None means no limit."""

    def __init__(self, timeout_s: float | None) -> None:
        self._ends_at = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s

    def left_s(self, at_most: float) -> float:
        """The time that is left: from 0 to `at_most`."""
        if self._ends_at is None:
            return at_most
        return min(at_most, max(0.0, self._ends_at - asyncio.get_running_loop().time()))

    async def pause(self, delay_s: float) -> bool:
        """Sleep. Returns False at once if that would leave no time for another attempt."""
        needed_s = delay_s + LEAST_ATTEMPT_S
        if self.left_s(needed_s) < needed_s:
            return False
        await asyncio.sleep(delay_s)
        return True


class HttpAnswer(NamedTuple):
    response: httpx.Response
    was_repeated: bool
    """Whether an earlier attempt may have been accepted."""


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """One page of a list."""

    items: list[T]
    cursor: str | None
    """Where the next page begins; None on the last one."""
    height: int | None
    """The node's latest block when it made the page; None for a list that is not made from blocks."""


class Transport:
    """All attempts of a request and the pauses between them end before its deadline."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float | None,
        silence_timeout_s: float,
        tls: ssl.SSLContext | None,
        amounts: Amounts = "number",
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url}: a node's URL starts with http:// or https://")
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as wrong:
            raise ValueError(f"{url}: {wrong}") from None
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        """For all attempts together; None means no limit."""
        self._silence_timeout_s = silence_timeout_s
        self._amounts = amounts
        self._http = httpx.AsyncClient(
            # Load the trusted certificates only for TLS: that takes longer than a request.
            verify=url.startswith("https://") if tls is None else tls,
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=20),
            # A few compressed bytes can expand to any size.
            headers={"Accept-Encoding": "identity"},
            mounts=proxies_for(parsed),
        )

    def with_timeout(self, timeout_s: float | None) -> "Transport":
        """A transport on these connections with another time limit."""
        other = copy(self)
        other.timeout_s = timeout_s
        return other

    async def close(self) -> None:
        await self._http.aclose()

    async def get(
        self,
        path: str,
        answer: Decoder[T],
        query: Query | None = None,
        *,
        deadline: Deadline | None = None,
        held_s: float = 0.0,
    ) -> T:
        """A read; `held_s` is how long the node may hold the answer back."""
        response, _ = await self.ask("GET", path, query=self._query(query), deadline=deadline, held_s=held_s)
        return self._decoded(response, answer)

    async def get_page(self, path: str, answer: Decoder[list[T]], query: Mapping[str, str | int]) -> ListPage[T]:
        response, _ = await self.ask("GET", path, query=self._query(query))
        return ListPage(self._decoded(response, answer), _next_cursor(response), _block_height(response))

    async def post(self, path: str, body: object, answer: Decoder[T], key: str | None = None) -> T:
        """A request that the node may get twice: `key` tells it a repetition of one that would be carried out twice."""
        return (await self.post_again(path, body, answer, key, None))[0]

    async def post_again(
        self, path: str, body: object, answer: Decoder[T], key: str | None, deadline: Deadline | None
    ) -> tuple[T, bool]:
        """Like `post`, but also returns whether an earlier attempt may have been accepted."""
        written = msgspec.json.encode(body if self._amounts == "number" else with_strings(body))
        asked = await self.ask("POST", path, body=written, key=key, deadline=deadline)
        return decoded(asked.response, answer), asked.was_repeated

    async def read_by_post(self, path: str, body: object, answer: Decoder[T]) -> T:
        """A read whose question is too long for a query."""
        response, _ = await self.ask("POST", path, body=msgspec.json.encode(body), query=self._query(None))
        return self._decoded(response, answer)

    async def probe(self, path: str, answer: Decoder[T]) -> T:
        """One attempt, because a probe is about this moment. 503 is an answer, not an error."""
        timeout_s = Deadline(self.timeout_s).left_s(at_most=self._silence_timeout_s)
        async with _within(timeout_s, self.url):
            response = await self._exchange("GET", path, {}, None, None, timeout_s)
        return decoded(response, answer)

    def _query(self, query: Query | None) -> Query | None:
        return query if self._amounts == "number" else {**(query or {}), "amounts": self._amounts}

    def _decoded(self, response: httpx.Response, answer: Decoder[T]) -> T:
        """The decoded answer, with integers for amounts that are strings."""
        if self._amounts == "string":
            answer = lenient(answer)
        return decoded(response, answer)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        query: Query | None = None,
        key: str | None = None,
        deadline: Deadline | None = None,
        held_s: float = 0.0,
    ) -> HttpAnswer:
        """Retry until there is an answer that a retry would not change, or until the deadline."""
        deadline = deadline or Deadline(self.timeout_s)
        was_repeated = False
        headers = ({} if body is None else {"Content-Type": "application/json"}) | key_header(key)
        for delay_s in delays():
            silence_s, whole_s = deadline.left_s(at_most=self._silence_timeout_s), deadline.left_s(at_most=inf)
            if held_s:
                # The node may hold the answer until the deadline, so some time is added for it to arrive.
                silence_s = whole_s = held_s + self._silence_timeout_s
            try:
                async with _within(whole_s, self.url):
                    response = await self._exchange(method, path, headers, body, query, silence_s)
                if response.is_success:
                    return HttpAnswer(response, was_repeated)
                raise problem_error(response.status_code, response.content, response.headers.get("retry-after"))
            except (ApiError, NodeUnreachable) as failure:
                was_repeated = _mark_repeated(failure, was_repeated)
                if isinstance(failure, ApiError) and not failure.is_transient:
                    raise
                if not await deadline.pause(max(delay_s, _suggested_delay_s(failure))):
                    raise
        raise AssertionError("the delays never end")

    async def _exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        query: Query | None,
        silence_s: float,
    ) -> httpx.Response:
        timeout = httpx.Timeout(silence_s, connect=min(silence_s, CONNECT_TIMEOUT_S))
        try:
            async with self._http.stream(
                method, self.url + path, content=body, params=query, headers=headers, timeout=timeout
            ) as response:
                return await _read(response)
        except httpx.TransportError as failure:
            detail = f"{self.url} does not answer: {str(failure) or type(failure).__name__}"
            raise NodeUnreachable(detail, was_sent=not isinstance(failure, _UNSENT)) from failure


@asynccontextmanager
async def _within(whole_s: float, url: str) -> AsyncGenerator[None, None]:
    """Limit the whole answer: a node that sends a byte now and then is never silent."""
    try:
        async with asyncio.timeout(None if whole_s == inf else whole_s):
            yield
    except TimeoutError:
        raise NodeUnreachable(f"{url} does not answer: its answer was not complete in time", was_sent=True) from None


async def _read(response: httpx.Response) -> httpx.Response:
    """Read the body. Raises `UnexpectedAnswer` if it is too large or compressed."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise UnexpectedAnswer(f"{response.url} answered with an encoding that was not asked for")
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise UnexpectedAnswer(f"{response.url} answered with more than {MAX_ANSWER_BYTES} bytes")
    return httpx.Response(response.status_code, headers=response.headers, content=bytes(body), request=response.request)


def path_of(*parts: str | int) -> str:
    """A path of these parts, each escaped."""
    return "".join("/" + quote(str(part), safe="") for part in parts)


@cache
def lenient(answer: Decoder[Any]) -> Decoder[Any]:
    """A decoder that also accepts strings of digits for integers. Made once, because that is slow."""
    return Decoder(answer.type, strict=False)


def decoded(response: httpx.Response, answer: Decoder[T]) -> T:
    try:
        return answer.decode(response.content)
    except UNREADABLE as error:
        raise UnexpectedAnswer(f"{response.url} did not answer like a Cairn node: {error}") from None


def problem_error(status: int, body: bytes, retry_after: str | None) -> ApiError:
    """The exception for an error answer, which may be a proxy's own and not a problem document."""
    seconds = float(retry_after) if retry_after is not None and NUMBER.fullmatch(retry_after) else None
    try:
        problem = PROBLEM.decode(body)
    except UNREADABLE:
        detail = f"HTTP status {status} without a problem document"
        problem = Problem(title="", status=status, detail=detail, code="UNKNOWN")
    return error_of(problem, seconds)


def may_be_carried_out(failure: ApiError | NodeUnreachable) -> bool:
    """Whether the request may have been carried out all the same."""
    return failure.was_sent if isinstance(failure, NodeUnreachable) else not isinstance(failure, _NOT_ACCEPTED)


def may_be_accepted(failure: ClientError) -> bool:
    """Whether a signed transaction may have been accepted, though its submission failed with this error."""
    if isinstance(failure, NodeUnreachable):
        return failure.was_sent
    if isinstance(failure, ApiError):
        is_lost = failure.status >= 500 and not isinstance(failure, _NOT_ACCEPTED)
        # The rules never refuse what was accepted before.
        return is_lost or (failure.was_repeated and not isinstance(failure, TxRejected))
    return isinstance(failure, UnexpectedAnswer)


def _mark_repeated(failure: ApiError | NodeUnreachable, was_repeated: bool) -> bool:
    """Record in the failure whether an earlier attempt may have been accepted; returns that for the next one."""
    if isinstance(failure, NodeUnreachable):
        failure.was_sent = failure.was_sent or was_repeated
    else:
        failure.was_repeated = was_repeated
    return was_repeated or may_be_carried_out(failure)


def key_header(key: str | None) -> dict[str, str]:
    """The header in which the node looks for `key`, as a string in quotes. Raises `InvalidField`."""
    if key is None:
        return {}
    if not (0 < len(key) <= MAX_KEY_CHARACTERS and key.isascii() and key.isprintable()):
        raise InvalidField("idempotency_key", f"expected 1 to {MAX_KEY_CHARACTERS} printable ASCII characters")
    escaped = key.replace("\\", r"\\").replace('"', r"\"")
    return {"Idempotency-Key": f'"{escaped}"'}


def _suggested_delay_s(failure: ApiError | NodeUnreachable) -> float:
    return failure.retry_after_s or 0.0 if isinstance(failure, ApiError) else 0.0


def _block_height(response: httpx.Response) -> int | None:
    height = response.headers.get("x-block-height")
    if height is not None and not NUMBER.fullmatch(height):
        raise UnexpectedAnswer(f"{response.url} answered with a block height that is no height of a block")
    return None if height is None else int(height)


def _next_cursor(response: httpx.Response) -> str | None:
    link = response.links.get("next")
    try:
        return None if link is None else parse_qs(urlsplit(str(link["url"])).query)["after"][0]
    except (KeyError, ValueError):
        raise UnexpectedAnswer(f"{response.url} answered with a link that leads to no next page") from None


def with_strings(body: object) -> object:
    """A request's body, or a list of them, with its amounts as strings of digits."""
    if isinstance(body, list):
        return [with_strings(item) for item in body]
    if not isinstance(body, Mapping):
        return body
    return {name: str(value) if name in AMOUNT_FIELDS and type(value) is int else value for name, value in body.items()}
