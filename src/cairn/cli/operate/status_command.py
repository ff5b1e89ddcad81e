"""`cairn status`: a node on one screen, what is wrong with it, and what to do about it."""

import os
from pathlib import Path
from typing import Annotated

import typer

from cairn.cli.node.home import GENESIS_FILE, Home
from cairn.cli.operate.findings import has_error
from cairn.cli.options import DEFAULT_NODE, AsJson
from cairn.cli.report import ExitCode, WrongUsage, reported_errors
from cairn.cli.screen import print_json


def status(
    home: Annotated[
        Path | None,
        typer.Option(help="The node's home directory. Works even if the node is stopped.", metavar="DIR"),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option("--node", help="URL of a node, on this or another machine.", metavar="URL", envvar="CAIRN_NODE"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a node on one screen: chain, readiness, mempool, processes, disk, network, and any problems.

    Without --home or --node, it shows the node in the current directory, or else the one at http://127.0.0.1:8645. Exit
    code 0 means that the node is ready and nothing is broken; 1, that it is not; 5, that it does not run or answer.
    """
    # Loaded here, since it brings in a part of the node: --help should answer at once.
    from cairn.cli.operate.machine import Machine
    from cairn.cli.operate.status import status_of_home, status_of_url
    from cairn.cli.operate.status_screen import print_status

    with reported_errors(as_json):
        place = home if home is not None or node is not None else here()
        if place is None:
            found = status_of_url(node or DEFAULT_NODE, Machine())
        elif place.is_dir():
            found = status_of_home(Home(place), os.environ, Machine())
        else:
            raise WrongUsage(f"--home {place}: there is no such directory")
        if as_json:
            print_json(found)
        else:
            print_status(found)
    if not found.is_running or found.readiness is None:
        raise typer.Exit(ExitCode.UNREACHABLE)
    if not found.is_ready or has_error(found.findings):
        raise typer.Exit(ExitCode.REFUSED)


def here() -> Path | None:
    """The current directory, if it is a node's home."""
    return Path() if Path(GENESIS_FILE).exists() else None
