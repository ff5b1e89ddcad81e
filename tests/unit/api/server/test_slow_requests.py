"""Slow requests: a line with an id that the answer carries, and nothing for those that ask to wait."""

import pytest
from structlog.testing import capture_logs

from cairn.api.server.slow_requests import LONGEST_TARGET, tell_slow, with_header


def test_a_slow_request_is_told_with_a_new_id_and_the_answer_carries_it() -> None:
    with capture_logs() as lines:
        header = tell_slow("GET", b"/blocks?limit=7", {}, 1.234)
    [line] = lines
    assert header is not None
    assert header == (b"x-request-id", line["id"].encode())
    assert len(line["id"]) == 16
    assert (line["request"], line["took_s"], line["log_level"]) == ("GET /blocks?limit=7", 1.23, "warning")
    answer = with_header(b"HTTP/1.1 200 OK\r\ndate: x\r\n\r\n{}", header)
    assert answer == b"HTTP/1.1 200 OK\r\nx-request-id: %b\r\ndate: x\r\n\r\n{}" % header[1]


@pytest.mark.parametrize(
    ("sent", "is_taken"),
    [(b"7f-3.a_b", True), (b"a" * 128, True), (b"a" * 129, False), (b"a\x1b[2J", False), (b"a b", False), (b"", False)],
)
def test_a_valid_id_of_the_client_is_taken(sent: bytes, is_taken: bool) -> None:
    header = tell_slow("GET", b"/blocks", {b"x-request-id": sent}, 2.0)
    assert header is not None
    assert (header[1] == sent) == is_taken


@pytest.mark.parametrize("target", [b"/tx/0xab?wait=10", b"/tx/0xab?amounts=string&wait=10"])
def test_a_request_that_asks_to_wait_is_not_slow(target: bytes) -> None:
    with capture_logs() as lines:
        assert tell_slow("GET", target, {}, 9.0) is None
    assert lines == []
    assert with_header(b"HTTP/1.1 200 OK\r\n\r\n", None) == b"HTTP/1.1 200 OK\r\n\r\n"


def test_of_a_long_target_the_beginning_is_told() -> None:
    with capture_logs() as lines:
        tell_slow("GET", b"/" + b"x" * 10_000, {}, 2.0)
    assert len(lines[0]["request"]) == len("GET ") + LONGEST_TARGET
