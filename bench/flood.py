"""A load generator that asks faster than `bench.load`: it measures no latency and knows nothing of HTTP but the status.

So a worker is never out of requests, and many come together in a turn of its event loop.
"""

import gc
import select
import socket
import time
from collections.abc import Sequence

from bench.load import STALL_TIMEOUT_S, Request

_GOOD = b"HTTP/1.1 200 "


def flood(port: int, requests: Sequence[Request], connections: int) -> list[float]:
    """When each answer was there, by `time.perf_counter`, which all processes share. One request is in flight on each
    connection. Raises `RuntimeError` on an answer that is not 200 with its bytes, in one piece.
    """
    clock, left = time.perf_counter, iter(requests)
    ended_at: list[float] = []
    poll = select.epoll()
    sockets: dict[int, socket.socket] = {}
    expected: dict[int, bytes] = {}
    gc.disable()
    try:
        for request, answer in [next(left) for _ in range(min(connections, len(requests)))]:
            opened = socket.create_connection(("127.0.0.1", port))
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            poll.register(opened, select.EPOLLIN)
            sockets[opened.fileno()], expected[opened.fileno()] = opened, answer
            opened.send(request)
        while len(ended_at) < len(requests):
            ready = poll.poll(STALL_TIMEOUT_S)
            if not ready:
                raise RuntimeError(f"{len(ended_at)} of {len(requests)} answered")
            for at, _ in ready:
                received = sockets[at].recv(1 << 16)
                ended_at.append(clock())
                if not received.startswith(_GOOD) or expected[at] not in received:
                    raise RuntimeError(f"unexpected answer: {received[:2_000].decode(errors='replace')}")
                following = next(left, None)
                if following is not None:
                    request, expected[at] = following
                    sockets[at].send(request)
    finally:
        gc.enable()
        poll.close()
        for opened in sockets.values():
            opened.close()
    return ended_at
