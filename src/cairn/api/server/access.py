"""Access rules: host names (against DNS rebinding), origins of web pages, and the rate limit of a client."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Literal

from cairn.api.server.http_heads import Header
from cairn.config import Settings
from cairn.domain.errors import ForbiddenHost, ForbiddenOrigin, MalformedRequest
from cairn.loopback import is_loopback, parse_ip

PROBE_PATHS = frozenset({"/health", "/startup", "/ready"})
"""Answered even to a client that is over its limits."""
MAX_REMEMBERED = 1_000
MAX_BUCKETS = 10_000
IPV6_CLIENT_BITS = 64
"""A client with an IPv6 address has a whole network of addresses, so the network is limited."""


EXPOSED_HEADERS: Header = (
    b"access-control-expose-headers",
    b"Link, X-Total-Count, X-Block-Height, X-Oldest-Block, X-Chain-Id, ETag, Retry-After",
)

EXTENSION_SCHEMES = ("chrome-extension://", "moz-extension://", "safari-web-extension://")
"""Schemes of the origins of browser extensions, such as wallets."""


PageKind = Literal["own", "listed", "guest"]
"""Whose page asks. A guest, on a dev chain, is a page that another program of this machine serves: it may read, and
submit what is signed, but use neither the keys nor the controls of the node."""
GUEST = "cairn.guest"
"""In the scope of a request of a guest: its origin."""
_PAGE = re.compile(r"https?://(?P<name>\[[0-9a-f:.]+\]|[0-9a-z._-]+)(:[0-9]+)?")

HOST_PATTERN = re.compile(rb"(?P<name>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(:[0-9]*)?")
"""A name or an address, and perhaps a port: nothing that others may read as a user or a path."""


class HostList:
    """The names that a request may give this node.

    A page that rebinds its own name to a loopback address makes a browser send that name, so names must be listed. An
    address cannot be rebound, so every address is allowed.
    """

    def __init__(self, settings: Settings) -> None:
        self._takes_all = "*" in settings.allowed_hosts
        self._names = {settings.host.lower(), *(name.lower() for name in settings.allowed_hosts)}
        self.allows = lru_cache(MAX_REMEMBERED)(self._is_ours)
        """Whether a request may give this node that name."""

    def check(self, headers: Iterable[tuple[bytes, bytes]], http_version: str) -> None:
        """`headers` are all of the request's, names in lower case. Raises `MalformedRequest` or `ForbiddenHost`."""
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) > 1:
            # A proxy may have used another one of them.
            raise MalformedRequest("the Host header is given more than once")
        if not hosts:
            if http_version == "1.1":
                raise MalformedRequest("the Host header is missing")
            return
        host = hosts[0]
        if not self.allows(host):
            shown = host[:80].decode("ascii", "backslashreplace")
            raise ForbiddenHost(f"{shown} is not a name of this node; allowed_hosts can list it")

    def _is_ours(self, host: bytes) -> bool:
        if self._takes_all:
            return True
        match = HOST_PATTERN.fullmatch(host)
        if match is None:
            return False
        host_name = match["name"].decode("ascii")
        name = host_name.lower().removeprefix("[").removesuffix("]").removesuffix(".")
        return name in self._names or is_address(name) or is_loopback(host_name)


class OriginList:
    """The web pages that may use this node from a browser."""

    def __init__(self, settings: Settings, takes_guests: Callable[[], bool] = lambda: False) -> None:
        self._takes_guests = takes_guests
        self._takes_all = "*" in settings.cors_origins
        self._takes_some = bool(settings.cors_origins)
        self._origins = {origin.lower().rstrip("/") for origin in settings.cors_origins}

    def check(self, origin: str, host: str, for_wallets: bool = False) -> PageKind:
        """Whose page it is. Raises `ForbiddenOrigin`.

        `for_wallets`: extensions of the browser may ask too. Its user has installed them, and no web page can take
        such an origin on.
        """
        lowered, named = origin.lower(), host.lower()
        # Compared as a whole: parsing it may fail, or give something unexpected.
        if named and lowered in (f"http://{named}", f"https://{named}"):
            return "own"
        if self._takes_all or lowered in self._origins or (for_wallets and lowered.startswith(EXTENSION_SCHEMES)):
            return "listed"
        if self._takes_guests() and _is_of_this_machine(lowered):
            return "guest"
        raise ForbiddenOrigin(f"pages of {origin[:80]!a} may not use this node; cors_origins can list it")

    def headers_for(self, origin: str | None, page: PageKind, for_wallets: bool) -> list[Header]:
        """The CORS headers of an answer; a request from no page has no origin.

        They depend on the origin, so caches must keep answers per origin.
        """
        if self._takes_all:
            return [(b"access-control-allow-origin", b"*"), EXPOSED_HEADERS]
        varies = [(b"vary", b"Origin")] if self._takes_some or for_wallets or self._takes_guests() else []
        if origin is None or page == "own":
            return varies
        return [(b"access-control-allow-origin", origin.encode("latin-1")), EXPOSED_HEADERS, *varies]


def _is_of_this_machine(origin: str) -> bool:
    """Whether a program of the browser's own machine serves the page: no browser takes such a name from elsewhere."""
    match = _PAGE.fullmatch(origin)
    return match is not None and is_loopback(match["name"])


def check_no_guest(guest: str | None, what: str) -> None:
    """Check that it is not a guest who asks for `what`; `guest` is the origin of one. Raises `ForbiddenOrigin`."""
    if guest is not None:
        raise ForbiddenOrigin(
            f"pages of {guest[:80]!a} may read this node and submit signed transactions, but not {what}; to allow it, "
            f"list the origin in cors_origins (cairn dev --cors-origins {guest[:80]})"
        )


def find_origin(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The origin of the page; `headers` are all of the request's, names in lower case. Raises `MalformedRequest`."""
    origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
    if len(origins) > 1:
        raise MalformedRequest("the Origin header is given more than once")
    return origins[0] if origins else None


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def is_local(client: str) -> bool:
    """Whether a client is on this machine; one without an address is, at a unix socket."""
    return not client or is_loopback(client)


class RateLimiter:
    """A token bucket per client address. Loopback is not limited, unless a proxy may be behind it. Each worker counts
    for itself.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self.adjust(settings)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def adjust(self, settings: Settings) -> None:
        """Count by these limits from now on."""
        self._rate = settings.rate_limit_per_s
        self._limits_loopback = bool(settings.trusted_proxies)
        self._burst = float(max(1, settings.rate_limit_burst))

    def limits(self, client: str) -> bool:
        """Whether requests of this client are counted at all."""
        return self._rate > 0 and (self._limits_loopback or not is_local(client))

    def has_left(self, client: str) -> bool:
        """Whether the client may make a request now; counts none."""
        return self._tokens(client_of(client), self._clock()) >= 1

    def take(self, client: str, requests: int = 1) -> bool:
        """Count so many requests; False, and none is counted, when the client has fewer left."""
        key, now = client_of(client), self._clock()
        tokens = self._tokens(key, now)
        if key not in self._buckets and len(self._buckets) >= MAX_BUCKETS:
            self._forget_rested(now)
        has_enough = tokens >= requests
        self._buckets[key] = (tokens - requests if has_enough else tokens, now)
        return has_enough

    def within_burst(self, requests: int) -> int:
        """So many, but no more than a client can ever have left after one request."""
        return max(0, min(requests, int(self._burst) - 1))

    def _tokens(self, key: str, now: float) -> float:
        tokens, at = self._buckets.get(key, (self._burst, now))
        return min(self._burst, tokens + (now - at) * self._rate)

    def _forget_rested(self, now: float) -> None:
        """Remove the buckets that are full again; if none is, remove all, in favour of the clients."""
        self._buckets = {
            key: (tokens, at)
            for key, (tokens, at) in self._buckets.items()
            if tokens + (now - at) * self._rate < self._burst
        }
        if len(self._buckets) >= MAX_BUCKETS:
            self._buckets.clear()


@lru_cache(maxsize=MAX_REMEMBERED)
def client_of(client: str) -> str:
    """The client that an address belongs to; all limits per client are counted by it."""
    try:
        address = parse_ip(client)
    except ValueError:
        return client
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Network((int(address), IPV6_CLIENT_BITS), strict=False))
