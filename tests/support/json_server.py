"""An HTTP server in a thread, whose answers a test decides."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import msgspec

Answer = tuple[int, Any]
"""The status, and the body: bytes as they are, anything else as JSON."""


class JsonServer:
    """Serves on a free port of loopback until it is closed. Subclasses say what `get` and `post` answer."""

    def __init__(self) -> None:
        server = self
        self.headers: dict[str, str] = {}
        """More of them, with every answer."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # An answer is written in two parts: without this the second waits for the client to acknowledge the first.
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                self.answer(*server.get(self.path))

            def do_POST(self) -> None:
                self.answer(*server.post(self.path, self.rfile.read(int(self.headers["content-length"]))))

            def answer(self, status: int, body: Any) -> None:
                content = body if isinstance(body, bytes) else msgspec.json.encode(body)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                for name, value in server.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.address}"

    def get(self, target: str) -> Answer:
        """`target` is the path with the query."""
        raise NotImplementedError

    def post(self, target: str, body: bytes) -> Answer:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
