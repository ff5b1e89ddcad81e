"""Long work in steps: whoever drives it may leave it between two of them, do something else, and go on.

A step is a fraction of a millisecond. Nobody sees anything of the work before its last step, or whoever looks is shown
what is right; so it may be left anywhere, and given up, too.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import TypeVar

STEP_ITEMS = 64
"""How many items of a few microseconds make a step. An even number, so that no pair of a tree is split."""

_T = TypeVar("_T")

Steps = Generator[None, None, _T]
"""Returns its result after the last step."""


def in_groups(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """The items in their order, as many at once as make a step."""
    size = STEP_ITEMS
    if len(items) <= size:
        yield items
        return
    for start in range(0, len(items), size):
        yield items[start : start + size]


def finish(steps: Steps[_T]) -> _T:
    """Take all steps that are left, at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result
