"""Who may ask, under which name, from which page, and how often."""

from dataclasses import replace

import pytest

from cairn.api.server import access
from cairn.api.server.access import HostList, OriginList, RateLimiter, find_origin
from cairn.config import Settings
from cairn.domain.errors import ForbiddenHost, ForbiddenOrigin, MalformedRequest

NODE = replace(Settings(), host="node.example", allowed_hosts=("Api.Example",), cors_origins=("https://app.example/",))


@pytest.mark.parametrize(
    "host",
    [b"localhost", b"LOCALHOST:8645", b"my.localhost:1", b"127.0.0.1:8645", b"[::1]:8645", b"[::1]", b"10.1.2.3",
     b"192.168.0.7:80", b"node.example:8645", b"api.example", b"API.EXAMPLE.:443"],
)  # fmt: skip
def test_names_of_this_node(host: bytes) -> None:
    HostList(NODE).check([(b"host", host)], "1.1")


@pytest.mark.parametrize(
    "host",
    [b"evil.example", b"localhost.evil.example", b"notlocalhost", b"127.0.0.1.evil.example", b"", b"[::1", b"\xff",
     b"evil.example:8645", b"other.api.example", b"evil@localhost", b"evil:x@localhost:8645", b"localhost/evil",
     b"localhost?evil", b"localhost#evil", b"localhost\\evil", b"localhost:evil", b"[localhost]", b"::1", b"a b"],
)  # fmt: skip
def test_other_names_are_refused(host: bytes) -> None:
    with pytest.raises(ForbiddenHost):
        HostList(NODE).check([(b"host", host)], "1.1")


def test_the_page_that_asks() -> None:
    assert find_origin([(b"host", b"localhost"), (b"origin", b"https://app.example")]) == "https://app.example"
    assert find_origin([(b"host", b"localhost")]) is None
    with pytest.raises(MalformedRequest):
        find_origin([(b"origin", b"https://evil.example"), (b"origin", b"https://app.example")])


def test_a_missing_host() -> None:
    HostList(NODE).check([(b"hosts", b"localhost")], "1.0")
    with pytest.raises(MalformedRequest):
        HostList(NODE).check([(b"hosts", b"localhost")], "1.1")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_more_than_one_host(version: str) -> None:
    with pytest.raises(MalformedRequest):
        HostList(NODE).check([(b"host", b"localhost"), (b"accept", b"*/*"), (b"host", b"localhost")], version)


def test_every_host_when_told_so() -> None:
    HostList(replace(Settings(), allowed_hosts=("*",))).check([(b"host", b"anything")], "1.1")


def test_verdicts_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_REMEMBERED", 3)
    hosts = HostList(NODE)
    for number in range(10):
        assert not hosts.allows(b"evil%d" % number)
    assert hosts.allows.cache_info().currsize <= 3


def test_origins() -> None:
    origins = OriginList(NODE)
    assert origins.check("http://localhost:8645", "localhost:8645") == "own"
    assert origins.check("https://LOCALHOST:8645", "localhost:8645") == "own", "behind a proxy that adds TLS"
    assert origins.check("https://app.example", "localhost:8645") == "listed"
    assert origins.check("https://APP.example", "localhost:8645") == "listed"


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "", "https://app.example.evil", "http://app.example", "http://", "localhost:8645",
     "http://[", "http://a]b", "http://evil@localhost:8645", "http://localhost:8645/evil", "ftp://localhost:8645"],
)  # fmt: skip
def test_other_origins_are_refused(origin: str) -> None:
    for host in ("localhost:8645", ""):
        with pytest.raises(ForbiddenOrigin):
            OriginList(NODE).check(origin, host)


@pytest.mark.parametrize("scheme", ["chrome-extension", "moz-extension", "safari-web-extension"])
def test_browser_extensions_only_where_wallets_ask(scheme: str) -> None:
    origin = f"{scheme}://nkbihfbeogaeaoehlefnkodbefgpgknn"
    assert OriginList(NODE).check(origin, "localhost", for_wallets=True) == "listed"
    with pytest.raises(ForbiddenOrigin):
        OriginList(NODE).check(origin, "localhost")


@pytest.mark.parametrize("origin", ["https://chrome-extension", "https://evil.example", "null", "http://localhost:1"])
def test_no_web_page_passes_for_a_wallet(origin: str) -> None:
    with pytest.raises(ForbiddenOrigin):
        OriginList(NODE).check(origin, "localhost:8645", for_wallets=True)


def test_every_origin_when_told_so() -> None:
    assert OriginList(replace(Settings(), cors_origins=("*",))).check("null", "localhost") == "listed"


@pytest.mark.parametrize(
    "origin",
    ["http://localhost:3000", "https://LOCALHOST", "http://127.0.0.1:5173", "http://127.9.9.9", "http://[::1]:3000",
     "http://app.localhost:3000", "https://a.b.localhost"],
)  # fmt: skip
def test_a_page_of_this_machine_is_a_guest_on_a_dev_chain_only(origin: str) -> None:
    assert OriginList(NODE, lambda: True).check(origin, "localhost:8645") == "guest"
    assert OriginList(NODE, lambda: True).check(origin, "127.0.0.1:8645", for_wallets=True) == "guest"
    listed = replace(NODE, cors_origins=(origin,))
    assert OriginList(listed, lambda: True).check(origin, "localhost:8645") == "listed"
    with pytest.raises(ForbiddenOrigin):
        OriginList(NODE, lambda: False).check(origin, "localhost:8645")


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "", "file://", "http://localhost.evil.example", "http://notlocalhost",
     "http://127.0.0.1.evil.example", "http://10.0.0.1:3000", "http://192.168.0.7", "http://[2001:db8::1]:3000",
     "http://localhost:3000/evil", "http://evil@localhost:3000", "http://localhost:evil", "http://localhost:",
     "ftp://localhost", "ws://localhost", "http://0.0.0.0:3000", "http://[::]", "http://[localhost]",
     "http://127.1", "http://2130706433", "chrome-extension://a", "http://localhost:3000\n", "http://localhost evil"],
)  # fmt: skip
def test_no_other_page_is_a_guest(origin: str) -> None:
    with pytest.raises(ForbiddenOrigin):
        OriginList(NODE, lambda: True).check(origin, "localhost:8645")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def limiter(rate: float = 10, burst: int = 3) -> tuple[RateLimiter, Clock]:
    clock = Clock()
    return RateLimiter(replace(Settings(), rate_limit_per_s=rate, rate_limit_burst=burst), clock), clock


def test_burst_then_rate() -> None:
    limited, clock = limiter()
    assert [limited.take("10.0.0.1") for _ in range(5)] == [True, True, True, False, False]
    clock.now += 0.1
    assert [limited.take("10.0.0.1") for _ in range(2)] == [True, False]
    assert limited.take("10.0.0.2"), "another client has a bucket of its own"
    clock.now += 3600
    assert [limited.take("10.0.0.1") for _ in range(4)] == [True, True, True, False]


def test_several_requests_at_once_are_counted_together_or_not_at_all() -> None:
    limited, clock = limiter()
    assert not limited.take("10.0.0.1", 4)
    assert limited.take("10.0.0.1", 2)
    assert not limited.take("10.0.0.1", 2)
    assert limited.take("10.0.0.1"), "what was refused was not counted"
    clock.now += 0.2
    assert limited.take("10.0.0.1", 2)
    assert not limited.take("10.0.0.1")


def test_who_is_limited() -> None:
    limited, _ = limiter()
    assert limited.limits("10.0.0.1")
    assert not limited.limits("127.0.0.1")
    assert not limiter(rate=0)[0].limits("10.0.0.1")


def test_an_ipv6_network_is_one_client() -> None:
    limited, _ = limiter(burst=1)
    assert limited.take("2001:db8::1")
    assert not limited.take("2001:db8::2")
    assert limited.take("2001:db8:0:1::1")
    assert not limited.take("2001:db8:0:1::2%eth0")


def test_an_ipv4_client_of_a_socket_for_both_versions_is_one_client() -> None:
    limited, _ = limiter(burst=1)
    assert limited.take("::ffff:10.0.0.1")
    assert limited.take("::ffff:10.0.0.2"), "another client has a bucket of its own"
    assert not limited.take("::ffff:10.0.0.1")
    assert not limited.take("10.0.0.1"), "the same client, however it is written"


def test_asking_what_is_left_counts_nothing() -> None:
    limited, clock = limiter(rate=1, burst=1)
    assert [limited.has_left("10.0.0.1") for _ in range(3)] == [True, True, True]
    assert limited.take("10.0.0.1")
    assert not limited.has_left("10.0.0.1")
    clock.now += 1
    assert limited.has_left("10.0.0.1")


def test_buckets_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_BUCKETS", 10)
    limited, clock = limiter(rate=1, burst=1)
    for number in range(15):
        limited.take(f"10.0.0.{number}")
    assert len(limited._buckets) <= 10
    for _ in range(2):
        clock.now += 0.6
        for number in range(8):
            limited.take(f"10.0.1.{number}")
    assert len(limited._buckets) <= 10


def test_a_changed_rate_holds_for_clients_that_are_known() -> None:
    limits, clock = limiter(rate=10, burst=3)
    assert limits.take("192.0.2.1", 3)
    limits.adjust(replace(Settings(), rate_limit_per_s=1, rate_limit_burst=2))
    assert not limits.has_left("192.0.2.1")
    clock.now += 1
    assert limits.take("192.0.2.1")
    clock.now += 100
    assert not limits.take("192.0.2.1", 3)
    limits.adjust(replace(Settings(), rate_limit_per_s=0))
    assert not limits.limits("192.0.2.1")
