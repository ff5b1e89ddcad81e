"""Probes, descriptions, and what holds for every path: methods, hosts, HEAD, the headers of each answer."""

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode, assert_problem

UNKNOWN = "0x" + "ab" * 32
GETS = [
    "/health", "/startup", "/ready", "/chain", "/genesis", "/mempool", "/blocks", "/block/latest", "/block/0",
    "/openapi.json", "/docs", "/", "/explorer/main.js", f"/account/0x{'00' * 20}", f"/account/0x{'00' * 20}/txs",
]  # fmt: skip


def exchange(node: PublicNode, request: bytes) -> tuple[int, bytes]:
    """Send raw bytes; the status and all that came until the node closed the connection."""
    target = urlsplit(node.url)
    with socket.create_connection((target.hostname or "", target.port or 80), timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        received = b""
        while chunk := connection.recv(65_536):
            received += chunk
    return int(received[9:12]), received


@pytest.mark.parametrize("path", ["/health", "/startup", "/ready"])
def test_a_probe_of_a_ready_node_is_200(node: PublicNode, path: str) -> None:
    assert node.get(path).status_code == 200


def test_ready_names_its_checks(node: PublicNode) -> None:
    ready = node.read("/ready")
    assert set(ready) == {"status", "checks"}
    assert set(ready["checks"]) == {"store", "mempool", "disk", "core", "engine", "peers"}


@pytest.mark.parametrize("path", GETS)
def test_head_answers_as_get_without_the_body(node: PublicNode, path: str) -> None:
    get, head = node.get(path), node.http.head(path)
    assert head.status_code == get.status_code == 200
    assert head.content == b""
    assert head.headers["content-type"] == get.headers["content-type"]
    assert head.headers["x-chain-id"] == get.headers["x-chain-id"] == "1337"


@pytest.mark.parametrize("path", ["/nothing", "/tx/", "/block", "/health/", "/tx//", "/Health", f"/tx/{UNKNOWN}/x"])
def test_an_unknown_path_is_404(node: PublicNode, path: str) -> None:
    assert_problem(node.get(path), 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/tx", {"POST"}),
        ("GET", "/txs", {"POST"}),
        ("POST", "/mempool", {"GET", "HEAD"}),
        ("DELETE", f"/tx/{UNKNOWN}", {"GET", "HEAD"}),
        ("PUT", "/health", {"GET", "HEAD"}),
        ("PATCH", "/block/0", {"GET", "HEAD"}),
    ],
)
def test_another_method_is_405_with_those_allowed(node: PublicNode, method: str, path: str, allowed: set[str]) -> None:
    answer = node.http.request(method, path)
    assert_problem(answer, 405, "METHOD_NOT_ALLOWED")
    assert allowed <= {name.strip() for name in answer.headers["allow"].split(",")}


def test_foreign_host_is_refused(node: PublicNode) -> None:
    answer = node.http.get("/chain", headers={"host": "evil.example"})
    assert_problem(answer, 403, "FORBIDDEN_HOST")
    posted = node.http.post("/tx", json={}, headers={"host": "evil.example:8645"})
    assert_problem(posted, 403, "FORBIDDEN_HOST")


def test_a_foreign_origin_gets_no_cors_header(node: PublicNode) -> None:
    answer = node.http.get("/chain", headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    posted = node.http.post("/tx", json={}, headers={"origin": "https://evil.example"})
    assert posted.status_code in (400, 403)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET /health HTTP/1.1\r\nbad header\r\n\r\n",
        b"POST /tx HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 200_000 + b"\r\n\r\n",
    ],
)
def test_bytes_that_are_not_http_are_answered_by_a_problem(node: PublicNode, request_bytes: bytes) -> None:
    status, received = exchange(node, request_bytes)
    assert status in (400, 431)
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head.lower()
    assert json.loads(body)["status"] == status


def test_pipelined_requests_are_answered_in_order(node: PublicNode) -> None:
    paths = ["/health", f"/tx/{UNKNOWN}", "/block/0", "/nothing"]
    requests = [f"GET {path} HTTP/1.1\r\nHost: localhost\r\n".encode() for path in paths]
    _, received = exchange(node, b"\r\n".join(requests) + b"Connection: close\r\n\r\n")
    statuses = [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"404", b"200", b"404"]


def test_openapi_describes_the_contract(node: PublicNode) -> None:
    described: dict[str, Any] = node.read("/openapi.json")
    assert described["openapi"].startswith("3.1")
    assert described["info"]["version"] == "1.0.0"
    assert {
        "/tx", "/txs", "/tx/{hash}", "/tx/{hash}/proof", "/block/{hash}", "/blocks", "/mempool", "/chain",
        "/account/{address}", "/account/{address}/txs", "/health", "/startup", "/ready",
    } <= set(described["paths"])  # fmt: skip


def test_docs_page_needs_no_other_host(node: PublicNode) -> None:
    page = node.get("/docs")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "//" not in page.text.replace("<!--", "").replace("</", "").replace("// ", "")
