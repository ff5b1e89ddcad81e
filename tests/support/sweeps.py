"""Sweeps over everything of a kind: `make test` takes a sample, with a seed that is printed, `make test-all` takes all.

`SWEEP_SEED=…` takes the same sample again, `SWEEP_ALL=1` everything.
"""

import os
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

IS_WHOLE = "SWEEP_ALL" in os.environ
SEED = int(os.environ.get("SWEEP_SEED", random.SystemRandom().randrange(2**32)))
SHARE = 8
"""One of so many is taken."""


def swept(every: Sequence[T], name: str) -> list[T]:
    """The sample of these, in their order, or all of them. Another name is another sample."""
    if IS_WHOLE:
        return list(every)
    print(f"SWEEP_SEED={SEED}")
    count = -(-len(every) // SHARE)
    taken = sorted(random.Random(f"{SEED} {name}").sample(range(len(every)), count))
    return [every[index] for index in taken]
