from itertools import islice

import pytest

from cairn.client.backoff import FIRST_DELAY_S, LONGEST_DELAY_S, Deadline, delays


def test_delays_grow_to_a_bound_and_differ() -> None:
    runs = [list(islice(delays(), 12)) for _ in range(20)]
    for run in runs:
        expected = FIRST_DELAY_S
        for delay_s in run:
            assert expected / 2 <= delay_s <= expected
            expected = min(2 * expected, LONGEST_DELAY_S)
    assert len({run[0] for run in runs}) > 1


@pytest.mark.virtual_time
async def test_a_deadline_gives_no_more_than_is_left() -> None:
    deadline = Deadline(60.0)
    assert deadline.left_s(at_most=5.0) == 5.0
    assert deadline.left_s(at_most=100.0) == 60.0
    assert await deadline.pause(1.0)
    assert deadline.left_s(at_most=100.0) == 59.0
    assert await deadline.pause(58.0)
    assert not await deadline.pause(0.5)
    assert Deadline(0.0).left_s(at_most=1.0) == 0.0
    assert Deadline(-1.0).left_s(at_most=1.0) == 0.0


@pytest.mark.virtual_time
async def test_without_a_deadline_there_is_always_time() -> None:
    assert Deadline(None).left_s(at_most=1e9) == 1e9
    assert await Deadline(None).pause(3_600.0)
