"""`cairn verify`: executes a chain again, and compares all that is stored with the outcome."""

import os
from typing import Annotated

import typer

from cairn.cli.operate.backup import NICENESS
from cairn.cli.operate.chain_directory import ChainHome, GenesisFile, find_chain_directory
from cairn.cli.operate.progress_bar import progress_bar
from cairn.cli.options import AsJson
from cairn.cli.report import DataUnusable, ExitCode, reported_errors
from cairn.cli.screen import counted, print_json, print_lines, print_pairs
from cairn.domain.errors import Fatal, InvalidConfig
from cairn.log import configure_logging
from cairn.processors import usable_processors
from cairn.store.verification.findings import Finding
from cairn.store.verification.verification import Verdict, verify_directory

SHOWN_FINDINGS = 20


def verify(
    home: ChainHome,
    genesis: GenesisFile = None,
    first: Annotated[
        int, typer.Option("--from", help="Start from the state after this block.", metavar="HEIGHT", min=0)
    ] = 0,
    processes: Annotated[
        int, typer.Option(help="Number of processes; 0 means one for each processor.", metavar="N", min=0, max=64)
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Check that a node's data is intact: execute every block again and compare everything that is stored.

    The node may keep running. Exit code 3 means that something is damaged.
    """
    configure_logging("warning", "text")
    with reported_errors(as_json):
        data, chain_genesis = find_chain_directory(home, genesis)
        os.nice(NICENESS)
        try:
            with progress_bar("Verifying") as report:
                verdict = verify_directory(data, chain_genesis, first, processes or usable_processors(), report)
        except Fatal as failure:
            raise DataUnusable(failure.detail) from None
        if first > verdict.head:
            raise InvalidConfig(f"--from {first}: the chain ends at block {verdict.head}")
        if as_json:
            print_json(_fields(verdict))
        else:
            _print_verdict(verdict)
            if verdict.finding_count:
                raise DataUnusable(f"{data}: {counted(verdict.finding_count, 'difference')} found: restore a backup")
    if verdict.finding_count:
        raise typer.Exit(ExitCode.DATA)


def _fields(verdict: Verdict) -> dict[str, object]:
    return {
        "ok": not verdict.finding_count,
        "oldest": verdict.oldest,
        "from": verdict.first,
        "head": {"blockHeight": verdict.head, "hash": f"0x{verdict.head_hash.hex()}"},
        "executed": _executed_count(verdict),
        "transactions": verdict.transactions,
        "accounts": verdict.accounts,
        "pending": verdict.pending,
        "nodeRuns": verdict.is_running,
        "seconds": verdict.seconds,
        "findings": verdict.findings,
        "findingCount": verdict.finding_count,
    }


def _executed_count(verdict: Verdict) -> int:
    return verdict.executed - verdict.first + 1


def _print_verdict(verdict: Verdict) -> None:
    executed = _executed_count(verdict)
    print_pairs(
        [
            ("Blocks", f"{verdict.first} to {verdict.head}, {executed:,} of them executed again"),
            ("Head", f"0x{verdict.head_hash.hex()}"),
            ("Transactions", f"{verdict.transactions:,}, each signature recovered"),
            ("Accounts", f"{verdict.accounts:,}"),
            ("Pending", f"{verdict.pending:,}"),
            ("Took", f"{verdict.seconds:.1f} s"),
            ("Result", counted(verdict.finding_count, "difference") if verdict.finding_count else "everything matches"),
        ]
    )
    if verdict.finding_count:
        print_lines(["", *map(_line, verdict.findings[:SHOWN_FINDINGS])])
        if verdict.finding_count > SHOWN_FINDINGS:
            print_lines([f"and {verdict.finding_count - SHOWN_FINDINGS:,} more; --json shows up to 1,000"])


def _line(finding: Finding) -> str:
    where = finding.part if finding.height is None else f"{finding.part}, block {finding.height}"
    return f"{where}: {finding.detail}"
