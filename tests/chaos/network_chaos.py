"""The faults of a schedule on validators of a real network under load, one of them at a time.

`make chaos` runs it after the faults on a node alone; `NETWORK=450` is for how many seconds. After every few steps
whole validators are killed, parted or paused too, as in `make kills`.
"""

import time
from functools import partial
from itertools import count
from pathlib import Path

from tests.chaos.network_kills import KINDS, Victims, draw_kinds
from tests.chaos.network_run import NetworkRun, Stage, run_network
from tests.chaos.schedule import draw_rounds

WHOLE_EVERY = 3
"""After so many steps something happens to whole validators."""


def run_network_chaos(run: NetworkRun, seconds: float, directory: Path) -> None:
    """Do faults to a network for so long, at least one of each sort. The first broken promise is raised."""
    run_network(run, directory, lambda stage: take_steps(stage, time.monotonic() + seconds))


def take_steps(stage: Stage, deadline: float) -> None:
    """How a node is started and reverts belong to a dev chain: those of the schedule are left out."""
    victims, kinds = Victims(stage), draw_kinds(stage.dice)
    steps = (step for drawn in draw_rounds(stage.run.seed_number) for step in drawn.steps)
    for number, step in zip(count(), steps, strict=False):
        validator = stage.dice.choice(stage.validators)
        stage.take(step.kinds, partial(step.strike, validator))
        if number % WHOLE_EVERY == 0:
            kind = next(kinds)
            stage.take([kind], partial(KINDS[kind], victims))
        if time.monotonic() > deadline:
            break
    for validator in stage.validators:
        if validator.shim is not None:
            validator.shim.step_clock(0)
