"""Which request heads are plain enough for the fast lane; every other one goes through the full parser."""

import pytest

from cairn.api.server import plain_heads as heads
from cairn.api.server.access import HostList
from cairn.api.server.plain_heads import MAX_PLAIN_BODY_BYTES, NOT_PLAIN, PlainHeads
from cairn.api.server.trusted_proxies import TrustedProxies
from cairn.config import Settings


def plain_heads(method: bytes = b"POST", max_body_bytes: int = Settings().max_body_bytes) -> PlainHeads:
    return PlainHeads(method, HostList(Settings()), TrustedProxies(Settings()), max_body_bytes)


def head(*lines: bytes, version: bytes = b"HTTP/1.1") -> bytes:
    return b" " + version + b"\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


HOST = b"Host: localhost:8645"
TYPE = b"Content-Type: application/json"


def length(*lines: bytes, version: bytes = b"HTTP/1.1") -> int:
    known = plain_heads()
    first = known[head(*lines, version=version)]
    assert known[head(*lines, version=version)] == first, "the remembered verdict is the same"
    return first


def test_plain_posts() -> None:
    assert length(HOST, TYPE, b"Content-Length: 450") == 450
    assert length(b"hOsT: 127.0.0.1", b"content-type: Application/JSON; charset=UTF-8", b"content-length: 1") == 1
    assert length(HOST, TYPE, b"Content-Length: 5", b"Connection: keep-alive", b"Accept: */*", b"X-Own: 1") == 5


@pytest.mark.parametrize(
    "lines",
    [
        [TYPE, b"Content-Length: 5"],
        [b"Host: evil.example", TYPE, b"Content-Length: 5"],
        [HOST, HOST, TYPE, b"Content-Length: 5"],
        [HOST, b"Content-Length: 5"],
        [HOST, b"Content-Type: text/plain", b"Content-Length: 5"],
        [HOST, TYPE],
        [HOST, TYPE, b"Content-Length: 5", b"Content-Length: 5"],
        [HOST, TYPE, b"Content-Length: %d" % (MAX_PLAIN_BODY_BYTES + 1)],
        [HOST, TYPE, b"Content-Length: 99999999999999999999"],
        [HOST, TYPE, b"Content-Length: x"],
        [HOST, TYPE, b"Content-Length: -5"],
        [HOST, TYPE, b"Transfer-Encoding: chunked"],
        [HOST, TYPE, b"Content-Length: 5", b"Transfer-Encoding: chunked"],
        [HOST, TYPE, b"Content-Length: 5", b"Expect: 100-continue"],
        [HOST, TYPE, b"Content-Length: 5", b"Origin: http://localhost"],
        [HOST, TYPE, b"Content-Length: 5", b"Content-Encoding: gzip"],
        [HOST, TYPE, b"Content-Length: 5", b"Connection: close"],
        [HOST, TYPE, b"Content-Length: 5", b"Connection: Upgrade", b"Upgrade: websocket"],
        [HOST, TYPE, b"Content-Length: 5", b"bad header"],
        [HOST, TYPE, b"Content-Length: 5", b"Long: " + b"x" * heads.MAX_PLAIN_HEAD_BYTES],
    ],
)
def test_posts_that_are_not_plain(lines: list[bytes]) -> None:
    assert length(*lines) == NOT_PLAIN


def test_another_version_or_anything_behind_the_path() -> None:
    for version in (b"HTTP/1.0", b"HTTP/2.0", b"x HTTP/1.1", b""):
        assert length(HOST, TYPE, b"Content-Length: 5", version=version) == NOT_PLAIN
    known = plain_heads(b"GET")
    for rest in (b"/proof HTTP/1.1\r\n", b"?wait=5 HTTP/1.1\r\n", b"0 HTTP/1.1\r\n"):
        assert known[rest + HOST + b"\r\n\r\n"] == NOT_PLAIN


def test_gets() -> None:
    known = plain_heads(b"GET")
    assert known[head(HOST, b"User-Agent: x")] == 0
    for lines in (
        [],
        [b"Host: evil.example"],
        [HOST, b"If-None-Match: *"],
        [HOST, b"Origin: null"],
        [HOST, b"Content-Length: 0"],
        [HOST, b"Transfer-Encoding: chunked"],
        [HOST, b"Connection: close"],
    ):
        assert known[head(*lines)] == NOT_PLAIN


def test_an_incomplete_head_is_not_plain() -> None:
    assert plain_heads()[b" HTTP/1.1\r\nHost: localhost\r\n"] == NOT_PLAIN


def test_heads_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "MAX_HEADS", 4)
    known = plain_heads()
    for number in range(20):
        assert known[head(HOST, TYPE, b"Content-Length: %d" % number)] == number
    assert len(known) <= 4


def test_a_lower_limit_of_bodies_holds_here_too() -> None:
    known = plain_heads(max_body_bytes=5)
    assert known[head(HOST, TYPE, b"Content-Length: 5")] == 5
    assert known[head(HOST, TYPE, b"Content-Length: 6")] == NOT_PLAIN
