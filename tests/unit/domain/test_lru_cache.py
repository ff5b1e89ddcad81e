import pytest
from hypothesis import given
from hypothesis import strategies as st

from cairn.domain.lru_cache import LruCache


def test_beyond_the_limit_the_one_that_was_kept_or_used_longest_ago_is_forgotten() -> None:
    recent: LruCache[int, str] = LruCache(3)
    for number in range(3):
        recent.keep(number, str(number))
    assert recent.use(0) == "0"
    recent.keep(3, "3")
    recent.keep(2, "two")
    assert dict(recent) == {0: "0", 3: "3", 2: "two"}
    recent.keep(4, "4")
    assert list(recent) == [3, 2, 4]
    assert recent.use(0) is None


def test_looking_without_using_does_not_make_an_entry_newer() -> None:
    recent: LruCache[int, str] = LruCache(2)
    recent.keep(1, "1")
    recent.keep(2, "2")
    assert recent.get(1) == "1"
    recent.keep(3, "3")
    assert list(recent) == [2, 3]


def test_an_entry_of_more_than_a_quarter_of_all_is_not_kept() -> None:
    recent: LruCache[str, bytes] = LruCache(1_000, weigh=len)
    recent.keep("small", b"x")
    recent.keep("largest", bytes(250))
    recent.keep("huge", bytes(251))
    assert list(recent) == ["small", "largest"]


@pytest.mark.parametrize("most", [8, 40])
@given(kept=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12))))
def test_the_cache_is_filled_up_to_its_limit_and_never_beyond(most: int, kept: list[tuple[int, int]]) -> None:
    recent: LruCache[int, bytes] = LruCache(most, weigh=len)
    order: dict[int, int] = {}
    for key, size in kept:
        recent.keep(key, bytes(size))
        if size <= most // 4:
            order.pop(key, None)
            order[key] = size
            while sum(order.values()) > most:
                del order[next(iter(order))]
        assert {key: len(value) for key, value in recent.items()} == order
        assert list(recent) == list(order)


def test_after_clear_there_is_room_for_all_again() -> None:
    recent: LruCache[int, bytes] = LruCache(40, weigh=len)
    for number in range(4):
        recent.keep(number, bytes(10))
    recent.clear()
    for number in range(4):
        recent.keep(number, bytes(10))
    assert len(recent) == 4
