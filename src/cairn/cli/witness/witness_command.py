"""The command `cairn witness`: its options only, so that --help needs no HTTP client."""

from pathlib import Path
from typing import Annotated

import typer

from cairn.cli.report import reported_errors

DEFAULT_PORT = 8647


def witness(
    url: Annotated[str, typer.Argument(help="URL of the node to follow.", metavar="URL", show_default=False)],
    genesis: Annotated[
        Path, typer.Option("--genesis", help="genesis.json of the chain.", metavar="FILE", show_default=False)
    ],
    state: Annotated[
        Path | None,
        typer.Option(
            help=r"Directory for the key, what was seen, and evidence. "
            r"\[one for each chain in cairn/witness in XDG_STATE_HOME or ~/.local/state]",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(help="URL of another witness, to compare what both have seen. May be repeated.", metavar="URL"),
    ] = None,
    interval: Annotated[
        float, typer.Option(help="Seconds between checks.", metavar="SECONDS", min=0.1, max=86_400)
    ] = 5.0,
    host: Annotated[str, typer.Option(help="Address to serve on.", metavar="HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to serve on; 0 is any.", metavar="N", min=0, max=65_535)] = (
        DEFAULT_PORT
    ),
    once: Annotated[
        bool, typer.Option("--once", help="Check once and stop: exit code 0 if history was only appended to.")
    ] = False,
) -> None:
    """Check that a chain's history is only appended to, countersign it, and keep evidence if it is not.

    A witness is no validator and keeps no copy of the chain, only a few kilobytes. Run it where the chain's operator
    has no access.
    """
    from cairn.cli.witness.running import run_witness

    with reported_errors():
        run_witness(url, genesis, state, peer or [], None if once else (host, port), interval, once=once)
