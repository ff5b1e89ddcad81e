"""Whether a host is this machine: the one answer, and that all who ask get it."""

from dataclasses import replace
from urllib.parse import urlsplit

import httpx
import pytest

from cairn.api.server.access import HostList, OriginList, RateLimiter
from cairn.cli.forward.receiver import check_url
from cairn.cli.operate.idle_settings import find_idle
from cairn.client.transport import Transport
from cairn.config import Given, Settings
from cairn.domain.errors import ForbiddenHost, ForbiddenOrigin, InvalidConfig
from cairn.loopback import is_loopback

HERE = ("127.0.0.1", "127.1.2.3", "127.255.255.255", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "::ffff:7f00:1")
NAMES = ("localhost", "LocalHost", "localhost.", "shop.localhost", "SHOP.LOCALHOST.")
ELSEWHERE = ("10.0.0.1", "128.0.0.1", "::2", "::ffff:10.0.0.1", "2001:db8::1")
LIMITED = replace(Settings(), rate_limit_per_s=1.0)
OTHER_NAMES = ("localhost.example", "localhost..", "notlocalhost", "node.example")


def in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@pytest.mark.parametrize("host", [*HERE, *NAMES, "[::1]", "[::FFFF:127.0.0.1]", "::1%lo", "[::1%1]", "127.0.0.1."])
def test_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [*ELSEWHERE, *OTHER_NAMES, "", ".", "0.0.0.0", "::", "[::]", "fe80::1%lo", "[::1", "::1]", "127.1", "1" * 9999],
)
def test_any_other(host: str) -> None:
    assert not is_loopback(host)


def asks_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://proxy.example:3128")
    url = f"http://{in_url(host)}:8645"
    http = Transport(url, timeout_s=1, silence_timeout_s=1, tls=None)._http
    return http._transport_for_url(httpx.URL(url)) is not http._transport


@pytest.mark.parametrize("host", [*HERE, *NAMES, *ELSEWHERE, *OTHER_NAMES])
def test_all_who_ask_get_the_same_answer(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    is_here = is_loopback(host)
    if host != "localhost..":
        # It names nothing: httpx has no URL of it.
        assert asks_proxy(host, monkeypatch) is not is_here
    assert takes_plain_http(host) is is_here
    assert takes_guest(host) is is_here
    if host in HERE or host in ELSEWHERE:
        assert RateLimiter(LIMITED, lambda: 0.0).limits(host) is not is_here
    else:
        assert takes_name(host) is is_here
    idle = find_idle({"rate_limit_per_s": [Given(1.0, "cairn.toml")]}, replace(LIMITED, host=host))
    assert bool(idle) is is_here


def takes_plain_http(host: str) -> bool:
    try:
        check_url(f"http://{in_url(host)}/hook", allow_insecure=False)
    except InvalidConfig:
        return False
    return True


def takes_guest(host: str) -> bool:
    try:
        return OriginList(Settings(), lambda: True).check(f"http://{in_url(host)}:5173", "node.test") == "guest"
    except ForbiddenOrigin:
        return False


def takes_name(host: str) -> bool:
    try:
        HostList(replace(Settings(), host="node.test")).check([(b"host", in_url(host).encode())], "1.1")
    except ForbiddenHost:
        return False
    return True


def test_a_url_gives_its_host_as_it_is_asked_for() -> None:
    assert is_loopback(urlsplit("ws://[::1%25lo]:8645/events").hostname or "")
