"""The listener of metrics: what it shows, and to whom."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

import pytest

from cairn.api.server import small_server
from cairn.api.server.metrics_server import MetricsServer
from cairn.config import Settings
from cairn.time_shares import TimeShares
from tests.support.pace import PATIENCE_S
from tests.support.small_servers import Listening, serving

ASKED = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@asynccontextmanager
async def listening_with(settings: Settings, shares: TimeShares | None = None) -> AsyncIterator[Listening]:
    """However slow the machine is, no connection takes too long by accident."""

    async def refresh() -> None:
        await asyncio.sleep(0)

    with patch.object(small_server, "TIMEOUT_S", PATIENCE_S):
        async with serving(MetricsServer(settings, refresh, shares or TimeShares())) as made:
            yield made


@pytest.fixture
async def listening() -> AsyncIterator[Listening]:
    async with listening_with(Settings()) as made:
        yield made


async def test_the_metrics_are_shown(listening: Listening) -> None:
    head, _, body = (await listening.ask(ASKED)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n")
    assert b"# TYPE cairn_chain_transactions_total counter" in body
    assert (await listening.ask(ASKED.replace(b"/metrics", b"/"))).startswith(b"HTTP/1.1 404 ")
    assert (await listening.ask(ASKED.replace(b"GET", b"POST"))).startswith(b"HTTP/1.1 405 ")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"HTTP/1.1\r\nHost: 127.0.0.1:8646", b"200 OK"),
        (b"HTTP/1.1\r\nhost:[::1]:8646", b"200 OK"),
        (b"HTTP/1.1\r\nHost: node.example.com", b"200 OK"),
        (b"HTTP/1.0", b"200 OK"),
        (b"HTTP/1.1\r\nHost: rebound.example", b"403 Forbidden"),
        (b"HTTP/1.1", b"400 Bad Request"),
        (b"HTTP/1.1\r\nHost: localhost\r\nHost: rebound.example", b"400 Bad Request"),
    ],
)
async def test_on_loopback_a_request_must_give_a_name_of_this_node(head: bytes, status: bytes) -> None:
    """A page that rebinds its own name to 127.0.0.1 has the browser send that name."""
    async with listening_with(Settings(allowed_hosts=("node.example.com",))) as listening:
        answer = await listening.ask(b"GET /metrics " + head + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status)


async def test_on_other_addresses_any_name_will_do() -> None:
    async with listening_with(Settings(metrics_host="0.0.0.0")) as listening:
        answer = await listening.ask(b"GET /metrics HTTP/1.1\r\nHost: validator-2\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")


async def test_silent_clients_do_not_keep_prometheus_out(listening: Listening) -> None:
    silent = [await listening.connect() for _ in range(40)]
    for _ in range(20):
        assert (await listening.ask(ASKED)).startswith(b"HTTP/1.1 200 ")
    for _, writer in silent:
        writer.close()


async def test_each_scrape_is_charged_to_its_client() -> None:
    shares = TimeShares()
    async with listening_with(Settings(), shares) as listening:
        await listening.ask(ASKED.replace(b"/metrics", b"/"), address="127.0.0.2")
        assert shares.known_clients == 0
        await listening.ask(ASKED, address="127.0.0.2")
    assert shares.known_clients == 1
