"""`cairn doctor`: looks for everything that is known to go wrong with a node, and says what to do."""

import os
from typing import Annotated

import typer

from cairn.build import described
from cairn.cli.node.home import Home
from cairn.cli.operate.config_commands import HERE, HomeDirectory
from cairn.cli.operate.findings import print_findings
from cairn.cli.options import AsJson
from cairn.cli.report import ExitCode, reported_errors
from cairn.cli.screen import counted, print_json, print_line

BACKUP_DAYS = 7


def doctor(
    home: HomeDirectory = HERE,
    backup_days: Annotated[
        int, typer.Option(help="Maximum age of the latest backup, in days; 0 skips this check.", metavar="N", min=0)
    ] = BACKUP_DAYS,
    as_json: AsJson = False,
) -> None:
    """Look for problems with a node's home, its settings, this machine and, if it is running, the node itself.

    Each finding says what to do. The exit code is 1 if there are any. Nothing is changed.
    """
    # Loaded here, since it brings in the whole node: --help should answer at once.
    from cairn.cli.operate.examination import examine

    with reported_errors(as_json):
        findings, checked = examine(Home(home), os.environ, backup_days)
        if as_json:
            print_json({"home": str(home), "version": described(), "checked": checked, "findings": findings})
        else:
            print_findings(findings)
            found = f"{counted(len(findings), 'finding')}." if findings else "all is well."
            print_line(f"{len(checked)} checks: {found}")
    if findings:
        raise typer.Exit(ExitCode.REFUSED)
