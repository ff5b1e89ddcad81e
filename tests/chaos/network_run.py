"""Four validators that share one load, while things are done to them; and what they must show then.

Each burst of a sender goes through two of them, so that a transfer and the one that replaces it are often accepted by
different nodes. After each thing that is done, every node must be ready, have a new block, and know what it accepted
itself. At the end all have the same blocks and balances, all that was signed is confirmed or another one in its place,
nothing is confirmed that any of them told as dropped, and no log has an error that nothing explains.
"""

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cairn.domain.genesis import DEV_KEYS
from tests.chaos.crowd import Crowd
from tests.chaos.ledger import Ledger, PatientNode
from tests.chaos.load import LOST, Sender, finish_all, hex_of, make_senders
from tests.chaos.node import Validator
from tests.chaos.node_log import LoggedError, check_explained, count_names
from tests.chaos.node_log import sections as error_sections
from tests.chaos.promises import check_told, follow_some
from tests.chaos.report import facts, table
from tests.chaos.shim import Shim, find_compiler
from tests.support.network import Network
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.promises import assert_agreement, followers

PAUSE_S = 0.3
"""Between two bursts of a sender, on average."""
MOST_ANSWERS = 100
"""Before something happens."""


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
        for url in list(self._accepted_by):
            for tx_hash in self.accepted_by(url):
                place = self.signed[tx_hash].place
                hashes_of[place].add(tx_hash)
                urls_of[place].add(url)
        return sum(len(hashes) > 1 and len(urls_of[place]) > 1 for place, hashes in hashes_of.items())


@dataclass
class NetworkRun:
    """What has happened so far."""

    seed_number: int
    ledger: NetworkLedger = field(default_factory=NetworkLedger)
    times: Counter[str] = field(default_factory=Counter)
    """By what was done."""
    kills: int = 0
    killed_starts: int = 0
    power_losses: int = 0
    lost_files: int = 0
    slowest_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Until all are ready again and have a new block."""
    ended_alone: Counter[int] = field(default_factory=Counter)
    errors: list[LoggedError] = field(default_factory=list)
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


@dataclass(frozen=True, slots=True)
class Stage:
    """A network under load."""

    run: NetworkRun
    network: Network
    validators: Sequence[Validator]
    load: NetworkLoad
    dice: random.Random

    def take(self, kinds: Sequence[str], happen: Callable[[], None]) -> None:
        """When there is something to lose, have it happen. Then all must come back and go on."""
        self.await_accepted(1 + self.dice.randrange(MOST_ANSWERS))
        happen()
        began = time.monotonic()
        self._await_block()
        for kind in kinds:
            self.run.times[kind] += 1
            self.run.slowest_s[kind] = max(self.run.slowest_s[kind], time.monotonic() - began)
        self.check_kept()
        for validator in self.validators:
            validator.note_errors()
            validator.faults = ()

    def _await_block(self) -> None:
        for validator in self.validators:
            validator.await_ready()
        top = max(node.height() for node in self.network.nodes) + 1
        for node in self.network.nodes:
            node.await_height(top)

    def await_accepted(self, count: int) -> None:
        ledger = self.run.ledger
        enough = len(ledger.accepted) + count

        def is_enough() -> bool:
            self.load.check()
            return len(ledger.accepted) >= enough

        wait_until(is_enough, PATIENCE_S, f"{count} transfers to be accepted; {ledger.refused} were sent again")

    def check_kept(self) -> None:
        for validator in self.validators:
            check_node(validator, self.run.ledger, self.run.ledger.check_kept)


def run_network(
    run: NetworkRun,
    directory: Path,
    live: Callable[[Stage], None],
    at_rest: Callable[[Network], None] = lambda network: None,
) -> None:
    """`live` is what happens under load, `at_rest` what is looked at when all is confirmed and the clients have left.

    Raises at the first promise that is broken.
    """
    began = time.monotonic()
    senders = make_senders(run.seed_number, run.ledger)
    for sender in senders:
        # The nonces before it may be known only to a node that is gone.
        sender.not_yet = ("NONCE_TOO_HIGH",)
    with Network(directory) as network:
        validators = make_validators(network, directory)
        try:
            network.start()
            with followers(network.nodes) as told:
                follow_some(senders, told)
                with NetworkLoad(senders, [node.url for node in network.nodes]) as load:
                    live(Stage(run, network, validators, load, random.Random(run.seed_number)))
                check_end(network, validators, senders, run.ledger)
                at_rest(network)
                for follower in told:
                    check_told(follower, run.ledger)
        except Exception as failure:
            for node in network.nodes:
                failure.add_note(node.last_words())
            raise
        finally:
            run.took_s = time.monotonic() - began
            note_lives(run, validators)
        check_explained(run.errors)


def make_validators(network: Network, directory: Path) -> list[Validator]:
    """Where there is a C compiler, the disk of each can fail and lose its cache: of the node's own, not CometBFT's.

    CometBFT is written in Go, and makes its calls to the system by itself.
    """
    compiler = find_compiler()
    shims: list[Shim | None] = []
    for node in network.nodes:
        place = directory / f"{node.home.name}.shim"
        place.mkdir()
        shims.append(None if compiler is None else Shim(place, node.home / "data", compiler))
    return [Validator(node, shim) for node, shim in zip(network.nodes, shims, strict=True)]


def note_lives(run: NetworkRun, validators: Sequence[Validator]) -> None:
    for validator in validators:
        if validator.node.process is not None:
            validator.note_errors()
        run.errors += validator.errors
        run.ended_alone += validator.ended_alone
        run.lost_files += 0 if validator.shim is None else validator.shim.cache.lost_files


def check_node(validator: Validator, ledger: Ledger, check: Callable[[PatientNode], None]) -> None:
    """When it has come as far as the ledger."""
    validator.node.await_height(len(ledger.block_hashes) - 1)
    with closing(PatientNode(validator.url)) as reader:
        check(reader)


def check_end(network: Network, validators: Sequence[Validator], senders: list[Sender], ledger: Ledger) -> None:
    """Whatever was signed is confirmed, or another one in its place, and every node shows the same."""
    first, *_ = network.nodes
    finish_all(senders, first.url)
    with closing(PatientNode(first.url)) as reader:

        def is_all_confirmed() -> bool:
            ledger.read_blocks(reader)
            return ledger.places(ledger.signed) == ledger.places(ledger.heights)

        wait_until(is_all_confirmed, PATIENCE_S, "all that was signed to be confirmed")
    for validator in validators:
        check_node(validator, ledger, ledger.check_final)
    assert_agreement(network.nodes)


def sections(run: NetworkRun) -> list[str]:
    ledger = run.ledger
    counts = facts(
        {
            "seconds": run.took_s,
            "kills of a validator under load": run.kills,
            "kills of a starting validator": run.killed_starts,
            "losses of power": run.power_losses,
            "files that lost unsynced writes": run.lost_files,
            "transfers answered 200": len(ledger.accepted),
            "answered 503 or too far ahead, sent again": ledger.refused,
            "never answered, sent again": ledger.lost,
            "nonces for which nodes accepted different transfers": ledger.split_places,
            "accepted, and another one confirmed for that nonce": ledger.replaced,
            "told as dropped to a reader": len(ledger.told_dropped),
            "blocks, the same on every node": len(ledger.block_hashes),
            "lives that ended by themselves, by exit code": run.ended_alone,
            "errors in a log": count_names(run.errors),
        }
    )
    by_kind = table(
        ("what happened", "times", "slowest until all were ready and had a new block, s"),
        [(kind, count, run.slowest_s[kind]) for kind, count in sorted(run.times.items())],
    )
    return ["\n## A network of four validators\n", counts, "", by_kind, *error_sections(run.errors)]
