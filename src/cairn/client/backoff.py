"""When to try again, and when to give up."""

import asyncio
import random
from collections.abc import Iterator

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 3.0
LEAST_ATTEMPT_S = 1.0
"""An attempt with less time than this would only fail by its time-out, and hide the error of the one before."""


def delays() -> Iterator[float]:
    """Growing delays, each shortened at random by up to a half, so that clients do not retry all at once."""
    delay_s = FIRST_DELAY_S
    while True:
        yield delay_s * random.uniform(0.5, 1.0)
        delay_s = min(2 * delay_s, LONGEST_DELAY_S)


class Deadline:
    """The time limit for all attempts together; None means no limit."""

    def __init__(self, timeout_s: float | None) -> None:
        self._ends_at = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s

    def left_s(self, at_most: float) -> float:
        """The time that is left: from 0 to `at_most`."""
        if self._ends_at is None:
            return at_most
        return min(at_most, max(0.0, self._ends_at - asyncio.get_running_loop().time()))

    async def pause(self, delay_s: float) -> bool:
        """Sleep. Returns False at once if that would leave no time for another attempt."""
        needed_s = delay_s + LEAST_ATTEMPT_S
        if self.left_s(needed_s) < needed_s:
            return False
        await asyncio.sleep(delay_s)
        return True
