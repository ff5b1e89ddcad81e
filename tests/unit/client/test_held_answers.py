"""How long an answer is waited for that the node was asked to hold back."""

import httpx
import pytest
from msgspec.json import Decoder

from cairn.client.backoff import Deadline
from cairn.client.models import Probe
from cairn.client.transport import Query, Transport
from tests.support.virtual_time import run_virtual

SILENCE_S = 15.0


class Recording(Transport):
    """Answers at once, and keeps how long it would have waited."""

    waited_s = -1.0

    async def _exchange(
        self, method: str, path: str, body: bytes | None, query: Query | None, timeout_s: float
    ) -> httpx.Response:
        self.waited_s = timeout_s
        return httpx.Response(200, content=b'{"status":"alive"}')


@pytest.mark.parametrize(
    ("deadline_s", "held_s", "waited_s"),
    [
        (60.0, 0.0, SILENCE_S),
        (2.0, 0.0, 2.0),
        (60.0, 20.0, 20.0 + SILENCE_S),
        # The node may answer as late as it may at any other time: it did what it was asked to.
        (0.5, 0.5, 0.5 + SILENCE_S),
    ],
)
def test_it_is_owed_only_when_it_is_no_longer_held(deadline_s: float, held_s: float, waited_s: float) -> None:
    async def main() -> float:
        transport = Recording("http://127.0.0.1:1", timeout_s=None, silence_timeout_s=SILENCE_S, tls=None)
        deadline = Deadline(deadline_s)
        await transport.get("/tx/0x", Decoder(Probe), deadline=deadline, held_s=held_s)
        await transport.close()
        return transport.waited_s

    assert run_virtual(main()) == waited_s
