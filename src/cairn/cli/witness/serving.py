"""What a witness shows to others, over plain HTTP: little, and the same to everybody.

GET /head       the newest block that it signed, with its signature; `cairn receipt --witness` asks for it
GET /finality   the same block with the signatures of the chain's validators, as a file of proof
GET /evidence   two signed blocks of one height, if there are any
GET /health     200, or 503 once it has seen a contradiction
"""

from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from threading import BoundedSemaphore, Thread
from typing import NamedTuple

IDLE_TIMEOUT_S = 10.0
MOST_CONNECTIONS = 64


class Shown(NamedTuple):
    status: HTTPStatus
    content: bytes


Show = Callable[[str], Shown]
"""The answer for a path."""


class WitnessServer(ThreadingHTTPServer):
    """Serves in threads of its own, at most so many connections at a time."""

    daemon_threads = True

    def __init__(self, host: str, port: int, show: Show) -> None:
        """Listen. Raises `OSError`."""
        self.show = show
        self._places = BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((host, port), _Handler)

    def start(self) -> None:
        Thread(target=self.serve_forever, name="witness", daemon=True).start()

    def process_request(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()


class _Handler(BaseHTTPRequestHandler):
    timeout = IDLE_TIMEOUT_S
    server: WitnessServer

    def do_GET(self) -> None:
        status, content = self.server.show(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.send_header("access-control-allow-origin", "*")
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        return "cairn witness"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: who asks is nobody's business."""
