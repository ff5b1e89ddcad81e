"""The receiver of the webhooks: one attempt to deliver, and what its answer means."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Self

import httpx

from cairn import __version__
from cairn.cli.forward.webhooks import Webhook, headers_of
from cairn.cli.screen import escaped
from cairn.client.transport import proxies_for
from cairn.domain.errors import InvalidConfig
from cairn.loopback import is_loopback

CONNECT_TIMEOUT_S = 5.0
BODY_TIMEOUT_S = 2.0
"""For the rest of an answer whose status is known."""
MAX_ANSWER_BYTES = 16 * 1024
"""A longer answer is not read to its end, and the connection is closed."""
SHOWN_LETTERS = 200
LONGEST_RETRY_AFTER_S = 3_600.0

GONE = 410
NOT_OF_THE_EVENT = frozenset({401, 403, 404, 405, 407, 408, 421, 425, 429, 502, 503, 504})
"""These say that the receiver, or the way to it, is busy, away or not set up. Redirects do, too."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt has failed."""

    detail: str
    status: int | None = None
    """None if there was no answer."""
    retry_after_s: float = 0.0

    @property
    def is_refusal(self) -> bool:
        """Whether the receiver has refused this event, rather than any event at this time."""
        return self.status is not None and self.status >= 400 and self.status not in NOT_OF_THE_EVENT


class Receiver:
    """A client of the receiver at `url`; use it as a context manager.

    Redirects are not followed: what is signed for one receiver is not for another. Certificates are verified.
    """

    def __init__(self, url: str, keys: Sequence[bytes], timeout_s: float) -> None:
        self._url = url
        path, query, _ = url.partition("?")
        self.shown_url = path + (query and "?…")
        """Without the query, which may hold a token."""
        self._keys = keys
        self._timeout_s = timeout_s
        self._http = httpx.AsyncClient(
            # By the scheme as it is understood: it may be written in capitals.
            verify=httpx.URL(url).scheme == "https",
            timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s)),
            limits=httpx.Limits(max_connections=1),
            headers={"User-Agent": f"Cairn/{__version__}", "Accept-Encoding": "identity"},
            mounts=proxies_for(httpx.URL(url)),
        )
        self.idle = asyncio.Event()
        """Set unless an attempt is under way."""
        self.idle.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def post(self, webhook: Webhook) -> Failure | None:
        """Try once. None if it is delivered: if the status is 2xx, whatever follows it."""
        self.idle.clear()
        try:
            return await self._post(webhook)
        finally:
            self.idle.set()

    async def _post(self, webhook: Webhook) -> Failure | None:
        headers = headers_of(webhook, self._keys, int(time.time()))
        response: httpx.Response | None = None
        body = bytearray()
        try:
            async with (
                asyncio.timeout(self._timeout_s) as limit,
                self._http.stream("POST", self._url, content=webhook.body, headers=headers) as response,
            ):
                ends_at = asyncio.get_running_loop().time() + BODY_TIMEOUT_S
                limit.reschedule(min(limit.when() or ends_at, ends_at))
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > MAX_ANSWER_BYTES:
                        break
        except TimeoutError:
            if response is None:
                return Failure(f"no answer within {self._timeout_s:g} s")
        except httpx.HTTPError as error:
            if response is None:
                return Failure(str(error) or type(error).__name__)
        assert response is not None
        return None if response.is_success else _failure_of(response, bytes(body))


def _failure_of(response: httpx.Response, body: bytes) -> Failure:
    status = response.status_code
    said = " ".join(escaped(body[:SHOWN_LETTERS].decode(errors="replace").strip()).split())
    if response.is_redirect:
        said = "a redirect, which is not followed: give --to the URL that it leads to"
    detail = f"{status} {response.reason_phrase}".strip() + (f": {said}" if said else "")
    return Failure(detail, status, _retry_after_s(response.headers.get("retry-after", "")))


def _retry_after_s(text: str) -> float:
    """Seconds, or the time until a date; an hour at most, and 0 if there is none."""
    if text.isdecimal():
        # A longer number is more than an hour, too.
        return min(float(text[:10]), LONGEST_RETRY_AFTER_S)
    try:
        return max(0.0, min(parsedate_to_datetime(text).timestamp() - time.time(), LONGEST_RETRY_AFTER_S))
    except (ValueError, OverflowError):
        return 0.0


def check_url(text: str, allow_insecure: bool) -> httpx.URL:
    """The URL of a receiver. Raises `InvalidConfig`."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as wrong:
        raise InvalidConfig(f"--to {text}: {wrong}") from None
    if url.userinfo:
        raise InvalidConfig("--to: leave out the user and password; the signature shows who sends")
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidConfig(f"--to {text}: expected a URL, such as https://shop.example/hook")
    if url.port is not None and not 0 < url.port < 65_536:
        raise InvalidConfig(f"--to {text}: there is no port {url.port}")
    try:
        url.host.encode("idna")
    except UnicodeError as wrong:
        raise InvalidConfig(f"--to {text}: the host has no valid name: {wrong}") from None
    if url.scheme == "http" and not allow_insecure and not is_loopback(url.host):
        raise InvalidConfig(
            f"--to {text}: others could read the events on the way; use https, or accept that with --insecure-http"
        )
    return url
