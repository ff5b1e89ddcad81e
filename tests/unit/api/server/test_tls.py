"""What a connection over TLS does at its ends, and with what fills its buffers."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cairn.config import Settings
from tests.support.certificates import make_certificate
from tests.support.rest_server import get, rest_server, wait_until

pytestmark = pytest.mark.uvloop

PATIENT = replace(Settings(), header_timeout_s=86_400.0)
CLOSING = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def talk(port: int, *requests: bytes, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """All answers until the node's end. It raises if the node ends without saying so."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = version
    answers = b""
    with (
        socket.create_connection(("127.0.0.1", port), 30.0) as raw,
        context.wrap_socket(raw, suppress_ragged_eofs=False) as secured,
    ):
        for request in requests:
            secured.sendall(request)
        while data := secured.recv(65_536):
            answers += data
    return answers


async def ask(tmp_path: Path, question: Callable[[int], bytes]) -> bytes:
    certificate, key = make_certificate(tmp_path)
    async with rest_server(replace(PATIENT, tls_cert=certificate, tls_key=key)) as server:
        answers = await asyncio.to_thread(question, server.port)
        await wait_until(lambda: not server.connections)
        return answers


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_an_end_is_said(tmp_path: Path, version: ssl.TLSVersion) -> None:
    answers = await ask(tmp_path, lambda port: talk(port, get("/health"), CLOSING, version=version))
    assert answers.count(b"HTTP/1.1 200 ") == 2


async def test_a_long_answer_is_whole_when_its_connection_closes(tmp_path: Path) -> None:
    answer = await ask(tmp_path, lambda port: talk(port, CLOSING.replace(b"/health", b"/openapi.json")))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}\r\n".encode() in head + b"\r\n"


async def test_a_long_body_arrives_in_full(tmp_path: Path) -> None:
    body = b'{"padding":"' + b"a" * 500_000 + b'"}'
    head = b"POST /txs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    answers = await ask(tmp_path, lambda port: talk(port, request, CLOSING))
    assert answers.startswith(b"HTTP/1.1 400 ")
    assert answers.count(b"HTTP/1.1 200 ") == 1


@pytest.mark.parametrize("first", [get("/health"), b"\x16\x03\x01\xff\xff" + b"a" * 100_000])
async def test_what_is_no_tls_is_closed(tmp_path: Path, first: bytes) -> None:
    def question(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), 30.0) as raw:
            try:
                raw.sendall(first)
                while raw.recv(65_536):
                    pass
            except ConnectionResetError:
                pass
        return b"closed"

    assert await ask(tmp_path, question) == b"closed"
