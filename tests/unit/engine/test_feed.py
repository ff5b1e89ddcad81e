"""The feed tells every height to every listener, in order."""

import pytest

from cairn.engine.application import Feed


def test_tells_each_listener_in_the_order_of_subscription() -> None:
    feed, heard = Feed(), list[tuple[str, int]]()
    feed.subscribe(lambda height: heard.append(("first", height)))
    feed.subscribe(lambda height: heard.append(("second", height)))
    feed.announce(7)
    feed.announce(8)
    assert heard == [("first", 7), ("second", 7), ("first", 8), ("second", 8)]


def test_a_late_listener_hears_only_what_comes_after() -> None:
    feed, heard = Feed(), list[int]()
    feed.announce(1)
    feed.subscribe(heard.append)
    feed.announce(2)
    assert heard == [2]


@pytest.mark.parametrize("height", [3, 4, 6])
def test_a_height_out_of_order_is_a_fault_of_ours(height: int) -> None:
    feed, heard = Feed(), list[int]()
    feed.subscribe(heard.append)
    feed.announce(4)
    with pytest.raises(AssertionError, match=f"height {height} announced after 4"):
        feed.announce(height)
    assert heard == [4]


def test_a_jump_leaves_heights_out_and_never_goes_back() -> None:
    feed, heard = Feed(), list[int]()
    feed.subscribe(heard.append)
    feed.jump(40)
    feed.announce(41)
    feed.jump(90)
    with pytest.raises(AssertionError, match="a jump to height 90 from 90"):
        feed.jump(90)
    assert heard == [40, 41, 90]
