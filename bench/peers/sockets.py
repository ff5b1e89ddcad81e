"""Thousands of WebSockets that wait for the next block: how long until the last of them has heard of it.

Bare sockets and epoll, so that the client takes as little as it can of the time that it measures.
"""

import base64
import os
import select
import socket
import time
from contextlib import ExitStack
from typing import NamedTuple

from websockets.frames import Frame, Opcode

TIMEOUT_S = 60
_AT_ONCE = 100
_READ_BYTES = 1 << 16
_TEXT, _CLOSE, _PING = 1, 8, 9


def split_frames(received: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """The whole unmasked frames, as kind and content, and what is left."""
    frames, at = [], 0
    while len(received) >= at + 2:
        size, start = received[at + 1], at + 2
        if size == 126:
            size, start = int.from_bytes(received[at + 2 : at + 4], "big"), at + 4
        elif size == 127:
            size, start = int.from_bytes(received[at + 2 : at + 10], "big"), at + 10
        if len(received) < start + size:
            break
        frames.append((received[at] & 0x0F, received[start : start + size]))
        at = start + size
    return frames, received[at:]


def is_text_frame(data: bytes) -> bool:
    """Whether it is one whole text of up to 65,535 bytes and nothing else, as most that comes is."""
    if len(data) < 4 or data[0] != 0x81:
        return False
    size = data[1]
    return len(data) == (2 + size if size < 126 else 4 + (data[2] << 8 | data[3]) if size == 126 else 0)


class Heard(NamedTuple):
    took_s: float
    """From sending the request until the last socket had its message."""
    client_cpu_s: float
    """What reading all of them took here."""
    last: bytes


class Listeners:
    """Leaving the `with` block closes all of them."""

    def __init__(self, port: int, http_port: int, count: int, path: str, subscription: bytes) -> None:
        self._address = ("127.0.0.1", port)
        self._http_address = ("127.0.0.1", http_port)
        key = base64.b64encode(os.urandom(16)).decode()
        head = [f"GET {path} HTTP/1.1", f"Host: localhost:{port}", "Connection: Upgrade", "Upgrade: websocket"]
        head += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", ""]
        self._head = "\r\n".join(head).encode()
        self._subscription = Frame(Opcode.TEXT, subscription).serialize(mask=True)
        self._sockets: dict[int, socket.socket] = {}
        self._left: dict[int, bytes] = {}
        """What came of frames that are not whole."""
        self._epoll = select.epoll()
        with ExitStack() as undo:
            undo.callback(self.close)
            while len(self._sockets) < count:
                self._open(min(_AT_ONCE, count - len(self._sockets)))
            undo.pop_all()

    def _open(self, count: int) -> None:
        """So many more, each connected, upgraded and subscribed."""
        opened = []
        for _ in range(count):
            each = socket.create_connection(self._address, timeout=TIMEOUT_S)
            self._sockets[each.fileno()] = each
            each.sendall(self._head)
            opened.append(each)
        for each in opened:
            received = b""
            while b"\r\n\r\n" not in received:
                received += self._receive(each)
            if not received.startswith(b"HTTP/1.1 101"):
                raise ConnectionRefusedError(f"no WebSocket: {received[:200]!r}")
            each.sendall(self._subscription)
        for each in opened:
            frames: list[tuple[int, bytes]] = []
            received = b""
            while not frames:
                frames, received = split_frames(received + self._receive(each))
            if b"error" in frames[0][1]:
                raise ConnectionRefusedError(f"no subscription: {frames[0][1][:200]!r}")
            self._left[each.fileno()] = received
            each.setblocking(False)
            self._epoll.register(each, select.EPOLLIN)

    def _receive(self, each: socket.socket) -> bytes:
        data = each.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError("the chain closed a WebSocket")
        return data

    def all_hear(self, request: bytes) -> "Heard":
        """Send the request, and wait until each socket has had a message."""
        waiting = set(self._sockets)
        last = b""
        cpu_before_s = time.process_time()
        with socket.create_connection(self._http_address, timeout=TIMEOUT_S) as sender:
            deadline = time.perf_counter() + TIMEOUT_S
            began = time.perf_counter()
            sender.sendall(request)
            while waiting:
                if time.perf_counter() > deadline:
                    raise TimeoutError(f"{len(waiting)} of {len(self._sockets)} sockets heard nothing")
                for number, _ in self._epoll.poll(1.0, len(self._sockets)):
                    data = os.read(number, _READ_BYTES)
                    if is_text_frame(data) and not self._left[number]:
                        waiting.discard(number)
                        last = data
                    else:
                        for content in self._take(number, data):
                            waiting.discard(number)
                            last = content
            took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_before_s
        self.drain()
        return Heard(took_s, cpu_s, last)

    def _take(self, number: int, data: bytes) -> list[bytes]:
        """Answer pings, and return the texts of the whole frames."""
        if not data:
            raise ConnectionResetError("the chain closed a WebSocket")
        frames, self._left[number] = split_frames(self._left[number] + data)
        for kind, content in frames:
            if kind != _TEXT:
                self._control(number, kind, content)
        return [content for kind, content in frames if kind == _TEXT]

    def _control(self, number: int, kind: int, content: bytes) -> None:
        if kind == _CLOSE:
            raise ConnectionResetError(f"the chain closed a WebSocket: {content!r}")
        if kind == _PING:
            self._sockets[number].sendall(Frame(Opcode.PONG, content).serialize(mask=True))

    def drain(self, rest_s: float = 0.1) -> None:
        """Forget what still comes, until nothing does for a while."""
        while ready := self._epoll.poll(rest_s):
            for number, _ in ready:
                self._take(number, os.read(number, _READ_BYTES))

    def __enter__(self) -> "Listeners":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._epoll.close()
        for each in self._sockets.values():
            each.close()
