"""Bids compare as offers do."""

from cairn.domain.types import MAX_UINT256
from cairn.mempool.order import QUEUED, bid_of, pays_more


def test_a_higher_price_is_the_better_bid_whenever_it_came() -> None:
    assert bid_of(11, seq=2**63) < bid_of(10, seq=0)


def test_at_one_price_the_earlier_bid_is_better() -> None:
    assert bid_of(10, seq=1) < bid_of(10, seq=2)


def test_no_bid_looks_like_waiting() -> None:
    assert bid_of(MAX_UINT256, seq=0) > QUEUED


def test_pays_more_looks_at_the_price_alone() -> None:
    assert pays_more(bid_of(11, seq=9), bid_of(10, seq=1))
    assert not pays_more(bid_of(10, seq=1), bid_of(10, seq=9))
    assert not pays_more(bid_of(9, seq=1), bid_of(10, seq=9))
