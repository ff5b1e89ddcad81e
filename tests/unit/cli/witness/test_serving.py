"""What a witness serves, and to whom: whoever holds all its connections keeps nobody out."""

from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest

from cairn.api.server import small_server
from cairn.cli.witness.serving import MOST_CONNECTIONS, Shown, WitnessServer
from tests.support.pace import PATIENCE_S
from tests.support.small_servers import Listening, serving

ASKED = b"GET /head?x HTTP/1.1\r\nHost: witness.example\r\n\r\n"


@pytest.fixture
async def listening(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Listening]:
    monkeypatch.setattr(small_server, "TIMEOUT_S", PATIENCE_S)
    server = WitnessServer(lambda path: Shown(HTTPStatus.OK, path.encode()))
    async with serving(server) as made:
        yield made


async def test_a_path_is_shown_to_everybody(listening: Listening) -> None:
    head, _, body = (await listening.ask(ASKED)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\naccess-control-allow-origin: *\r\n")
    assert body == b"/head"
    assert (await listening.ask(ASKED.replace(b"GET", b"POST"))).startswith(b"HTTP/1.1 405 ")


async def test_who_drips_bytes_on_all_connections_keeps_nobody_out(listening: Listening) -> None:
    dripping = [await listening.connect("127.0.0.2") for _ in range(2 * MOST_CONNECTIONS)]
    for byte in b"GET /he":
        for _, writer in dripping:
            writer.write(bytes([byte]))
        assert (await listening.ask(ASKED)).endswith(b"/head")
    for _, writer in dripping:
        writer.close()
