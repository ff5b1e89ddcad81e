"""Kill, part and pause validators of a real network under load: nothing that any of them accepted is lost or doubled.

`make kills` runs it after the kills of single nodes; `NETWORK=20` is how many rounds. Four validators share the load:
each burst of a sender goes through two of them, so that a transfer and the one that replaces it are often accepted by
different nodes. In each round something happens to one node, or to two so that no block is made until they are back.
Then every node must know what it accepted itself. At the end all have the same blocks and balances, all that was signed
is confirmed or another one in its place, and nothing is confirmed that any of them told as dropped.
"""

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cairn.domain.genesis import DEV_KEYS
from tests.chaos.crowd import Crowd
from tests.chaos.ledger import Ledger, PatientNode
from tests.chaos.load import LOST, Sender, finish_all, hex_of, make_senders
from tests.chaos.promises import check_told, follow_some
from tests.chaos.report import facts, table
from tests.support.network import Network, NetworkNode
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.promises import assert_agreement, followers

PAUSE_S = 0.3
"""Between two bursts of a sender, on average."""
MOST_ANSWERS = 100
"""Before something happens in a round."""
LONGEST_S = 2.0
START_S = 2.0
"""A start that is killed has had up to so long."""


class NetworkLedger(Ledger):
    """Also knows which node answered: the others may hear of a transfer much later."""

    def __init__(self) -> None:
        super().__init__([hex_of(address) for address, _ in DEV_KEYS])
        self._accepted_by: defaultdict[str, set[str]] = defaultdict(set)

    def note_accepted(self, tx_hash: str, url: str) -> None:
        super().note_accepted(tx_hash, url)
        self._accepted_by[url].add(tx_hash)

    def accepted_by(self, url: str) -> set[str]:
        return set(self._accepted_by[url])

    @property
    def split_places(self) -> int:
        """Places for which different nodes accepted different transfers."""
        hashes_of, urls_of = (defaultdict[tuple[str, int], set[str]](set) for _ in range(2))
        for url, hashes in self._accepted_by.items():
            for tx_hash in hashes:
                place = self.signed[tx_hash].place
                hashes_of[place].add(tx_hash)
                urls_of[place].add(url)
        return sum(len(hashes) > 1 and len(urls_of[place]) > 1 for place, hashes in hashes_of.items())


@dataclass
class NetworkRun:
    """What has happened so far."""

    seed_number: int
    ledger: NetworkLedger = field(default_factory=NetworkLedger)
    rounds: Counter[str] = field(default_factory=Counter)
    """By what happened."""
    kills: int = 0
    killed_starts: int = 0
    slowest_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Until all are ready again and have a new block."""
    took_s: float = 0.0


class NetworkLoad(Crowd):
    """Every sender at once, each burst through two nodes, whether they live or not."""

    def __init__(self, senders: list[Sender], urls: Sequence[str]) -> None:
        super().__init__()
        self._senders, self._urls = senders, urls

    def clients(self) -> list[Coroutine[Any, Any, None]]:
        return [self._keep_sending(sender) for sender in self._senders]

    async def _keep_sending(self, sender: Sender) -> None:
        while True:
            with suppress(*LOST):
                await sender.send_burst(*sender.dice.sample(self._urls, 2))
            await asyncio.sleep(sender.dice.uniform(0, 2 * PAUSE_S))


class Victims:
    """What is done to a network in one round; at its end every process runs and every link is up."""

    def __init__(self, network: Network, run: NetworkRun, dice: random.Random) -> None:
        self._network, self._run, self._dice = network, run, dice

    def kill_one(self) -> None:
        [node] = self._draw(1)
        self._kill(node)
        self._pass_time()
        self._launch(node)

    def kill_two(self) -> None:
        """Two of four are too few: there is no block until one is back."""
        nodes = self._draw(2)
        for node in nodes:
            self._kill(node)
            self._pass_time()
        for node in nodes:
            self._launch(node)
            self._pass_time()

    def part_and_kill(self) -> None:
        """What the lonely one accepted, nobody else has heard of when it dies."""
        [node] = self._draw(1)
        self._network.split([node.index], "cut" if self._dice.random() < 0.5 else "held")
        self._pass_time()
        self._kill(node)
        self._network.heal()
        self._pass_time()
        self._launch(node)

    def part_halves(self) -> None:
        self._network.split([node.index for node in self._draw(2)])
        self._pass_time()
        self._network.heal()

    def pause(self) -> None:
        [node] = self._draw(1)
        node.freeze()
        try:
            self._pass_time()
        finally:
            node.thaw()

    def _draw(self, count: int) -> list[NetworkNode]:
        return self._dice.sample(self._network.nodes, count)

    def _pass_time(self) -> None:
        time.sleep(self._dice.uniform(0, LONGEST_S))

    def _kill(self, node: NetworkNode) -> None:
        node.kill()
        self._run.kills += 1

    def _launch(self, node: NetworkNode) -> None:
        """Now and then it is killed while it starts."""
        node.launch()
        if self._dice.random() < 0.25:
            time.sleep(self._dice.uniform(0, START_S))
            node.kill()
            self._run.killed_starts += 1
            node.launch()


KINDS: dict[str, Callable[[Victims], None]] = {
    "one killed": Victims.kill_one,
    "two killed: no blocks meanwhile": Victims.kill_two,
    "one parted from the rest, then killed": Victims.part_and_kill,
    "halves parted: no blocks meanwhile": Victims.part_halves,
    "one paused": Victims.pause,
}


def draw_kinds(dice: random.Random) -> Iterator[str]:
    """Each once, in a random order, again and again, without end."""
    while True:
        yield from dice.sample(list(KINDS), len(KINDS))


def run_network_kills(run: NetworkRun, rounds: int, directory: Path) -> None:
    """Raises `AssertionError` or `TimeoutError` at the first promise that is broken."""
    began = time.monotonic()
    dice = random.Random(run.seed_number)
    senders = make_senders(run.seed_number, run.ledger)
    for sender in senders:
        # The nonces before it may be known only to a node that is gone.
        sender.not_yet = ("NONCE_TOO_HIGH",)
    with Network(directory) as network:
        try:
            network.start()
            with followers(network.nodes) as told:
                follow_some(senders, told)
                with NetworkLoad(senders, [node.url for node in network.nodes]) as load:
                    for _, kind in zip(range(rounds), draw_kinds(dice), strict=False):
                        take_round(kind, network, load, run, dice)
                check_end(network, senders, run.ledger)
                for follower in told:
                    check_told(follower, run.ledger)
        except Exception as failure:
            for node in network.nodes:
                failure.add_note(node.last_words())
            raise
        finally:
            run.took_s = time.monotonic() - began


def take_round(kind: str, network: Network, load: NetworkLoad, run: NetworkRun, dice: random.Random) -> None:
    await_accepted(load, run.ledger, 1 + dice.randrange(MOST_ANSWERS))
    KINDS[kind](Victims(network, run, dice))
    began = time.monotonic()
    for node in network.nodes:
        node.await_ready()
    top = max(node.height() for node in network.nodes) + 1
    for node in network.nodes:
        node.await_height(top)
    run.slowest_s[kind] = max(run.slowest_s[kind], time.monotonic() - began)
    run.rounds[kind] += 1
    for node in network.nodes:
        check_node(node, run.ledger, run.ledger.check_kept)


def await_accepted(load: NetworkLoad, ledger: Ledger, count: int) -> None:
    enough = len(ledger.accepted) + count

    def is_enough() -> bool:
        load.check()
        return len(ledger.accepted) >= enough

    wait_until(is_enough, PATIENCE_S, f"{count} transfers to be accepted; {ledger.refused} were sent again")


def check_node(node: NetworkNode, ledger: Ledger, check: Callable[[PatientNode], None]) -> None:
    """When it has come as far as the ledger."""
    node.await_height(len(ledger.block_hashes) - 1)
    with closing(PatientNode(node.url)) as reader:
        check(reader)


def check_end(network: Network, senders: list[Sender], ledger: Ledger) -> None:
    """Whatever was signed is confirmed, or another one in its place, and every node shows the same."""
    first, *_ = network.nodes
    finish_all(senders, first.url)
    with closing(PatientNode(first.url)) as reader:

        def is_all_confirmed() -> bool:
            ledger.read_blocks(reader)
            return ledger.places(ledger.signed) == ledger.places(ledger.heights)

        wait_until(is_all_confirmed, PATIENCE_S, "all that was signed to be confirmed")
    for node in network.nodes:
        check_node(node, ledger, ledger.check_final)
    assert_agreement(network.nodes)


def sections(run: NetworkRun) -> list[str]:
    ledger = run.ledger
    counts = facts(
        {
            "seconds": run.took_s,
            "kills of a validator under load": run.kills,
            "kills of a starting validator": run.killed_starts,
            "transfers answered 200": len(ledger.accepted),
            "answered 503 or too far ahead, sent again": ledger.refused,
            "never answered, sent again": ledger.lost,
            "nonces for which nodes accepted different transfers": ledger.split_places,
            "accepted, and another one confirmed for that nonce": ledger.replaced,
            "told as dropped to a reader": len(ledger.told_dropped),
            "blocks, the same on every node": len(ledger.block_hashes),
        }
    )
    by_kind = table(
        ("what happened", "rounds", "slowest until all were ready and had a new block, s"),
        [(kind, count, run.slowest_s[kind]) for kind, count in sorted(run.rounds.items())],
    )
    return ["\n## A network of four validators\n", counts, "", by_kind]
