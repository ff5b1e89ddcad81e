"""Gives altered proof files to all verifiers, and fails when they disagree or believe what is not true.

`python -m tests.proofs.fuzz --count 100000 --report reports/proofs.md`; `--seed` repeats a run. The verifier in Go
is among them where there is a Go: `make interop` finds or installs one.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.proofs.mutations import mutate, valid_files
from tests.proofs.truth import is_true
from tests.proofs.vectors import Case, read_vectors
from tests.proofs.verifiers import VERIFIERS, ask_go, build_go, find_go, find_report, remember_signatures
from tests.support.proof_chain import ProofChain
from tests.vectors.proofs.chains import dev, forked, lone, network

BATCH = 2_000
"""Files that go to each verifier at a time."""


class Disagreement(AssertionError):
    """A file that verifiers decide differently, or that proves what is not true."""


def known_chains() -> dict[bytes, list[ProofChain]]:
    """By genesis. One signer has signed two histories."""
    chains: dict[bytes, list[ProofChain]] = {}
    for chain in (lone(), forked(), network(), dev()):
        chains.setdefault(chain.genesis, []).append(chain)
    return chains


def fuzz(seed: int, count: int) -> Iterator[tuple[Case, bool]]:
    """Each altered file, and what all verifiers say of it. Raises `Disagreement`."""
    remember_signatures()
    chains = known_chains()
    sources = [each for each in valid_files(read_vectors()) if each.case.genesis in chains]
    rng = random.Random(seed)
    while count > 0:
        cases = [mutate(rng, sources) for _ in range(min(BATCH, count))]
        count -= len(cases)
        yield from zip(cases, decide(cases, chains), strict=True)


def decide(cases: list[Case], chains: dict[bytes, list[ProofChain]]) -> list[bool]:
    # One thread each: the processes of JavaScript and Go work beside the Python ones.
    with ThreadPoolExecutor(len(VERIFIERS)) as pool:
        asked = {name: pool.submit(ask, cases) for name, ask in VERIFIERS.items()}
        answers = {name: future.result() for name, future in asked.items()}
    for number, case in enumerate(cases):
        verdicts = {name: answer[number] for name, answer in answers.items()}
        if len(set(verdicts.values())) > 1:
            raise Disagreement(f"{case.name}: {verdicts}\n{case}")
        report = find_report(case) if answers["verify.py"][number] else None
        if report is not None and not any(is_true(chain, report) for chain in chains[case.genesis]):
            raise Disagreement(f"{case.name}: proves what is not true: {report}\n{case}")
    return answers["verify.py"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()
    started, decided = time.monotonic(), Counter[bool]()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        go = find_go()
        if go is None:
            print("no Go here: verify.go is left out")
        else:
            VERIFIERS["verify.go"] = partial(ask_go, build_go(go, Path(directory)))
        try:
            for _, is_valid in fuzz(args.seed, args.count):
                decided[is_valid] += 1
        except Disagreement as found:
            print(found)
            return 1
    took = time.monotonic() - started
    rows = [
        "# Altered proof files",
        "",
        f"By `make prove-fuzz COUNT={args.count} SEED={args.seed}`, in {took:.0f} s.",
        "",
        f"{args.count:,} altered files were given to {', '.join(VERIFIERS)}. They agreed on each one.",
        f"{decided[False]:,} were refused. {decided[True]:,} were accepted, and what they prove is true:",
        "the alteration left the meaning as it was, or made another true statement.",
    ]
    print("\n".join(rows))
    if args.report is not None:
        args.report.write_text("\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
