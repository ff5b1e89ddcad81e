"""What a witness shows to others, over plain HTTP: little, and the same to everybody.

GET /head       the newest block that it signed, with its signature; `cairn receipt --witness` asks for it
GET /finality   the same block with the signatures of the chain's validators, as a file of proof
GET /evidence   two signed blocks of one height, if there are any
GET /health     200, or 503 once it has seen a contradiction
"""

import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

from cairn.api.server.http_heads import Header
from cairn.api.server.small_server import Reply, SmallRequest, SmallServer

MOST_CONNECTIONS = 64
HEADERS: tuple[Header, ...] = (
    (b"content-type", b"application/json"),
    (b"access-control-allow-origin", b"*"),
)


class Shown(NamedTuple):
    status: HTTPStatus
    content: bytes


Show = Callable[[str], Shown]
"""The answer for a path."""


class WitnessServer(SmallServer):
    def __init__(self, show: Show) -> None:
        super().__init__(self._answer, MOST_CONNECTIONS)
        self._show = show

    async def _answer(self, request: SmallRequest) -> Reply:
        if request.method not in (b"GET", b"HEAD"):
            return Reply(HTTPStatus.METHOD_NOT_ALLOWED, b'{"detail":"ask with GET"}', HEADERS)
        return Reply(*self._show(request.path.decode("latin-1")), HEADERS)


def listening_socket(host: str, port: int) -> socket.socket:
    """Whoever connects from now on waits until the server runs. Raises `OSError`."""
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
