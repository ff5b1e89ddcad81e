"""A head that was seen before is not parsed again, and its request is served as if it were."""

import json
import re
from dataclasses import replace
from typing import Any

import httptools
import pytest

from cairn.api.server import known_heads
from cairn.config import Settings
from tests.support.core_fixtures import signed
from tests.support.rest_node import body_of, hash_of, without
from tests.support.rest_server import (
    CONFIRMED,
    Client,
    RestServer,
    assert_problem,
    get,
    post,
    post_tx,
    rest_server,
    submitted,
)

pytestmark = pytest.mark.uvloop


class Parsed(list[bytes]):
    """What the parser was given."""


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Parsed:
    seen = Parsed()

    class Watched(httptools.HttpRequestParser):
        def feed_data(self, data: Any) -> None:
            seen.append(data)
            super().feed_data(data)

    monkeypatch.setattr(httptools, "HttpRequestParser", Watched)
    return seen


async def submit(server: RestServer, client: Client, *nonces: int) -> None:
    for nonce in nonces:
        answer = await submitted(server, client, post_tx(signed(nonce)))
        assert answer.json() == {"status": "pending", "txHash": hash_of(signed(nonce))}


async def test_the_same_head_is_parsed_once_by_all_connections(parsed: Parsed, server: RestServer) -> None:
    for _ in range(2):
        async with server.client() as client:
            await submit(server, client, 0, 1, 2)
    assert parsed == [post_tx(signed(0))]


async def test_a_known_head_is_passed_by_after_another_request_on_its_connection(
    parsed: Parsed, server: RestServer
) -> None:
    async with server.client() as client:
        await submit(server, client, 0)
        assert (await client.ask(get("/health"))).status == 200
        await submit(server, client, 1)
    assert parsed == [post_tx(signed(0)), get("/health")]


async def test_the_head_of_a_read_is_parsed_once_whatever_its_target(parsed: Parsed, server: RestServer) -> None:
    known, unknown = "/tx/" + hash_of(CONFIRMED), "/tx/0x" + "ab" * 32
    async with server.client() as client:
        for target, status in ((known, 200), ("/health", 200), (unknown, 404), (known + "?amounts=string", 200)):
            assert (await client.ask(get(target))).status == status
    assert parsed == [get(known)]


@pytest.mark.parametrize(
    "other",
    [
        get("/tx/" + hash_of(CONFIRMED)[:-1] + "g"),
        get("/tx/" + hash_of(CONFIRMED) + "?wait=0"),
        get("/ready"),
        get("http://localhost/health"),
        get("/health", "Connection: close"),
        get("/health", "X: 1", "X: 2"),
        get("/health").replace(b"HTTP/1.1", b"HTTP/1.0"),
        get("/health").replace(b"GET ", b"HEAD "),
        get("/health").replace(b"GET ", b"get "),
        get("/health").replace(b"GET ", b"GET  "),
        get("/health").replace(b"\r\n", b"\n"),
        get("/health").replace(b"localhost", b"evil.example"),
        get("/health#x"),
        get("/heal th"),
        b"\r\n" + get("/health"),
        get("/health").removeprefix(b"GET /health"),
    ],
)
async def test_a_read_is_answered_alike_with_and_without_known_heads(server: RestServer, other: bytes) -> None:
    for head in (get("/health"), get("/tx/" + hash_of(CONFIRMED))):
        answers = list[bytes]()
        for is_known in (False, True):
            server.server._state.known_heads.clear()
            async with server.client() as client:
                if is_known:
                    assert (await client.ask(head)).status == 200
                client.write(other)
                answer = await client.some()
                # Not before: its answer would say that it is the last.
                client.finish()
                answers.append(re.sub(rb"date: .*\r\n", b"", answer + await client.rest()))
        assert answers[0] == answers[1] != b""


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["without an end", "with its end"])
async def test_the_head_of_a_post_behind_a_target_is_none_of_a_read(server: RestServer, end: bytes) -> None:
    head = post_tx(signed(0)).partition(b"\r\n\r\n")[0]
    async with server.client() as client:
        await submit(server, client, 0)
    assert head in server.server._state.known_heads
    async with server.client() as client:
        client.write(b"GET /health " + head + end)
        client.finish()
        assert b" 200 OK" not in await client.rest()


async def test_another_header_is_another_head(parsed: Parsed, server: RestServer) -> None:
    async with server.client() as client:
        await submit(server, client, 0)
        assert_problem(await client.ask(post_tx(signed(1), "Origin: http://evil.example")), 403, "FORBIDDEN_ORIGIN")
        assert_problem(await client.ask(post_tx(signed(1)).replace(b"localhost", b"evil.name")), 403, "FORBIDDEN_HOST")
    assert len(parsed) == 3


async def test_two_requests_at_once_are_both_served(server: RestServer) -> None:
    async with server.client() as client:
        await submit(server, client, 0)
        client.write(post_tx(signed(1)) + post_tx(signed(2)))
        await server.submissions(3)
        server.core.admit_all()
        assert [(await client.answer()).json()["txHash"] for _ in range(2)] == [hash_of(signed(1)), hash_of(signed(2))]


async def test_a_known_head_whose_body_comes_in_pieces_is_served(server: RestServer) -> None:
    async with server.client() as client:
        await submit(server, client, 0)
        whole = post_tx(signed(1))
        client.write(whole[:-10])
        await server.heard(len(post_tx(signed(0)) + whole) - 10)
        client.write(whole[-10:])
        await server.submissions(2)
        server.core.admit_all()
        assert (await client.answer()).json()["txHash"] == hash_of(signed(1))


async def test_what_an_earlier_request_left_over_is_not_forgotten(server: RestServer) -> None:
    async with server.client() as client:
        await submit(server, client, 0, 1)
        # The parser has got the first letter of a method: with it, what follows is none.
        client.write(post_tx(signed(2)) + b"P")
        await server.submissions(3)
        await server.heard(3 * len(post_tx(signed(0))) + 1)
        client.write(post_tx(signed(3)))
        server.core.admit_all()
        assert (await client.answer()).status == 200
        assert_problem(await client.answer(), 400, "MALFORMED_REQUEST")
    assert len(server.core.submitted) == 3


async def test_nothing_is_served_after_the_last_request(server: RestServer) -> None:
    async with server.client() as client:
        await submit(server, client, 0)
        client.write(get("/chain", "Connection: close"))
        client.write(post_tx(signed(1)))
        assert (await client.answer()).status
        assert await client.rest() == b""
    assert len(server.core.submitted) == 1


async def test_one_that_only_the_application_can_answer_is_answered_by_it(parsed: Parsed, server: RestServer) -> None:
    async with server.client() as client:
        nonceless = json.dumps(without(body_of(signed(0)), "nonce")).encode()
        for _ in range(3):
            # The core must be asked for the nonce, which the scripted one refuses.
            assert_problem(await client.ask(post(nonceless)), 503, "STORE_UNAVAILABLE")
    assert len(parsed) == 1


async def test_behind_a_proxy_a_head_is_parsed_once_for_each_client(parsed: Parsed) -> None:
    settings = replace(
        Settings(), workers=1, trusted_proxies=("127.0.0.1",), rate_limit_per_s=0.001, rate_limit_burst=3
    )
    path = "/tx/" + hash_of(CONFIRMED)
    first, other = get(path, "X-Forwarded-For: 192.0.2.1"), get(path, "X-Forwarded-For: 192.0.2.2")
    async with rest_server(settings) as server, server.client() as client:
        assert [(await client.ask(request)).status for request in (first, other) * 3] == [200] * 6
        assert parsed == [first, other]
        # Each has used up what is its own, and a third has not.
        assert [(await client.ask(request)).status for request in (first, other)] == [429, 429]
        assert (await client.ask(get(path, "X-Forwarded-For: 192.0.2.3"))).status == 200


async def test_a_head_that_names_nobody_clearly_is_refused_behind_a_proxy_though_it_is_known(parsed: Parsed) -> None:
    unclear = get("/health", "X-Forwarded-For: nonsense")
    async with rest_server(replace(Settings(), trusted_proxies=("127.0.0.1",))) as server:
        async with server.client(address="127.0.0.2") as direct:
            assert [(await direct.ask(unclear)).status for _ in range(2)] == [200, 200]
        assert parsed == [unclear]
        async with server.client() as client:
            assert (await client.ask(get("/health", "X-Forwarded-For: 192.0.2.1"))).status == 200
            assert_problem(await client.ask(unclear), 400, "MALFORMED_REQUEST")


async def test_after_the_settings_have_changed_each_head_is_parsed_again(parsed: Parsed, server: RestServer) -> None:
    async with server.client() as client:
        await submit(server, client, 0, 1)
        server.server.adjust(Settings())
        await submit(server, client, 2, 3)
    assert parsed == [post_tx(signed(0)), post_tx(signed(2))]


async def test_only_so_many_heads_are_remembered(server: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_heads, "MAX_HEADS", 2)
    async with server.client() as client:
        for number in range(5):
            await submitted(server, client, post_tx(signed(number), f"X-Number: {number}"))
            [connection] = server.connections
            assert 1 <= len(connection._state.known_heads) <= 2
        await submitted(server, client, post_tx(signed(5), "X-Long: " + "x" * 1_024))
        assert not any(b"X-Long" in head for head in connection._state.known_heads)
