"""TCP connections that never say a word: what anybody who reaches a port can open."""

import selectors
import socket
import threading
import time
from collections.abc import Sequence

PAUSE_S = 0.1


class SilentConnections:
    """Keeps so many connections to each port of this machine, and replaces each that the other side closes."""

    def __init__(self, ports: Sequence[int], each: int) -> None:
        self._ports = ports
        self._each = each
        self._selector = selectors.DefaultSelector()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.opened = 0

    def __enter__(self) -> "SilentConnections":
        for port in self._ports:
            for _ in range(self._each):
                self._open(port)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            self._close(key)
        self._selector.close()

    def _open(self, port: int) -> None:
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex(("127.0.0.1", port))
        self._selector.register(connection, selectors.EVENT_READ, port)
        self.opened += 1

    def _close(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for key, _ in self._selector.select(PAUSE_S):
                if self._is_over(key.fileobj):
                    self._close(key)
                    self._open(key.data)
            time.sleep(PAUSE_S)

    def _is_over(self, connection: object) -> bool:
        """Whether the other side closed it, or was not there."""
        assert isinstance(connection, socket.socket)
        try:
            return connection.recv(65_536) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True
