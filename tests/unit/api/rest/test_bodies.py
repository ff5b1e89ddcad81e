"""Request bodies: declared as JSON, bounded however they are sent."""

import asyncio
from collections.abc import Sequence

import pytest
from starlette.requests import Request
from starlette.types import Message

from cairn.api.rest import bodies
from cairn.api.rest.bodies import read_json_body
from cairn.domain.errors import BodyTooLarge, UnsupportedMediaType

LIMIT = 10
JSON = ("content-type", "application/json")


class Sender:
    """A client that sends its body in these chunks."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.left = list(chunks)

    async def receive(self) -> Message:
        if not self.left:
            return {"type": "http.disconnect"}
        body = self.left.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(self.left)}


def read(sender: Sender, *headers: tuple[str, str]) -> bytes:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    request = Request({"type": "http", "method": "POST", "headers": raw}, sender.receive)
    return asyncio.run(read_json_body(request, LIMIT))


def test_a_body_up_to_the_limit() -> None:
    assert read(Sender([b"0123456789"]), JSON, ("content-length", "10")) == b"0123456789"
    assert read(Sender([b"01234", b"5", b"6789"]), JSON) == b"0123456789"
    assert read(Sender([b""]), JSON) == b""


@pytest.mark.parametrize("length", ["0" * 5_000 + "1", "1 "])
def test_a_length_may_have_zeros_before_it_and_a_space_behind_it(length: str) -> None:
    assert read(Sender([b"0"]), JSON, ("content-length", length)) == b"0"


def test_too_large_by_declaration_and_in_chunks() -> None:
    for sender, headers in (
        (Sender([b"0123456789x"]), [JSON, ("content-length", "11")]),
        (Sender([b"01234", b"56789", b"x", b"y"]), [JSON]),
    ):
        with pytest.raises(BodyTooLarge, match="more than 10 bytes"):
            read(sender, *headers)
        assert not sender.left, "what was sent is taken in, or the client would see a reset"


def test_a_refused_body_is_not_taken_in_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_DISCARDED_BYTES", 100)
    sender = Sender([b"x" * 50] * 10)
    with pytest.raises(BodyTooLarge):
        read(sender, JSON, ("content-length", "500"))
    assert len(sender.left) == 7


def test_who_waits_to_be_told_to_go_on_is_answered_at_once() -> None:
    sender = Sender([b"x" * 50])
    with pytest.raises(BodyTooLarge):
        read(sender, JSON, ("content-length", "50"), ("expect", "100-continue"))
    assert len(sender.left) == 1


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "APPLICATION/JSON", "application/json;charset=utf-8", 'application/json; charset="UTF-8"'],
)
def test_what_is_json(content_type: str) -> None:
    assert read(Sender([b"{}"]), ("content-type", content_type)) == b"{}"


@pytest.mark.parametrize(
    "content_type",
    ["", "json", "text/plain", "text/json", "application/x-www-form-urlencoded", "application/xml",
     "application/problem+json", "application/json; charset=latin-1", "application/jsonp"],
)  # fmt: skip
def test_what_is_not_json(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType):
        read(Sender([b"{}"]), ("content-type", content_type))


def test_no_declaration_and_another_encoding() -> None:
    with pytest.raises(UnsupportedMediaType, match="Content-Type"):
        read(Sender([b"{}"]))
    with pytest.raises(UnsupportedMediaType, match="gzip"):
        read(Sender([b"{}"]), JSON, ("content-encoding", "gzip"))
    assert read(Sender([b"{}"]), JSON, ("content-encoding", "identity")) == b"{}"
