"""One attempt: what counts as delivered, and what a receiver that lies, hangs or never ends can do to it."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from functools import partial
from pathlib import Path
from time import time
from unittest.mock import patch

import httpx
import pytest

from cairn.cli.forward.receiver import BODY_TIMEOUT_S, LONGEST_RETRY_AFTER_S, Failure, Receiver, check_url
from cairn.cli.forward.webhooks import Webhook
from cairn.domain.errors import InvalidConfig
from tests.support.scripted_server import RESET, SILENCE, answer, scripted
from tests.support.virtual_time import virtual_loop

pytestmark = pytest.mark.virtual_time
WEBHOOK = Webhook("newBlock_0x01", b'{"type":"newBlock"}')
KEY = bytes(32)
TIMEOUT_S = 20.0
Serve = Callable[[asyncio.StreamWriter], Awaitable[None]]


def receiver_at(socket: Path) -> Receiver:
    over_socket = partial(httpx.AsyncClient, transport=httpx.AsyncHTTPTransport(uds=str(socket)))
    with patch.object(httpx, "AsyncClient", over_socket):
        return Receiver("http://receiver.example/hook", [KEY], TIMEOUT_S)


async def attempt(reply: bytes | str) -> tuple[Failure | None, int]:
    """The outcome, and how many requests there were."""
    async with scripted(reply) as server, receiver_at(server._socket) as receiver:
        return await receiver.post(WEBHOOK), len(server.requests)


@asynccontextmanager
async def raw_receiver(serve: Serve) -> AsyncGenerator[Receiver, None]:
    """One that answers a request with whatever `serve` writes."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(WEBHOOK.body)
            await serve(writer)
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    with tempfile.TemporaryDirectory() as directory:
        socket = Path(directory, "receiver.sock")
        server = await asyncio.start_unix_server(connected, socket)
        async with receiver_at(socket) as receiver:
            yield receiver
        server.close()


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_2xx_is_delivered(status: int) -> None:
    assert await attempt(answer(status, "")) == (None, 1)


@pytest.mark.parametrize("status", [400, 409, 413, 422, 500, 501])
async def test_a_status_about_the_event_is_a_refusal(status: int) -> None:
    failure, _ = await attempt(answer(status, "why"))
    assert failure == Failure(f'{status} Because: "why"', status)
    assert failure.is_refusal


@pytest.mark.parametrize("status", [401, 403, 404, 408, 425, 429, 502, 503, 504])
async def test_a_status_about_the_receiver_is_no_refusal(status: int) -> None:
    failure, _ = await attempt(answer(status, ""))
    assert failure is not None
    assert not failure.is_refusal


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_and_is_not_followed(status: int) -> None:
    failure, requests = await attempt(answer(status, "", location="http://receiver.example/elsewhere"))
    assert failure is not None
    assert (failure.status, failure.is_refusal, requests) == (status, False, 1)
    assert "not followed" in failure.detail


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7", 7), ("0", 0), ("-5", 0), ("soon", 0), ("9" * 400, LONGEST_RETRY_AFTER_S), ("", 0), ("²", 0)],
)
async def test_retry_after_in_seconds_is_honoured_up_to_an_hour(text: str, seconds: float) -> None:
    reply = f"HTTP/1.1 503 Busy\r\nRetry-After: {text}\r\nContent-Length: 0\r\n\r\n".encode()
    failure, _ = await attempt(reply)
    assert failure is not None
    assert failure.retry_after_s == seconds


async def test_retry_after_as_a_date_is_honoured() -> None:
    failure, _ = await attempt(answer(429, "", retry_after=formatdate(time() + 1000, usegmt=True)))
    assert failure is not None
    assert 900 < failure.retry_after_s < 1001


async def test_silence_fails_after_the_time_out() -> None:
    failure, _ = await attempt(SILENCE)
    assert failure == Failure("no answer within 20 s")
    assert virtual_loop().time() == pytest.approx(TIMEOUT_S, abs=0.1)


async def test_a_connection_that_ends_fails_and_says_so() -> None:
    failure, _ = await attempt(RESET)
    assert failure is not None
    assert failure.status is None
    assert "disconnected" in failure.detail


@pytest.mark.parametrize("reply", [b"\x00\x01\x02\r\n\r\n", b"HTTP/1.1 200 " + b"x" * 1_000_000])
async def test_what_is_no_http_is_not_delivered(reply: bytes) -> None:
    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        await writer.drain()

    async with raw_receiver(serve) as receiver:
        failure = await receiver.post(WEBHOOK)
    assert failure is not None
    assert failure.status is None


async def test_headers_that_never_end_are_not_read_for_ever() -> None:
    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"a: " + 1000 * b"b" + b"\r\n")
            await writer.drain()

    async with raw_receiver(serve) as receiver:
        failure = await receiver.post(WEBHOOK)
    assert failure is not None
    assert failure.status is None


async def test_answers_that_promise_another_one_for_ever_fail_after_the_time_out() -> None:
    async def serve(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.1)

    async with raw_receiver(serve) as receiver:
        assert await receiver.post(WEBHOOK) == Failure("no answer within 20 s")


@pytest.mark.parametrize("status", [200, 500])
async def test_the_status_counts_when_the_body_is_shorter_than_it_says(status: int) -> None:
    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status} Because\r\nContent-Length: 1000\r\n\r\nso".encode())
        await writer.drain()

    async with raw_receiver(serve) as receiver:
        failure = await receiver.post(WEBHOOK)
    assert failure == (None if status == 200 else Failure("500 Because: so", 500))


async def test_a_body_without_an_end_is_read_up_to_its_bound_only() -> None:
    written = 0

    async def serve(writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n")
        while True:
            writer.write(bytes(10_000))
            await writer.drain()
            written += 10_000

    async with raw_receiver(serve) as receiver:
        assert await receiver.post(WEBHOOK) is None
        # What the kernel has buffered is written, and not read.
        assert written < 2_000_000


async def test_a_body_that_drips_for_ever_costs_two_seconds() -> None:
    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.5)

    async with raw_receiver(serve) as receiver:
        assert await receiver.post(WEBHOOK) is None
    assert virtual_loop().time() == pytest.approx(BODY_TIMEOUT_S, abs=0.6)


async def test_control_codes_of_the_receiver_do_not_reach_the_terminal() -> None:
    reply = b"HTTP/1.1 400 No\r\nContent-Length: 7\r\n\r\n\x1b[31m\r\n"
    failure, _ = await attempt(reply)
    assert failure is not None
    assert failure.detail.isprintable()


@pytest.mark.parametrize(
    "url", ["http://localhost:1/a", "http://127.0.0.1/", "http://[::1]:8/", "https://a.example/?b"]
)
def test_https_and_loopback_are_allowed(url: str) -> None:
    assert str(check_url(url, allow_insecure=False)) == url


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://shop.example/hook", "--insecure-http"),
        ("http://10.0.0.1/hook", "--insecure-http"),
        ("http://localhost.example/hook", "--insecure-http"),
        ("https://user:password@shop.example/hook", "leave out the user"),
        ("ftp://shop.example/", "expected a URL"),
        ("shop.example/hook", "expected a URL"),
        ("file:///etc/passwd", "expected a URL"),
        ("https://", "expected a URL"),
        ("http://localhost:99999999/", "port"),
        (f"https://{70 * 'a'}.example/", "host"),
    ],
)
def test_other_urls_are_refused(url: str, why: str) -> None:
    with pytest.raises(InvalidConfig, match=why) as refused:
        check_url(url, allow_insecure=False)
    assert "user:password" not in str(refused.value)


def test_plain_http_elsewhere_can_be_allowed() -> None:
    assert check_url("http://10.0.0.1/hook", allow_insecure=True).host == "10.0.0.1"
