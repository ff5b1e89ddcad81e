"""When to try again, and when to give up."""

import asyncio
import random
from collections.abc import Iterator

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 3.0
LEAST_ATTEMPT_S = 1.0
"""An attempt that has less time than this would only hide why the one before it failed."""


def delays() -> Iterator[float]:
    """Ever longer, each up to a half shorter at random: clients that failed together do not come back together."""
    delay_s = FIRST_DELAY_S
    while True:
        yield delay_s * random.uniform(0.5, 1.0)
        delay_s = min(2 * delay_s, LONGEST_DELAY_S)


class Deadline:
    """The end of all attempts together; None is never."""

    def __init__(self, timeout_s: float | None) -> None:
        self._ends_at = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s

    def left_s(self, at_most: float) -> float:
        """The time that is left, but not more than `at_most`; not below 0."""
        if self._ends_at is None:
            return at_most
        return min(at_most, max(0.0, self._ends_at - asyncio.get_running_loop().time()))

    async def pause(self, delay_s: float) -> bool:
        """Sleep, unless that would leave no time for another attempt: returns False at once then."""
        needed_s = delay_s + LEAST_ATTEMPT_S
        if self.left_s(needed_s) < needed_s:
            return False
        await asyncio.sleep(delay_s)
        return True
