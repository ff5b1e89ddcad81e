"""A random schedule of faults, in rounds. One seed decides all of it, whatever the node does meanwhile."""

import errno
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.chaos.faults import MEGABYTE, Clock, Disk, Fault, Kill, Limit, Pause, Power, Who
from tests.chaos.node import SELDOM, TendedNode
from tests.chaos.shim import DiskFault, Operation

LONGEST_S = 2.0
LONGEST_AFTER_CLOCK_S = 8.0
"""A node looks at its clock every few seconds."""
SECOND_FAULT = 0.4
"""How often something else happens during a fault."""
LONGEST_REVERT_S = 0.1
HOUR_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Step:
    """Faults that overlap: the first begins, after a moment the second, and after another both end."""

    faults: tuple[Fault, ...]
    moments_s: tuple[float, ...]
    """How long to wait after each has begun."""
    revert: "Revert | None" = None
    """A snapshot is taken before the faults, and the chain goes back to it after them."""

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(fault.kind for fault in self.faults)

    def strike(self, node: TendedNode) -> None:
        """Do it, and undo what can be undone. The node may be on its way back then."""
        node.faults = self.kinds
        try:
            for fault, moment_s in zip(self.faults, self.moments_s, strict=True):
                fault.begin(node)
                node.tend_for(moment_s)
        finally:
            for fault in reversed(self.faults):
                fault.end(node)

    def __str__(self) -> str:
        faults = " | ".join(
            f"{fault} ({moment:.1f} s)" for fault, moment in zip(self.faults, self.moments_s, strict=True)
        )
        return faults if self.revert is None else f"{faults}, {self.revert}"


@dataclass(frozen=True, slots=True)
class Revert:
    """`killed_after_s` is when the node is killed in the middle of it, if it is."""

    killed_after_s: float | None

    def __str__(self) -> str:
        return "then back" if self.killed_after_s is None else f"then back, killed after {self.killed_after_s:.3f} s"


@dataclass(frozen=True, slots=True)
class Round:
    """Each kind of fault once, so that a short run has seen them all, on a node that is started in one way."""

    flags: tuple[str, ...]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return f"started with {' '.join(self.flags)}"


def draw_rounds(seed_number: int) -> Iterator[Round]:
    """Without end."""
    dice = random.Random(seed_number)
    while True:
        kinds = list(KINDS)
        dice.shuffle(kinds)
        first, *others = (_step(draw, dice) for draw in kinds)
        revert = Revert(dice.uniform(0, LONGEST_REVERT_S) if dice.random() < 0.5 else None)
        yield Round(_flags(dice), (replace(first, revert=revert), *others))


def _flags(dice: random.Random) -> tuple[str, ...]:
    """Blocks at once, often, or only after each step, so that all stays pending."""
    return "--block-time", dice.choice(("0", "0.1", SELDOM)), "--workers", dice.choice(("1", "2", "3"))


def _step(draw: Callable[[random.Random], Fault], dice: random.Random) -> Step:
    faults = [draw(dice)]
    if dice.random() < SECOND_FAULT:
        faults.append(dice.choice([beside for beside in BESIDE if beside is not draw])(dice))
    longest_s = LONGEST_AFTER_CLOCK_S if draw is _clock_step else LONGEST_S
    return Step(tuple(faults), tuple(dice.uniform(0.2, longest_s / len(faults)) for _ in faults))


def _broken_disk(dice: random.Random) -> Fault:
    """Some writes and syncs fail with EIO."""
    operations = dice.choice((Operation.SYNC, Operation.WRITE, Operation.WRITE | Operation.SYNC, Operation.CHANGE))
    chance = dice.choice((10_000, 100_000, 500_000))
    is_cut = dice.random() < 0.5
    return Disk("EIO at random", DiskFault(operations, errno.EIO, chance=chance, is_cut=is_cut, seed=_seed(dice)))


def _one_failure(dice: random.Random) -> Fault:
    """The n-th call fails, and none before or after it."""
    operations = dice.choice((Operation.SYNC, Operation.WRITE, Operation.CREATE, Operation.RENAME, Operation.REMOVE))
    first = dice.randrange(40 if operations in (Operation.SYNC, Operation.WRITE) else 3)
    error = dice.choice((errno.EIO, errno.ENOSPC))
    is_cut = dice.random() < 0.5
    return Disk("one call", DiskFault(operations, error, first, first + 1, is_cut=is_cut, seed=_seed(dice)))


def _failing_syncs(dice: random.Random) -> Fault:
    return Disk("failing syncs", DiskFault(Operation.SYNC, errno.EIO, first=dice.randrange(20)))


def _full_disk(dice: random.Random) -> Fault:
    operations = Operation.WRITE | Operation.CREATE | Operation.RESIZE
    fault = DiskFault(operations, errno.ENOSPC, first=dice.randrange(20), is_cut=True, seed=_seed(dice))
    return Disk("ENOSPC", fault)


def _read_only_disk(dice: random.Random) -> Fault:
    return Disk("EROFS", DiskFault(Operation.CHANGE & ~Operation.SYNC, errno.EROFS, first=dice.randrange(20)))


def _unreadable_disk(dice: random.Random) -> Fault:
    return Disk("unreadable", DiskFault(Operation.READ, errno.EIO, chance=200_000, seed=_seed(dice)))


def _short_writes(dice: random.Random) -> Fault:
    return Disk("short writes", DiskFault(Operation.WRITE, chance=500_000, is_cut=True, seed=_seed(dice)))


def _slow_syncs(dice: random.Random) -> Fault:
    return Disk("slow syncs", DiskFault(Operation.SYNC, delay_ms=dice.choice((10, 100, 700)), chance=500_000))


def _clock_step(dice: random.Random) -> Fault:
    return Clock(dice.choice((0.0, -2.0, 90.0, -HOUR_S, 5 * HOUR_S, -5 * HOUR_S, 48 * HOUR_S)))


def _kill(dice: random.Random) -> Fault:
    return Kill(_who(dice), dice.randrange(2))


def _power(dice: random.Random) -> Fault:
    return Power(_seed(dice))


def _pause(dice: random.Random) -> Fault:
    return Pause(_who(dice), dice.randrange(2))


def _few_descriptors(dice: random.Random) -> Fault:
    return Limit("descriptors", dice.choice(("core", "worker")), dice.randrange(4), dice.randrange(2))


def _little_memory(dice: random.Random) -> Fault:
    return Limit("memory", dice.choice(("core", "worker")), dice.randrange(12) * MEGABYTE, dice.randrange(2))


def _who(dice: random.Random) -> Who:
    return dice.choice(("core", "core", "worker", "supervisor", "all"))


def _seed(dice: random.Random) -> int:
    return dice.randrange(2**63)


KINDS: tuple[Callable[[random.Random], Fault], ...] = (
    _broken_disk, _one_failure, _failing_syncs, _full_disk, _read_only_disk, _unreadable_disk, _short_writes,
    _slow_syncs, _clock_step, _kill, _power, _pause, _few_descriptors, _little_memory,
)  # fmt: skip
BESIDE = (_clock_step, _kill, _pause)
"""What may happen during another fault."""
