"""Which nonces are missing, however many, and how that is said."""

import msgspec
import pytest

from cairn.cli.wallet.nonces import gaps_between, tell_missing, tell_not_held
from cairn.client.models import PendingTransaction


@pytest.mark.parametrize(
    ("first", "nonce", "held", "told"),
    [
        (7, 8, [], "nonce 7 is missing"),
        (0, 40, [], "nonces 0 to 39 are missing"),
        (2, 7, [4, 0, 1, 9], "nonces 2 to 3, 5 to 6 are missing"),
        (2, 5, [2, 3], "nonce 4 is missing"),
        (2, 6, [3, 5], "nonces 2, 4 are missing"),
        (0, 10**30, [1], f"nonces 0, 2 to {10**30 - 1} are missing"),
    ],
)
def test_missing_nonces_are_told_in_spans(first: int, nonce: int, held: list[int], told: str) -> None:
    assert tell_missing(gaps_between(first, nonce, held)) == told


def test_nothing_is_missing_when_all_before_are_held() -> None:
    assert gaps_between(2, 5, [2, 3, 4]) == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"notHeld": "replaced", "replacedBy": "0x12"}, "replaced here by 0x12: another node may still confirm it"),
        ({"notHeld": "evicted"}, "evicted here: another node may still confirm it"),
    ],
)
def test_one_that_the_node_no_longer_holds_says_why_and_what_it_holds(fields: dict[str, str], told: str) -> None:
    own = {"txHash": "0x", "from": "0x", "to": "0x", "value": 1, "nonce": 0, "gas": 21_000, "gasPrice": 1}
    assert tell_not_held(msgspec.convert({"status": "pending"} | own | fields, PendingTransaction)) == told
