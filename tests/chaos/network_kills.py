"""Kill, part and pause validators of a real network under load, and have them lose their power.

`make kills` runs it after the kills of single nodes; `NETWORK=20` is how many rounds. In each round something happens
to one node, or to two so that no block is made until they are back.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.chaos.network_run import NetworkRun, Stage, run_network
from tests.chaos.node import Validator

LONGEST_S = 2.0
START_S = 2.0
"""A start that is killed has had up to so long."""


class Victims:
    """What is done to a network in one round; at its end every process runs and every link is up."""

    def __init__(self, stage: Stage) -> None:
        self._network, self._validators = stage.network, stage.validators
        self._run, self._dice = stage.run, stage.dice

    def kill_one(self) -> None:
        [validator] = self._draw(1)
        self._kill(validator)
        self._pass_time()
        self._launch(validator)

    def kill_two(self) -> None:
        """Two of four are too few: there is no block until one is back."""
        validators = self._draw(2)
        for validator in validators:
            self._kill(validator)
            self._pass_time()
        for validator in validators:
            self._launch(validator)
            self._pass_time()

    def kill_all(self) -> None:
        """Within a moment: a whole site loses its power. What was not synced, nobody has."""
        for validator in self._validators:
            self._kill(validator, power=1.0)
        for validator in self._validators:
            self._launch(validator)

    def part_and_kill(self) -> None:
        """What the lonely one accepted, nobody else has heard of when it dies."""
        [validator] = self._draw(1)
        self._network.split([validator.node.index], "cut" if self._dice.random() < 0.5 else "held")
        self._pass_time()
        self._kill(validator)
        self._network.heal()
        self._pass_time()
        self._launch(validator)

    def part_halves(self) -> None:
        self._network.split([validator.node.index for validator in self._draw(2)])
        self._pass_time()
        self._network.heal()

    def pause(self) -> None:
        [validator] = self._draw(1)
        validator.process.signal_group(signal.SIGSTOP)
        try:
            self._pass_time()
        finally:
            validator.process.signal_group(signal.SIGCONT)

    def kill_engine(self) -> None:
        """CometBFT alone: the node starts another."""
        [validator] = self._draw(1)
        for pid, name in validator.process.children().items():
            if name == "cometbft":
                os.kill(pid, signal.SIGKILL)

    def _draw(self, count: int) -> list[Validator]:
        return self._dice.sample(self._validators, count)

    def _pass_time(self) -> None:
        time.sleep(self._dice.uniform(0, LONGEST_S))

    def _kill(self, validator: Validator, power: float = 0.5) -> None:
        self._end(validator, power)
        self._run.kills += 1

    def _end(self, validator: Validator, power: float = 0.5) -> None:
        """So often it is its machine that ends."""
        validator.kill()
        if validator.shim is not None and self._dice.random() < power:
            validator.shim.cache.lose(self._dice)
            self._run.power_losses += 1

    def _launch(self, validator: Validator) -> None:
        """Now and then it is killed while it starts."""
        validator.tend()
        if self._dice.random() < 0.25:
            time.sleep(self._dice.uniform(0, START_S))
            self._end(validator)
            self._run.killed_starts += 1
            validator.tend()


KINDS: dict[str, Callable[[Victims], None]] = {
    "one killed": Victims.kill_one,
    "two killed: no blocks meanwhile": Victims.kill_two,
    "all lost their power": Victims.kill_all,
    "CometBFT of one killed": Victims.kill_engine,
    "one parted from the rest, then killed": Victims.part_and_kill,
    "halves parted: no blocks meanwhile": Victims.part_halves,
    "one paused": Victims.pause,
}


def draw_kinds(dice: random.Random) -> Iterator[str]:
    """Each once, in a random order, again and again, without end."""
    while True:
        yield from dice.sample(list(KINDS), len(KINDS))


def kill_some(stage: Stage, rounds: int) -> None:
    victims = Victims(stage)
    for _, kind in zip(range(rounds), draw_kinds(stage.dice), strict=False):
        stage.take([kind], partial(KINDS[kind], victims))


def run_network_kills(run: NetworkRun, rounds: int, directory: Path) -> None:
    """Kill validators in so many rounds. Raises `AssertionError` or `TimeoutError` at the first broken promise."""
    run_network(run, directory, lambda stage: kill_some(stage, rounds))
