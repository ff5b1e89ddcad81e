"""A ranking keeps entries in the order of their numbers."""

import pytest

from cairn.mempool.order import Entry, Ranking
from tests.support.transfers import transfer


def test_keeps_order_whatever_the_order_of_additions() -> None:
    ranking = Ranking()
    entries = {number: Entry(transfer(1, number), 0, number) for number in (30, 10, 20)}
    for number, entry in entries.items():
        ranking.add(number, entry)
    assert list(ranking.entries_from(0)) == [entries[10], entries[20], entries[30]]
    assert list(ranking.entries_from(20)) == [entries[20], entries[30]]
    assert list(ranking.entries_from(21)) == [entries[30]]
    assert list(ranking.entries_from(31)) == []
    assert ranking.find_last() is entries[30]
    ranking.remove(30)
    assert ranking.find_last() is entries[20]
    assert len(ranking) == 2


def test_an_empty_one_has_no_last() -> None:
    assert Ranking().find_last() is None


def test_removing_what_is_not_there_is_a_fault_of_ours() -> None:
    with pytest.raises(ValueError, match="7 not in list"):
        Ranking().remove(7)
