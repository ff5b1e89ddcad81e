"""Measure four validators on this machine beside CometBFT's own kvstore: `make bench-network`."""

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.__main__ import RESULTS, save, tell
from bench.confirmation import measure_confirmation
from bench.light_load import light_lines, measure_light_load
from bench.network_runs import NODES, NetworkRun, run_cairn, run_kvstore
from bench.recovery import RecoverySampler
from bench.report import Line
from bench.workload import CHAIN_ID, presign, sign_transfer
from cairn.cometbft import TomlValue
from cairn.domain.transactions import encode_tx

MIN_RATE_RATIO = 0.4


@dataclass(frozen=True, slots=True)
class Sizes:
    accounts: int
    load: int
    rounds: int
    paced: int
    paced_per_s: float


FULL = Sizes(accounts=1_000, load=20_000, rounds=5, paced=2_000, paced_per_s=100)
SMOKE = Sizes(accounts=40, load=400, rounds=1, paced=40, paced_per_s=20)


@dataclass(frozen=True, slots=True)
class Figures:
    size_bytes: int
    recovery_us: float
    cairn: list[NetworkRun]
    kvstore: list[NetworkRun]
    confirmation_s: list[float]
    """Sorted, from the POST to the event."""


def measure(scratch: Path, sizes: Sizes) -> Figures:
    size_bytes = len(encode_tx(sign_transfer(sizes.load, sizes.accounts), CHAIN_ID))
    tell(f"signing {sizes.load + sizes.paced:,} transfers ahead of time")
    submissions = presign(sizes.load + sizes.paced, sizes.accounts)
    load, paced = submissions[: sizes.load], submissions[sizes.load :]
    cairn: list[NetworkRun] = []
    kvstore: list[NetworkRun] = []
    recoveries = []
    confirmation_s: list[float] = []
    # In turns, so that a slow minute of the machine hits both.
    for number in range(sizes.rounds):
        tell(f"round {number + 1} of {sizes.rounds}: {sizes.load:,} of {size_bytes} bytes on kvstore")
        # Here the sampler only takes what it takes beside cairn.
        with RecoverySampler():
            kvstore.append(run_kvstore(scratch / f"kvstore-{number}", sizes.load, size_bytes))
        tell(f"round {number + 1} of {sizes.rounds}: {sizes.load:,} transfers on cairn")
        with (
            RecoverySampler() as sampler,
            run_cairn(scratch / f"cairn-{number}", sizes.accounts, load) as (network, run),
        ):
            recoveries.append(sampler.finish().mean_us)
            cairn.append(run)
            if number == sizes.rounds - 1:
                tell(f"{sizes.paced:,} transfers at {sizes.paced_per_s:g} a second")
                confirmation_s = measure_confirmation(network, paced, sizes.paced_per_s)
    return Figures(size_bytes, statistics.mean(recoveries), cairn, kvstore, sorted(confirmation_s))


def lines(figures: Figures, sizes: Sizes) -> list[Line]:
    cairn, kvstore = figures.cairn, figures.kvstore
    ratio = statistics.median(ours.per_second / theirs.per_second for ours, theirs in zip(cairn, kvstore, strict=True))
    cpu_us = statistics.median(run.cpu_us for run in cairn)
    kvstore_us = statistics.median(run.cpu_us for run in kvstore)
    signatures_us = NODES * figures.recovery_us
    latencies = figures.confirmation_s

    def percentile_ms(percent: int) -> float:
        return 1_000 * latencies[min(len(latencies) - 1, len(latencies) * percent // 100)]

    return [
        Line("tx_bytes", "size of a transaction", figures.size_bytes, "bytes"),
        Line("confirmed_per_s", "confirmed, cairn", statistics.median(run.per_second for run in cairn), "/s"),
        Line("kvstore_per_s", "confirmed, kvstore", statistics.median(run.per_second for run in kvstore), "/s"),
        Line("rate_ratio", "  ... cairn in kvstores, median of rounds", ratio, "x", floor=MIN_RATE_RATIO),
        Line("confirm_p50_ms", f"POST to txConfirmed at {sizes.paced_per_s:g}/s, p50", percentile_ms(50), "ms"),
        Line("confirm_p99_ms", f"POST to txConfirmed at {sizes.paced_per_s:g}/s, p99", percentile_ms(99), "ms"),
        Line("cpu_us_per_tx", f"CPU per transaction, {NODES} cairn nodes", cpu_us, "us"),
        Line("cometbft_us_per_tx", "  ... of which CometBFT", statistics.median(r.engine_us for r in cairn), "us"),
        Line("signatures_us_per_tx", f"  ... of which {NODES} signature checks, one a node", signatures_us, "us"),
        Line("signature_share", "  ... their share", 100 * signatures_us / cpu_us, "%"),
        Line("kvstore_us_per_tx", f"CPU per transaction, {NODES} kvstore nodes, no signature", kvstore_us, "us"),
        Line("signed_ratio", "  ... cairn in kvstores that checked signatures, by CPU",
             (kvstore_us + signatures_us) / cpu_us, "x"),
    ]  # fmt: skip


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _setting(text: str) -> tuple[str, TomlValue]:
    """A number or a boolean as TOML writes it, or else a string without quotes."""
    name, value = _pair(text)
    return name, {"true": True, "false": False}.get(value, int(value) if value.isdecimal() else value)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-network", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: shows that it works, not how fast; no bars")
    parser.add_argument("--output", type=Path, default=RESULTS / f"network-{time.strftime('%Y%m%d-%H%M%S')}.json")
    light = parser.add_argument_group("a light load, instead of the rounds beside kvstore")
    light.add_argument("--rate", type=float, metavar="N", help="transactions a second, over all nodes")
    light.add_argument("--seconds", type=float, default=20, metavar="N", help="at rest, and under that load (20)")
    light.add_argument("--set", type=_setting, action="append", default=[], metavar="SECTION.KEY=VALUE",
                       help="in every CometBFT's config.toml")  # fmt: skip
    light.add_argument("--env", type=_pair, action="append", default=[], metavar="NAME=VALUE",
                       help="in the environment of every node")  # fmt: skip
    options = parser.parse_args()
    if sys.platform != "linux":
        parser.error("the processes' cost is read from /proc: run it on Linux")
    sizes = SMOKE if options.smoke else FULL
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as scratch:
        if options.rate:
            found = measure_light_load(
                Path(scratch), options.rate, options.seconds, dict(options.set), dict(options.env)
            )
            figures = light_lines(found, options.rate)
        else:
            figures = lines(measure(Path(scratch), sizes), sizes)
    print(*figures, sep="\n")
    save(figures, options.output)
    return 0 if options.smoke or all(line.is_met for line in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
