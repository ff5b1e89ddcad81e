"""The whole comparison: rounds in which each target has its turn, so that a slow minute of the machine hits all."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers.apis import RpcApi
from bench.peers.chains import TARGETS, Setup, Target
from bench.peers.process_tree import Usage
from bench.peers.samples import Sample
from bench.peers.session import BLOCK_ATTEMPTS, BLOCK_TXS, CONNECTIONS, Figures, Session, Sizes
from bench.peers.yardstick import bare_requests_per_s
from bench.recovery import RecoverySampler
from bench.workload import Submission, presign

START_ACCOUNTS = 10

INTERVAL: dict[str, Callable[[Session], Figures]] = {
    "write": Session.measure_writes,
    "tx": Session.measure_tx,
    "receipt": Session.measure_receipt,
    "block": Session.measure_block,
    "full-block": Session.measure_full_block,
    "account": Session.measure_balance,
    "mixed": Session.measure_mixed,
    "mempool": Session.measure_mempool,
}
"""On one chain, in this order. After the mempool's nothing else can be: it leaves transactions behind that wait."""
INSTANT: dict[str, Callable[[Session], Figures]] = {
    "instant": Session.measure_instant,
    "sockets": Session.measure_sockets,
}
TEMPORARY: dict[str, Callable[[Session], Figures]] = {"instant-dev": Session.measure_temporary}
"""On a dev chain of Cairn, which keeps nothing, as those of the others."""
ONCE: dict[str, tuple[Callable[[Session], Figures], int, tuple[str, ...]]] = {
    "many-sockets": (Session.measure_many_sockets, 0, ("cairn-rest", "cairn-rpc", "geth", "anvil")),
    "sustained": (Session.measure_sustained, 1, ("cairn-rest", "geth", "anvil")),
}
"""After the rounds, on a chain of their own, with that interval of blocks, on those targets: they take long."""
START = "start"
ROWS = (START, *INTERVAL, *INSTANT, *TEMPORARY, *ONCE)
NOT_REPEATED = (START, "write", "mixed", "mempool", *ONCE)
"""What takes long, uses transfers up, or cannot be done twice on one chain: the next round has to do."""
RPC_ONLY = "full-block"


@dataclass
class Comparison:
    scratch: Path
    sizes: Sizes
    rows: Sequence[str]
    targets: Sequence[str]
    rounds: int
    tell: Callable[[str], None]
    keep: Callable[[Sequence[Sample]], None]
    """Called after each chain, so that a run that is stopped leaves something."""
    samples: list[Sample] = field(default_factory=list)

    def run(self) -> None:
        if not self.rows:
            return
        submissions = self._presign()
        for number in range(self.rounds):
            for name in self.targets:
                if number == 0 or TARGETS[name].is_fast:
                    self._turn(number, name, submissions, self.rows)
        if self.sizes.attempts > 1:
            for name in self.targets:
                self._turn(self.rounds, name, submissions, self._disturbed_rows(name))
        for row in [each for each in ONCE if each in self.rows]:
            work, interval_s, targets = ONCE[row]
            if row == "sustained":
                self.tell(f"signing {self.sizes.sustained_writes:,} transfers for the sustained load")
                submissions = presign(self.sizes.sustained_writes + self.sizes.warm_up, self.sizes.accounts)
            for name in [each for each in self.targets if each in targets]:
                self._session(0, name, submissions, {row: work}, interval_s)

    def _presign(self) -> list[Submission]:
        sizes = self.sizes
        count = sizes.warm_up + sizes.load + sizes.mixed_writes + BLOCK_ATTEMPTS * (BLOCK_TXS + 1)
        self.tell(f"signing {count:,} transfers ahead of time")
        return presign(count, sizes.accounts)

    def _disturbed_rows(self, name: str) -> list[str]:
        """Rows in which no run was undisturbed: they get one round more."""
        tried = {each.measurement for each in self.samples if each.target == name and each.is_disturbed}
        quiet = {each.measurement for each in self.samples if each.target == name and not each.is_disturbed}
        return [row for row in self.rows if row in tried - quiet]

    def _turn(self, number: int, name: str, submissions: Sequence[Submission], rows: Sequence[str]) -> None:
        if START in rows:
            self._session(number, name, [], {START: Session.measure_start}, 1)
        for works, interval_s in ((INTERVAL, 1), (INSTANT, 0), (TEMPORARY, 0)):
            chosen = {row: work for row, work in works.items() if row in rows}
            if chosen and (works is not TEMPORARY or TARGETS[name].is_ours):
                self._session(number, name, submissions, chosen, interval_s)

    def _session(
        self,
        number: int,
        name: str,
        submissions: Sequence[Submission],
        works: dict[str, Callable[[Session], Figures]],
        interval_s: int,
    ) -> None:
        target = TARGETS[name]
        works = {row: work for row, work in works.items() if row != RPC_ONLY or isinstance(target.api, RpcApi)}
        self.tell(f"round {number + 1}: {target.label}: {', '.join(works)}")
        try:
            bare_per_s = bare_requests_per_s(self.sizes.yardstick_s, CONNECTIONS)
            with self._opened(target, submissions, interval_s, works.keys() <= TEMPORARY.keys()) as session:
                for row, work in works.items():
                    self._measure(number, name, row, lambda work=work: work(session), bare_per_s)  # type: ignore[misc]
        except Exception as error:  # a chain that fails is reported, and the others go on
            missing = [row for row in works if not self._has(number, name, row)]
            self.samples += [Sample(name, row, number, error=_told(error)) for row in missing]
            self.tell(f"  {target.label} failed: {_told(error)}")
        self.keep(self.samples)

    @contextmanager
    def _opened(
        self, target: Target, submissions: Sequence[Submission], interval_s: int, is_temporary: bool
    ) -> Iterator[Session]:
        scratch = self.scratch / "chain"
        scratch.mkdir(parents=True)
        accounts = self.sizes.accounts if submissions else START_ACCOUNTS
        try:
            chain = target.start(Setup(scratch, accounts, interval_s, is_temporary))
            try:
                session = Session(target, chain, submissions, self.sizes)
                if submissions:
                    session.warm_up()
                try:
                    yield session
                finally:
                    session.close()
            finally:
                chain.close()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _measure(self, number: int, name: str, row: str, work: Callable[[], Figures], bare_per_s: float) -> None:
        for attempt in range(1 if row in NOT_REPEATED else self.sizes.attempts):
            sample = measured(name, row, number, work, bare_per_s)
            self.samples.append(sample)
            if sample.error:
                self.tell(f"  {row}: failed: {sample.error}")
            if sample.error or not sample.is_disturbed:
                return
            self.tell(f"  {row}: attempt {attempt + 1} was disturbed")

    def _has(self, number: int, name: str, row: str) -> bool:
        return any((each.target, each.measurement, each.round) == (name, row, number) for each in self.samples)


def measured(name: str, row: str, number: int, work: Callable[[], Figures], bare_per_s: float) -> Sample:
    """One run beside the yardstick, with what others took of the machine meanwhile."""
    before = Usage.now()
    try:
        with RecoverySampler() as sampler:
            figures = work()
            recovery_us = sampler.finish().mean_us
    except Exception as error:  # a row that fails is reported, and the others go on
        return Sample(name, row, number, error=_told(error))
    disturbance = Usage.now().disturbance_since(before)
    return Sample(
        name,
        row,
        number,
        figures,
        others_cores=disturbance.others_cores,
        stolen_cores=disturbance.stolen_cores,
        is_disturbed=disturbance.is_too_much,
        recovery_us=recovery_us,
        bare_per_s=bare_per_s,
    )


def _told(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:300]
