"""How the load generator reads answers: by length and in chunks, whole or cut anywhere."""

import pytest

from bench.http_answers import Answer, find_answer

BY_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCONTENT-LENGTH: 5\r\nDate: x\r\n\r\nhello"
LENGTH_LAST = b"HTTP/1.1 404 Not Found\r\ncontent-length:0\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"
WITH_TRAILER = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n"


@pytest.mark.parametrize(
    ("received", "status", "body"),
    [
        (BY_LENGTH, 200, b"hello"),
        (LENGTH_LAST, 404, b""),
        (CHUNKED, 200, b"hello"),
        (WITH_TRAILER, 200, b"0123456789"),
    ],
)
def test_an_answer_is_found_once_it_is_whole(received: bytes, status: int, body: bytes) -> None:
    assert find_answer(received) == Answer(status, body, len(received))
    for end in range(len(received)):
        assert find_answer(received[:end]) is None


@pytest.mark.parametrize("first", [BY_LENGTH, CHUNKED])
def test_the_answer_after_it_is_left(first: bytes) -> None:
    found = find_answer(first + LENGTH_LAST)
    assert found is not None
    assert found.body == b"hello"
    assert find_answer((first + LENGTH_LAST)[found.end :]) == Answer(404, b"", len(LENGTH_LAST))


@pytest.mark.parametrize(
    "received",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nhello",
    ],
)
def test_what_has_no_length_is_refused(received: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        find_answer(received)
