"""Our HTTP protocol and h11 read the same requests from the same bytes, and each gets one answer, in order.

`HTTP_SEED=…` repeats a run that failed; `HTTP_CASES=…` makes it longer.
"""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvloop
from structlog.testing import capture_logs

from cairn.api.server.http_protocol import HttpProtocol
from cairn.domain.errors import NodeError
from tests.support.http_fuzz import Generator, ProtocolClass, judge, serve
from tests.support.untold import untold_slowness

CASES = int(os.environ.get("HTTP_CASES", "1500"))
MOST_UNTIL_FOUND = 5_000
"""Conversations, always the same ones, until a fault that was put back is found; the rarest takes some hundreds."""
SEED = int(os.environ.get("HTTP_SEED", random.SystemRandom().randrange(2**32)))


async def converse(seed: int, make_protocol: ProtocolClass = HttpProtocol) -> None:
    conversation = Generator(seed).conversation()
    served = await serve(conversation, make_protocol)
    try:
        judge(conversation, served)
    except AssertionError as difference:
        shown = f"{conversation.segments}\nexecuted: {served.executed}\nanswers: {served.answers}"
        raise AssertionError(f"HTTP_SEED={seed} HTTP_CASES=1: {difference}\n{shown}") from None


def run(seeds: range, make_protocol: ProtocolClass = HttpProtocol) -> None:
    async def main() -> None:
        for seed in seeds:
            with no_errors(seed):
                await converse(seed, make_protocol)

    with untold_slowness():
        uvloop.run(main())


@contextmanager
def no_errors(seed: int) -> Iterator[None]:
    """Whatever a client sends, the server has nothing to complain about itself."""
    with capture_logs() as logged:
        yield
    assert not logged, f"HTTP_SEED={seed} HTTP_CASES=1: {logged}"


@pytest.mark.parametrize("part", range(3))
def test_our_protocol_and_h11_read_the_same_requests(part: int) -> None:
    # The first conversation of the first part is that of the seed itself.
    run(range(SEED + part * CASES, SEED + part * CASES + -(-CASES // 3)))


# Each of these puts a fault back that this node once had: the rule above must find it.


class BodyForgotten(HttpProtocol):
    """What follows an upgrade that is not taken up is parsed as the next request."""

    def _upgrade(self, rest: bytes) -> None:
        request = self._reader.newest
        assert request is not None
        framing = (b"content-length", b"transfer-encoding")
        request.headers = [header for header in request.headers if header[0] not in framing]
        super()._upgrade(rest)


class Overtaking(HttpProtocol):
    """A WebSocket does not wait for the answers before it."""

    def _may_begin(self) -> bool:
        return self.waiting[0].is_upgrade or super()._may_begin()


class AnsweredTwice(HttpProtocol):
    """A body that goes wrong after its request was answered is refused as if it were another request."""

    def _refuse(self, error: NodeError) -> None:
        super()._refuse(error)
        self._refusal = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize("faulty", [BodyForgotten, Overtaking, AnsweredTwice])
def test_a_fault_that_is_put_back_is_found(faulty: ProtocolClass) -> None:
    with pytest.raises(AssertionError, match="HTTP_SEED="):
        run(range(MOST_UNTIL_FOUND), faulty)
