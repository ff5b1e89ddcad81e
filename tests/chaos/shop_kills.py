"""Kill the shop of the tutorial and its node, again and again: every order is delivered once.

    make shop KILLS=200                    two shops in Python, each killed 100 times, and its node as often
    make shop KILLS=20 SEED=1234           the same customers and kills again, as far as the machine allows

Where the packages of `make js` are installed, a shop in TypeScript runs beside them, with a quarter as many kills. Each
has a node of its own. The report goes to reports/shop.md.
"""

import argparse
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.report import end_on_sigterm, failure_of, table, write_report
from tests.support.killed_shop import KillableNode, KilledShop
from tests.support.scratch import scratch_parent
from tests.support.shop import PythonShop, Shop, TypeScriptShop, compile_shop

PACKAGES = Path(__file__).parents[1] / "js" / "node_modules"


@dataclass
class ShopRun:
    """One language."""

    language: str
    kills: int
    took_s: float = 0.0
    shop: KilledShop | None = None

    def row(self) -> tuple[object, ...]:
        if self.shop is None:
            return self.language, *[0] * 6, self.took_s
        books, delivered = self.shop.books, self.shop.delivered
        paid = len(books.payments) - len(books.refunds)
        return (
            self.language, self.shop.kills, self.shop.kills, len(books.tickets), paid, len(books.refunds),
            len(delivered), self.took_s,
        )  # fmt: skip


@dataclass
class ShopKills:
    """What has happened so far."""

    seed_number: int
    runs: list[ShopRun] = field(default_factory=list)

    def run(self) -> None:
        """All at once: most of a life is a start, which keeps one core busy."""
        with ThreadPoolExecutor(len(self.runs)) as threads:
            running = [threads.submit(self._run, number, run) for number, run in enumerate(self.runs)]
        for each in running:
            each.result()

    def _run(self, number: int, run: ShopRun) -> None:
        began, rng = time.monotonic(), random.Random(self.seed_number + number)
        try:
            with (
                tempfile.TemporaryDirectory(dir=scratch_parent()) as directory,
                KillableNode(Path(directory, "chain")) as node,
            ):
                run.shop = KilledShop(make_shop(run.language, Path(directory), node.url), node, rng)
                run.shop.run(run.kills)
        finally:
            run.took_s = time.monotonic() - began

    def sections(self) -> list[str]:
        heads = (
            "shop in", "kills of the shop", "kills of the node", "orders delivered once", "payments for them",
            "payments noted as refunds", "tickets looked at again after a later kill", "seconds",
        )  # fmt: skip
        text = (
            "The shop is killed before a random step that writes to its disk, its node while payments come. Customers "
            "order and pay meanwhile; some pay twice, too little, or for what nobody ordered. In the end each payment "
            "of the chain is booked once and in order, each order has one ticket, the one that it was given first, and "
            "every other payment is noted as a refund.\n"
        )
        return [text, table(heads, [run.row() for run in self.runs])]


def make_shop(language: str, directory: Path, url: str) -> Shop:
    if language == "Python":
        return PythonShop(directory, url)
    compiled = directory / "compiled"
    compiled.mkdir()
    compile_shop(compiled, PACKAGES)
    return TypeScriptShop(directory, url, compiled)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    args = parser.parse_args()
    end_on_sigterm()
    run = ShopKills(args.seed, [ShopRun("Python", args.kills // 2), ShopRun("Python", args.kills - args.kills // 2)])
    if (PACKAGES / ".bin" / "tsc").exists():
        run.runs.append(ShopRun("TypeScript", args.kills // 4))
    print(f"SEED={args.seed}", flush=True)
    failure = failure_of(run.run)
    command = f"make shop KILLS={args.kills} SEED={args.seed}"
    path = write_report("shop", "A shop and its node, killed again and again", command, run.sections(), failure)
    print(f"{'clean' if failure is None else failure}; see {path}")
    sys.exit(failure is not None)


if __name__ == "__main__":
    main()
