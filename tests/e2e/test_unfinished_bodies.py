"""A thousand connections that send all but the last byte of 2 MB: what a node holds of it, and who is served."""

import selectors
import socket
from pathlib import Path

import httpx
import pytest

from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S

CONNECTIONS = 999
BODY_BYTES = 2 * 1024 * 1024
HEAD = (
    b"POST /txs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    % BODY_BYTES
)
GREEDY, OTHER = "127.0.0.2", "127.0.0.3"
MOST_MB = 150
"""More than before: the client's half of `max_unanswered_bytes`, the connections, and what was being read."""
KEPT_MB = 40
"""A worker that has served such a crowd once has larger tables."""


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) / 256


class Crowd:
    """Many connections of one client; each sends as much as the node takes."""

    def __init__(self, port: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._sockets = []
        body = memoryview(bytes(BODY_BYTES - 1))
        for _ in range(CONNECTIONS):
            sock = socket.create_connection(("127.0.0.1", port), PATIENCE_S, source_address=(GREEDY, 0))
            sock.sendall(HEAD)
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_WRITE, [body])
            self._sockets.append(sock)

    def send_some(self) -> bool:
        """Whether there was anything left to send."""
        for key, _ in self._selector.select(0.1):
            sock, rest = key.fileobj, key.data
            assert isinstance(sock, socket.socket)
            try:
                rest[0] = rest[0][sock.send(rest[0]) :]
            except BlockingIOError:
                continue
            except OSError:
                # It was refused, and cut off.
                rest[0] = rest[0][:0]
            if not rest[0]:
                self._selector.unregister(sock)
        return bool(self._selector.get_map())

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory as Linux shows it")
def test_unfinished_bodies_of_one_client_take_little_memory_and_others_are_served() -> None:
    with NodeProcess.start_dev("--workers", "1") as node, _client() as other:
        [worker] = node.worker_pids()
        before_mb, most_mb = resident_mb(worker), 0.0
        crowd = Crowd(int(node.url.rpartition(":")[2]))
        try:
            while crowd.send_some():
                most_mb = max(most_mb, resident_mb(worker))
            assert other.get(node.url + "/health").status_code == 200
            paid = other.post(node.url + "/faucet", json={"address": "0x" + "ab" * 20, "amount": 1})
            assert paid.status_code == 200, paid.text
            # Larger than the whole share of what the crowd leaves would be of a smaller budget.
            assert other.post(node.url + "/txs", content=b"[%b]" % (b" " * 1_500_000), headers=JSON).json() == []
            most_mb = max(most_mb, resident_mb(worker))
            assert most_mb - before_mb < MOST_MB
        finally:
            crowd.close()
        wait_until(lambda: resident_mb(worker) - before_mb < KEPT_MB, PATIENCE_S, f"{most_mb:.0f} MB to go back")


JSON = {"content-type": "application/json"}


def _client() -> httpx.Client:
    return httpx.Client(transport=httpx.HTTPTransport(local_address=OTHER), timeout=PATIENCE_S)
