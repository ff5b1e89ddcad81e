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
    """When each was answered, in the order of the requests, by `time.perf_counter`, which all processes share. One
    request is in flight on each connection. Raises `RuntimeError` on an answer that is not 200 with its bytes, in one
    piece.
    """
    clock, left, unanswered = time.perf_counter, iter(enumerate(requests)), len(requests)
    answered_at = [0.0] * unanswered
    poll = select.epoll()
    sockets: dict[int, socket.socket] = {}
    asked: dict[int, int] = {}
    gc.disable()
    try:
        for number, (request, _) in [next(left) for _ in range(min(connections, unanswered))]:
            opened = socket.create_connection(("127.0.0.1", port))
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            poll.register(opened, select.EPOLLIN)
            sockets[opened.fileno()], asked[opened.fileno()] = opened, number
            opened.send(request)
        while unanswered:
            ready = poll.poll(STALL_TIMEOUT_S)
            if not ready:
                raise RuntimeError(f"{unanswered} of {len(requests)} not answered")
            for at, _ in ready:
                received = sockets[at].recv(1 << 16)
                answered_at[asked[at]] = clock()
                if not received.startswith(_GOOD) or requests[asked[at]][1] not in received:
                    raise RuntimeError(f"unexpected answer: {received[:2_000].decode(errors='replace')}")
                unanswered -= 1
                following = next(left, None)
                if following is not None:
                    asked[at], (request, _) = following
                    sockets[at].send(request)
    finally:
        gc.enable()
        poll.close()
        for opened in sockets.values():
            opened.close()
    return answered_at
