"""Arguments of the client: what nobody can mean is refused before any request."""

import pytest

from cairn.client import AsyncClient
from cairn.client.errors import InvalidField
from cairn.client.models import ConfirmedTransaction
from tests.support.scripted_server import Use, answer, run

pytestmark = pytest.mark.virtual_time

ADDRESS = "0x" + "aa" * 20


@pytest.mark.parametrize(
    ("field", "use"),
    [
        ("direction", lambda client: anext(client.payments(ADDRESS, 0, "sideways"))),
        ("direction", lambda client: anext(client.payments(ADDRESS, 0, None))),
        ("direction", lambda client: anext(client.payments_and_blocks(ADDRESS, 0, "Both"))),
        ("direction", lambda client: anext(client.history(ADDRESS, direction="sideways"))),
        ("addresses", lambda client: anext(client.payments([]))),
        ("addresses", lambda client: anext(client.payments_and_blocks(iter([])))),
        ("data", lambda client: anext(client.history(ADDRESS, data="0x123"))),
        ("data", lambda client: anext(client.history(ADDRESS, data="invoice 4711"))),
    ],
)
def test_payments_that_nobody_can_mean_are_refused_before_any_request(field: str, use: Use) -> None:
    result, server = run(use, answer(200, {}))
    assert isinstance(result, InvalidField)
    assert result.field == field
    assert not server.requests


@pytest.mark.parametrize("data", [b"\x00\xff", "0x00ff", "0x00FF"])
def test_a_history_is_searched_for_data_in_bytes_or_0x_text_in_both_directions(data: bytes | str) -> None:
    async def found(client: AsyncClient) -> list[ConfirmedTransaction]:
        return [tx async for tx in client.history(ADDRESS, data=data, direction="both")]

    result, server = run(found, answer(200, []))
    assert result == []
    assert server.requests[0][0].split()[1] == f"/account/{ADDRESS}/txs?data=0x00ff&limit=1000"
