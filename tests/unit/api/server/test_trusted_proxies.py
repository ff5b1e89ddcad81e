"""Behind a trusted proxy a client is who the proxy names, and nobody can name somebody else."""

import time
from contextlib import suppress
from dataclasses import replace

import pytest
from websockets.exceptions import InvalidStatus

from cairn.api.server.trusted_proxies import TrustedProxies
from cairn.config import Settings
from cairn.domain.errors import MalformedRequest
from tests.support.core_fixtures import signed
from tests.support.event_client import connect_patiently
from tests.support.rest_server import CONFIRMED, Answer, RestServer, get, post, post_tx, rest_server

pytestmark = pytest.mark.uvloop

PROXIES = TrustedProxies(replace(Settings(), trusted_proxies=("127.0.0.1", "10.0.0.0/8", "2001:db8:aa::/48")))
KNOWN = f"/tx/0x{CONFIRMED.hash.hex()}"
APPLICATION = "Origin: http://localhost"
"""Leaves a request to the application."""
BEHIND_PROXY = replace(
    Settings(), workers=1, trusted_proxies=("127.0.0.1",), rate_limit_per_s=0.001, rate_limit_burst=3
)
WEBSOCKET = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


def found(*lines: tuple[bytes, bytes]) -> str | None:
    return PROXIES.find_client(lines)


def x_forwarded_for(value: bytes) -> str | None:
    return found((b"x-forwarded-for", value))


def forwarded(value: bytes) -> str | None:
    return found((b"forwarded", value))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.0.0.2", False),
        ("::ffff:127.0.0.1", True),
        ("10.255.0.1", True),
        ("11.0.0.1", False),
        ("2001:db8:aa:1::5", True),
        ("2001:db8:bb::5", False),
        ("", False),
        ("testclient", False),
    ],
)
def test_an_address_is_trusted_if_the_setting_lists_it_or_its_network(address: str, expected: bool) -> None:
    assert PROXIES.trusts(address) is expected


def test_none_is_trusted_unless_the_setting_names_one() -> None:
    assert not TrustedProxies(Settings())
    assert not TrustedProxies(Settings()).trusts("127.0.0.1")


@pytest.mark.parametrize(
    ("value", "client"),
    [
        (b"192.0.2.1", "192.0.2.1"),
        (b" 192.0.2.1 ", "192.0.2.1"),
        (b"192.0.2.1:4711", "192.0.2.1"),
        (b"2001:db8::1", "2001:db8::1"),
        (b"[2001:db8::1]", "2001:db8::1"),
        (b"[2001:db8::1]:4711", "2001:db8::1"),
        (b"::ffff:192.0.2.1", "::ffff:c000:201"),
        # What the client wrote itself is to the left of it.
        (b"203.0.113.9, 192.0.2.1", "192.0.2.1"),
        (b"127.0.0.1, 192.0.2.1", "192.0.2.1"),
        (b"<script>, 192.0.2.1", "192.0.2.1"),
        # A proxy behind a proxy.
        (b"203.0.113.9, 192.0.2.1, 10.0.0.7", "192.0.2.1"),
        (b"192.0.2.1, 10.0.0.7, 10.0.0.8", "192.0.2.1"),
        (b"10.0.0.6, 10.0.0.7", "10.0.0.6"),
        # Empty entries mean nothing.
        (b", 192.0.2.1,,", "192.0.2.1"),
        (b"", None),
        (b" , ", None),
        # A proxy that does not say counts itself.
        (b"unknown", None),
        (b"192.0.2.1, unknown, 10.0.0.7", "10.0.0.7"),
    ],
)
def test_x_forwarded_for_names_its_rightmost_address_that_is_no_proxy(value: bytes, client: str | None) -> None:
    assert x_forwarded_for(value) == client


@pytest.mark.parametrize(
    ("value", "client"),
    [
        (b"for=192.0.2.1", "192.0.2.1"),
        (b"For=192.0.2.1;proto=https;by=10.0.0.1", "192.0.2.1"),
        (b'proto=http; for="192.0.2.1:4711"', "192.0.2.1"),
        (b'for="[2001:db8::1]:4711"', "2001:db8::1"),
        (b'for="[2001:db8::1]"', "2001:db8::1"),
        (b'for="192.0.2.1:_port"', "192.0.2.1"),
        (b'for="192.0.\\2.1"', "192.0.2.1"),
        (b'for=203.0.113.9, for=192.0.2.1, for="10.0.0.7"', "192.0.2.1"),
        (b'host="a,for=203.0.113.9";for=192.0.2.1', "192.0.2.1"),
        (b",for=192.0.2.1, ,", "192.0.2.1"),
        (b"for=unknown", None),
        (b"for=_hidden, for=10.0.0.7", "10.0.0.7"),
        (b"proto=https", None),
        (b"for=192.0.2.1, proto=https", None),
        (b"", None),
    ],
)
def test_forwarded_names_its_rightmost_address_that_is_no_proxy(value: bytes, client: str | None) -> None:
    assert forwarded(value) == client


@pytest.mark.parametrize(
    "value",
    [b"nonsense", b"192.0.2.1, nonsense", b"1.2.3", b"1.2.3.4.5", b"192.0.2.256", b"192.0.2.1:", b"192.0.2.1:123456"]
    + [b"[::1", b"::1]", b"[192.0.2.1]x", b"fe80::1%eth0\x80", b'"192.0.2.1"', b"192.0.2.1 192.0.2.2", b"\xff"],
)
def test_an_x_forwarded_for_that_does_not_end_with_an_address_is_refused(value: bytes) -> None:
    with pytest.raises(MalformedRequest):
        x_forwarded_for(value)


@pytest.mark.parametrize(
    "value",
    [b"192.0.2.1", b"for", b"for=", b'for=""', b'for="192.0.2.1', b"for = 192.0.2.1", b"for=[::1]", b"for=1.2.3.4:5"]
    + [b"for=192.0.2.1;for=192.0.2.2", b"for=nonsense", b"for=192.0.2.1 for=192.0.2.2", b"=x"]
    # A client that opens a quotation, into which the proxy then writes.
    + [b'for="203.0.113.9, for=192.0.2.1', b'for="203.0.113.9, for="[2001:db8::1]:4711"', b'for="\\"']
    + [b'for=203.0.113.9;x="a, for="[2001:db8::1]"'],
)
def test_a_forwarded_that_is_not_as_rfc_7239_says_is_refused(value: bytes) -> None:
    with pytest.raises(MalformedRequest):
        forwarded(value)


def test_several_lines_are_read_as_one_in_their_order() -> None:
    assert found((b"x-forwarded-for", b"203.0.113.9"), (b"x-forwarded-for", b"192.0.2.1")) == "192.0.2.1"
    assert found((b"forwarded", b"for=203.0.113.9"), (b"forwarded", b"for=192.0.2.1")) == "192.0.2.1"
    assert found((b"x-forwarded-for", b"192.0.2.1"), (b"x-forwarded-for", b"10.0.0.7")) == "192.0.2.1"
    with pytest.raises(MalformedRequest):
        found((b"forwarded", b'for="203.0.113.9'), (b"forwarded", b"for=192.0.2.1"))


def test_both_headers_must_name_the_same_client() -> None:
    assert found((b"x-forwarded-for", b"192.0.2.1"), (b"forwarded", b"for=203.0.113.9, for=192.0.2.1")) == "192.0.2.1"
    for client_wrote in (b"for=203.0.113.9", b"for=unknown", b"for=10.0.0.7", b"proto=https"):
        with pytest.raises(MalformedRequest, match="different clients"):
            found((b"x-forwarded-for", b"192.0.2.1"), (b"forwarded", client_wrote))


@pytest.mark.parametrize(
    "value",
    [b" \t" * 900 + b"x", b'for="' + b"\\" * 1_900, b"," * 2_000, b";" * 2_000, b"10.0.0.1," * 220, b":" * 1_900],
)
@pytest.mark.parametrize("name", [b"forwarded", b"x-forwarded-for"])
def test_a_header_made_to_take_long_takes_milliseconds(name: bytes, value: bytes) -> None:
    took_s = []
    for _ in range(10):
        begun = time.thread_time()
        with suppress(MalformedRequest):
            found((name, value))
        took_s.append(time.thread_time() - begun)
    # The least of them: what the host takes away counts as the thread's.
    assert min(took_s) < 0.05


def test_a_header_that_is_too_long_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="2048 bytes"):
        found(*[(b"x-forwarded-for", b"192.0.2.1")] * 300)


def test_other_headers_name_nobody() -> None:
    assert found((b"host", b"192.0.2.1"), (b"x-real-ip", b"192.0.2.1")) is None


# On the wire.


async def statuses(server: RestServer, *requests: bytes, address: str = "127.0.0.1") -> list[int]:
    async with server.client(address=address) as client:
        return [(await client.ask(request)).status for request in requests]


def assert_malformed(answer: Answer) -> None:
    assert (answer.status, answer.json()["code"]) == (400, "MALFORMED_REQUEST")


@pytest.mark.parametrize("further", [(), (APPLICATION,)])
@pytest.mark.parametrize("form", ["X-Forwarded-For: {}", "Forwarded: for={}"])
async def test_clients_of_a_proxy_have_a_rate_limit_each_on_hot_routes_and_application(
    further: tuple[str, ...], form: str
) -> None:
    async with rest_server(BEHIND_PROXY) as server:
        # As a proxy with connections that it keeps: requests of both arrive on one.
        requests = [get(KNOWN, form.format(client), *further) for client in ("192.0.2.1", "192.0.2.2") * 4]
        assert await statuses(server, *requests) == [200] * 6 + [429] * 2
        assert await statuses(server, get(KNOWN, form.format("192.0.2.3"), *further)) == [200]


@pytest.mark.parametrize("further", [(), (APPLICATION,)])
async def test_proxies_that_are_trusted_or_not_any_more_count_so_for_new_connections(further: tuple[str, ...]) -> None:
    async with rest_server(replace(BEHIND_PROXY, trusted_proxies=())) as server:
        requests = [get(KNOWN, f"X-Forwarded-For: {client}", *further) for client in ("192.0.2.1", "192.0.2.2") * 4]
        assert await statuses(server, *requests) == [200] * 8, "loopback has no limit"
        server.server.adjust(BEHIND_PROXY)
        assert await statuses(server, *requests) == [200] * 6 + [429] * 2
        assert await statuses(server, *[get(KNOWN, *further)] * 4, address="127.0.0.2") == [200] * 3 + [429]
        server.server.adjust(replace(BEHIND_PROXY, trusted_proxies=()))
        assert await statuses(server, *requests) == [200] * 8


async def test_connections_of_a_proxy_are_limited_once_it_is_not_trusted() -> None:
    settings = replace(BEHIND_PROXY, rate_limit_per_s=0, max_connections_per_client=1)
    async with rest_server(settings) as server, server.client(), server.client() as second:
        assert (await second.ask(get("/", "X-Forwarded-For: 192.0.2.1"))).status == 200
        server.server.adjust(replace(settings, trusted_proxies=("10.0.0.1",)))
        assert await statuses(server, get("/")) == [503]


async def test_submissions_and_calls_count_for_the_client_that_the_proxy_names() -> None:
    async with rest_server(BEHIND_PROXY) as server:
        first, other = "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2"
        call = b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
        async with server.client() as client:
            for _ in range(3):
                assert (await client.ask(post(call, first, path="/rpc"))).status == 200
            assert (await client.ask(post_tx(signed(0), first))).status == 429
            client.write(post_tx(signed(0), other))
            await server.submissions(1)
            server.core.admit_all()
            assert (await client.answer()).status == 200
            batch = b"[" + b",".join([call] * 4) + b"]"
            answers = (await client.ask(post(batch, other, path="/rpc"))).json()
            assert ["result" in answer for answer in answers] == [True, True, False, False]


async def test_what_a_client_writes_itself_does_not_help() -> None:
    async with rest_server(BEHIND_PROXY) as server:
        through = [get(KNOWN, f"X-Forwarded-For: 203.0.113.{number}, 192.0.2.1") for number in range(4)]
        assert await statuses(server, *through) == [200] * 3 + [429]
        direct = [get(KNOWN, f"X-Forwarded-For: 203.0.113.{number}") for number in range(4)]
        assert await statuses(server, *direct, address="127.0.0.2") == [200] * 3 + [429]
        # Named as the proxy itself, or as loopback, it is limited all the same.
        assert await statuses(server, *[get(KNOWN)] * 4) == [200] * 3 + [429]
        loopback = [get(KNOWN, "X-Forwarded-For: 127.0.0.3")] * 4
        assert await statuses(server, *loopback) == [200] * 3 + [429]


@pytest.mark.parametrize("path", [KNOWN, "/", "/health"])
async def test_a_proxy_that_names_nobody_clearly_is_refused(path: str) -> None:
    async with rest_server(replace(BEHIND_PROXY, rate_limit_burst=100)) as server:
        for lines in (
            ["X-Forwarded-For: nonsense"],
            ["Forwarded: for=192.0.2.1", "X-Forwarded-For: 192.0.2.2"],
        ):
            async with server.client() as client:
                assert_malformed(await client.ask(get(path, *lines)))
            # Of others these headers mean nothing.
            assert (await statuses(server, get(path, *lines), address="127.0.0.2")) == [200]


async def test_a_websocket_behind_a_proxy_is_its_clients() -> None:
    async with rest_server(BEHIND_PROXY) as server:
        url = f"ws://127.0.0.1:{server.port}/rpc"
        call = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
        first, other = {"X-Forwarded-For": "192.0.2.1"}, {"X-Forwarded-For": "192.0.2.2"}
        async with connect_patiently(url, additional_headers=first) as client:
            answers = []
            for _ in range(3):
                await client.send(call)
                answers.append(await client.recv())
            assert ["result" in answer for answer in answers] == [True, True, False], "the handshake counts as one"
        with pytest.raises(InvalidStatus) as refused:
            await connect_patiently(url, additional_headers=first)
        assert refused.value.response.status_code == 429
        assert "RATE_LIMITED" in refused.value.response.body.decode()
        assert int(refused.value.response.headers["retry-after"]) > 0
        async with connect_patiently(url, additional_headers=other) as client:
            await client.send(call)
            assert "result" in await client.recv()


async def test_connections_of_a_proxy_count_for_the_clients_that_ask_on_them() -> None:
    async with rest_server(replace(BEHIND_PROXY, rate_limit_per_s=0, max_connections_per_client=2)) as server:
        mine, other = "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2"
        async with server.client() as first, server.client() as second, server.client() as third:
            assert (await first.ask(get("/events", mine, *WEBSOCKET))).status == 101
            assert (await second.ask(get(KNOWN, mine))).status == 200
            assert (await third.ask(get(KNOWN, other))).status == 200, "a proxy has any number of connections"
            for probe in ("/health", "/ready", "/health"):
                assert (await third.ask(get(probe, mine))).status == 200
            refused = await third.ask(get(KNOWN, mine))
            assert (refused.status, refused.json()["code"]) == (503, "TOO_MANY_CONNECTIONS")
        await server.no_connections()
        async with server.client() as fourth:
            assert (await fourth.ask(get("/ready", mine))).status == 200, "probes are always answered"
            assert (await fourth.ask(get(KNOWN, mine))).status == 200, "the second connection has ended"


async def test_a_connection_that_changes_hands_counts_for_one_client_at_a_time() -> None:
    async with (
        rest_server(replace(BEHIND_PROXY, rate_limit_per_s=0, max_connections_per_client=1)) as server,
        server.client() as first,
        server.client() as second,
    ):
        for number in range(5):
            assert (await first.ask(get(KNOWN, f"X-Forwarded-For: 192.0.2.{number}"))).status == 200
        for number in range(4):
            assert (await second.ask(get("/", f"X-Forwarded-For: 192.0.2.{number}"))).status == 200
        assert (await second.ask(get("/", "X-Forwarded-For: 192.0.2.4"))).status == 503
