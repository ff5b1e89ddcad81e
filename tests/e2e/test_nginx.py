"""Behind a real nginx, set up as docs/production.md says: no body becomes a request, and answers keep their order.

`HTTP_SEED=…` repeats a run that failed.
"""

import json
import os
import random
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.support.nginx import NGINX, Nginx
from tests.support.node_process import NodeProcess
from tests.support.pace import PATIENCE_S
from tests.support.programs import need_program
from tests.support.public import connect_patiently, post_anew, receive

SEED = int(os.environ.get("HTTP_SEED", random.SystemRandom().randrange(2**32)))
CONVERSATIONS = 40
UPGRADES = ("h2c", "foo", "websocket, h2c", "TLS/1.0")
MINE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "evm_mine", "params": []}).encode()
SMUGGLED = (
    b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(MINE)
    + MINE
)
EMPTY_LINES = b"\r\n" * 30
"""Before a request they mean nothing; a node takes about as many, and no more."""
UNIT = EMPTY_LINES + SMUGGLED


@pytest.fixture(scope="module")
def binary() -> str:
    return need_program(*NGINX)


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--workers", "1") as node:
        yield node


@pytest.fixture(scope="module")
def proxy(binary: str, node: NodeProcess) -> Iterator[Nginx]:
    with Nginx(binary, node.url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def strict_proxy(binary: str, node: NodeProcess) -> Iterator[Nginx]:
    """It lets nobody use JSON-RPC."""
    with Nginx(binary, node.url, "location /rpc { return 403; }") as proxy:
        yield proxy


class Client:
    """A connection on which a test writes bytes as it likes."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self) -> tuple[int, bytes]:
        status = int(self._file.readline().split()[1])
        headers: dict[bytes, bytes] = {}
        while line := self._file.readline().strip():
            name, _, value = line.partition(b": ")
            headers[name.lower()] = value
        return status, self._file.read(int(headers[b"content-length"]))


def height(node: NodeProcess) -> int:
    found: int = httpx.get(node.url + "/chain", timeout=PATIENCE_S).json()["head"]["blockHeight"]
    return found


def post(path: str, body: bytes, *headers: str, is_chunked: bool = False) -> bytes:
    lines = ["Host: localhost", "Content-Type: application/json", *headers]
    lines.append("Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {len(body)}")
    if is_chunked:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return f"POST {path} HTTP/1.1\r\n{''.join(line + chr(13) + chr(10) for line in lines)}\r\n".encode() + body


@pytest.mark.parametrize("upgrade", UPGRADES)
@pytest.mark.parametrize("is_chunked", [False, True])
def test_no_body_passes_a_location_that_forbids(
    node: NodeProcess, strict_proxy: Nginx, upgrade: str, is_chunked: bool
) -> None:
    before = height(node)
    # Wherever a new piece of the body begins, it is between two requests in one of these bodies.
    for shift in range(0, len(UNIT), len(EMPTY_LINES) - 10):
        with Client(strict_proxy.port) as client:
            client.send(post("/rpc", MINE))
            assert client.answer()[0] == 403
            body = b"x" * shift + UNIT * 300
            client.send(post("/tx", body, "Connection: Upgrade", f"Upgrade: {upgrade}", is_chunked=is_chunked))
            assert client.answer()[0] == 400
            # Of the same connection, but perhaps not of the same one to the node.
            client.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.answer() == (200, b'{"status":"alive"}')
    assert height(node) == before, "a body was executed"
    assert post_anew(f"{node.url}/rpc", json.loads(MINE)).status_code == 200
    assert height(node) == before + 1, "that is what it would have done"


def test_each_request_gets_its_own_answer_in_order(proxy: Nginx) -> None:
    rng = random.Random(SEED)
    for conversation in range(CONVERSATIONS):
        ids = [f"{conversation}.{number}" for number in range(rng.choice([1, 2, 5]))]
        stream = b"".join(random_call(rng, name) for name in ids)
        with Client(proxy.port) as client:
            at, size = 0, rng.choice([len(stream), 500, 37])
            while at < len(stream):
                client.send(stream[at : at + size])
                at += size
            answers = [client.answer() for _ in ids]
        assert [json.loads(body)["id"] for _, body in answers] == ids, f"HTTP_SEED={SEED}"


def random_call(rng: random.Random, name: str) -> bytes:
    call = {
        "jsonrpc": "2.0",
        "id": name,
        "method": "web3_sha3",
        "params": ["0x" + SMUGGLED.hex() * rng.choice([0, 1, 50])],
    }
    headers = []
    if rng.random() < 0.5:
        headers = ["Connection: Upgrade", f"Upgrade: {rng.choice(UPGRADES)}"]
    return post("/rpc", json.dumps(call).encode(), *headers, is_chunked=rng.random() < 0.5)


def test_a_websocket_passes(proxy: Nginx) -> None:
    url = f"ws://127.0.0.1:{proxy.port}/events?newBlock&fromHeight=0"
    with connect_patiently(url, proxy=None) as socket:
        assert [receive(socket)["event"] for _ in range(2)] == ["subscribed", "newBlock"]


# Clients of a node that trusts the proxy.

BURST = 5
FIVE_BATCHES = 5
FILTERS_OF_A_BATCH = 100
NEW_FILTER = {"jsonrpc": "2.0", "id": 1, "method": "eth_newBlockFilter", "params": []}


@pytest.fixture(scope="module")
def limited_node() -> Iterator[NodeProcess]:
    limits = ("--trusted-proxies", "127.0.0.1", "--rate-limit", "0.0001", "--rate-limit-burst", str(BURST))
    with NodeProcess.start_dev("--workers", "1", *limits) as node:
        yield node


@pytest.fixture(scope="module")
def limited_proxy(binary: str, limited_node: NodeProcess) -> Iterator[Nginx]:
    with Nginx(binary, limited_node.url) as proxy:
        yield proxy


def client_from(address: str, **headers: str) -> httpx.Client:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Client(transport=httpx.HTTPTransport(local_address=address), headers=named, timeout=PATIENCE_S)


def statuses(client: httpx.Client, base: str, count: int) -> list[int]:
    with client:
        return [client.get(base + path).status_code for path in ["/chain", f"/tx/0x{'ab' * 32}"] * count][:count]


def test_clients_behind_a_trusted_proxy_are_limited_separately(limited_proxy: Nginx) -> None:
    base = f"http://127.0.0.1:{limited_proxy.port}"
    for address in ("127.0.0.2", "127.0.0.3"):
        found = statuses(client_from(address), base, BURST + 2)
        assert [status == 429 for status in found] == [False] * BURST + [True] * 2, address


@pytest.mark.parametrize(
    "forged",
    [
        {"X_Forwarded_For": "203.0.113.9"},
        {"Forwarded": "for=203.0.113.9"},
        {"X_Forwarded_For": "127.0.0.1", "Forwarded": 'for="203.0.113.9'},
    ],
)
def test_a_forged_header_does_not_help(limited_node: NodeProcess, limited_proxy: Nginx, forged: dict[str, str]) -> None:
    # Both have used up what they have, one through the proxy and one directly.
    through, direct = f"http://127.0.0.1:{limited_proxy.port}", limited_node.url
    for address, base in (("127.0.0.4", through), ("127.0.0.5", direct)):
        statuses(client_from(address), base, BURST + 1)
        assert statuses(client_from(address, **forged), base, 2) == [429, 429], base


def new_filters(address: str, base: str, count: int) -> int:
    """How many the client got."""
    with client_from(address) as client:
        answer = client.post(base + "/rpc", json=[NEW_FILTER] * count)
    return sum("result" in each for each in answer.json())


@pytest.mark.parametrize("trusted", [True, False])
def test_five_batches_of_one_client_take_the_filters_of_others_only_without_trusted_proxies(
    binary: str, trusted: bool
) -> None:
    proxies = ("--trusted-proxies", "127.0.0.1") if trusted else ()
    with (
        NodeProcess.start_dev("--workers", "1", "--rate-limit", "0", *proxies) as node,
        Nginx(binary, node.url) as proxy,
    ):
        base = f"http://127.0.0.1:{proxy.port}"
        taken = sum(new_filters("127.0.0.2", base, FILTERS_OF_A_BATCH) for _ in range(FIVE_BATCHES))
        assert taken == FIVE_BATCHES * FILTERS_OF_A_BATCH
        assert new_filters("127.0.0.2", base, 1) == 0, "that was its share"
        assert new_filters("127.0.0.3", base, 1) == (1 if trusted else 0)
        assert new_filters("127.0.0.4", node.url, 1) == 1, "and who comes without the proxy"
