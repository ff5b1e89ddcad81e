"""Who the client of a request is where a proxy stands in front of the node.

A proxy names the client in X-Forwarded-For or in Forwarded (RFC 7239), behind whatever the client itself has sent
there. So the addresses are read from the right, and only as far as trusted proxies have written them: the client is
the first one that is not a trusted proxy itself.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import ip_address, ip_network

from cairn.api.server.access import MAX_REMEMBERED
from cairn.api.server.http_heads import Header
from cairn.config import Settings
from cairn.domain.errors import MalformedRequest
from cairn.loopback import parse_ip

FORWARDED, X_FORWARDED_FOR = b"forwarded", b"x-forwarded-for"
MAX_BYTES = 2_048
"""Of either header: some twenty proxies. What is longer was written by the client."""

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PAIR = re.compile(
    rb"[ \t]*+(?:(?P<name>" + _TOKEN + rb")=(?:(?P<token>" + _TOKEN + rb')|"(?P<quoted>(?:[^"\\]|\\.)*)"))?+'
    rb"[ \t]*+(?P<end>[;,]|\Z)"
)
_HIDDEN = rb"_[0-9A-Za-z._-]+"
_PORT = rb"(?::(?:[0-9]{1,5}|" + _HIDDEN + rb"))?"
_NODE = re.compile(
    rb"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<v4>[0-9.]{7,15})|(?i:unknown)|"
    + _HIDDEN
    + rb")"
    + _PORT
    # X-Forwarded-For has IPv6 addresses without brackets, too, and those have no port.
    + rb"|(?P<bare>[0-9A-Fa-f:.]{2,45})"
)


class TrustedProxies:
    """The proxies whose word is taken for who asks; none unless the setting names some."""

    def __init__(self, settings: Settings) -> None:
        self.adjust(settings)

    def adjust(self, settings: Settings) -> None:
        """Trust those of these settings from now on."""
        self._networks = [ip_network(text) for text in settings.trusted_proxies]
        self.trusts = lru_cache(MAX_REMEMBERED)(self._is_listed)
        """Whether this address is one of theirs."""
        # The requests of a client have the same headers again and again.
        self._read = lru_cache(MAX_REMEMBERED)(self._read_headers)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def _is_listed(self, client: str) -> bool:
        try:
            address = parse_ip(client)
        except ValueError:
            return False
        return any(address in network for network in self._networks)

    def find_client(self, headers: Iterable[Header]) -> str | None:
        """The client that a trusted proxy's request is from; None if it names none, so that it asks for itself.

        `headers` are all of the request's, names in lower case. Raises `MalformedRequest`: counted as the proxy's own,
        a request that cannot be read would take from everybody behind it.
        """
        lines: dict[bytes, list[bytes]] = {FORWARDED: [], X_FORWARDED_FOR: []}
        for name, value in headers:
            if name in lines:
                lines[name].append(value)
        forwarded, x_forwarded_for = (b",".join(values) if values else None for values in lines.values())
        if len(forwarded or b"") > MAX_BYTES or len(x_forwarded_for or b"") > MAX_BYTES:
            raise MalformedRequest(f"Forwarded or X-Forwarded-For has more than {MAX_BYTES} bytes")
        return self._read(forwarded, x_forwarded_for)

    def _read_headers(self, forwarded: bytes | None, x_forwarded_for: bytes | None) -> str | None:
        found = set()
        if forwarded is not None:
            found.add(self._walk(_nodes_of(forwarded)))
        if x_forwarded_for is not None:
            found.add(self._walk(node.strip() for node in x_forwarded_for.split(b",")))
        if len(found) > 1:
            # A proxy that writes one of them passes the other on as the client sent it, and nobody can tell which.
            raise MalformedRequest("Forwarded and X-Forwarded-For name different clients; the proxy must remove one")
        return found.pop() if found else None

    def _walk(self, nodes: Iterable[bytes]) -> str | None:
        """From the node's own peer to the left, as long as the hop that wrote an entry is trusted."""
        hop = None
        for node in reversed([node for node in nodes if node]):
            if hop is not None and not self.trusts(hop):
                break
            address = _parse_node(node)
            if address is None:
                # This proxy does not say who asks, so it counts itself.
                break
            hop = address
        return hop


def _nodes_of(forwarded: bytes) -> Iterator[bytes]:
    """The `for` of each element of a Forwarded header; `unknown` for one without it."""
    at, node, is_empty = 0, b"", True
    while True:
        pair = _PAIR.match(forwarded, at)
        if pair is None:
            raise _unreadable("Forwarded")
        if pair["name"] is not None:
            is_empty = False
            if pair["name"].lower() == b"for":
                if node:
                    raise _unreadable("Forwarded")
                node = pair["token"] or re.sub(rb"\\(.)", rb"\1", pair["quoted"]) or b'""'
        if pair["end"] != b";":
            if not is_empty:
                yield node or b"unknown"
            if not pair["end"]:
                return
            node, is_empty = b"", True
        at = pair.end()


def _parse_node(node: bytes) -> str | None:
    """The address, without its port; None for one that is hidden. Raises `MalformedRequest`."""
    match = _NODE.fullmatch(node)
    if match is None:
        raise _unreadable("Forwarded or X-Forwarded-For")
    text = match["v6"] or match["v4"] or match["bare"]
    if text is None:
        return None
    try:
        return str(ip_address(text.decode()))
    except ValueError:
        raise _unreadable("Forwarded or X-Forwarded-For") from None


def _unreadable(header: str) -> MalformedRequest:
    return MalformedRequest(f"{header}, which the proxy passes on, does not name an address")
