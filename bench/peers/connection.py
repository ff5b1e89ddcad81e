"""One connection to a chain, for what is asked beside the load: a request, then its answer."""

import select
import socket

from bench.http_answers import find_answer
from bench.peers.apis import RpcApi, WrongAnswer

TIMEOUT_S = 120
_READ_BYTES = 1 << 18


class Connection:
    def __init__(self, port: int) -> None:
        self._port = port
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes, expected: bytes = b"") -> bytes:
        """The answer's body. Raises `WrongAnswer` when it is not 200 with the expected bytes."""
        if self._was_closed():
            # Some chains close a connection that was idle for some seconds, as it is during a load.
            self.close()
            self._connect()
        self._socket.sendall(request)
        received = b""
        while (answer := find_answer(received)) is None:
            data = self._socket.recv(_READ_BYTES)
            if not data:
                raise ConnectionResetError("the chain closed the connection")
            received += data
        if answer.status != 200 or expected not in answer.body:
            raise WrongAnswer(f"{answer.status} {answer.body[:500].decode(errors='replace')}")
        return answer.body

    def _was_closed(self) -> bool:
        """Whatever can be read before the question says so: the end, or a 408."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def call(self, api: RpcApi, method: str, *params: object) -> object:
        return api.read(self.ask(api.call(method, *params)))

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()
