"""The command `cairn forward`: its options only, so that --help needs no HTTP client."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from cairn.cli.options import DEFAULT_NODE, AsJson, complete_party
from cairn.cli.report import reported_errors


def forward(
    to: Annotated[
        str | None,
        typer.Option(help="URL of the receiver: https, or http on this machine.", metavar="URL", show_default=False),
    ] = None,
    address: Annotated[
        list[str] | None,
        typer.Option(
            help="Send this account's payments instead of blocks: an address, the name of a key, or dev0 to dev9. "
            "May be repeated.",
            metavar="ACCOUNT",
            autocompletion=complete_party,
        ),
    ] = None,
    addresses_file: Annotated[
        Path | None, typer.Option(help="File with more addresses, one on each line.", metavar="FILE")
    ] = None,
    direction: Annotated[
        Literal["in", "out", "both"] | None,
        typer.Option(
            help=r"Which payments: to the accounts (in), from them (out), or both. \[default: in]", metavar="WHICH"
        ),
    ] = None,
    amounts: Annotated[
        Literal["number", "string"] | None,
        typer.Option(
            help=r"How amounts are written; string is for receivers that would round. \[default: number]",
            metavar="FORM",
        ),
    ] = None,
    from_height: Annotated[
        int | None,
        typer.Option(
            help="First block to send, if nothing was forwarded yet; by default, the next one made.",
            metavar="N",
            min=0,
        ),
    ] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the signing secret, whsec_... Without it, CAIRN_FORWARD_SECRET is used, or a secret is "
            "made and kept.",
            metavar="FILE",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help=r"Directory for the cursor, status and dead letters. "
            r"\[one for each URL in cairn/forward in XDG_STATE_HOME or ~/.local/state]",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(help=r"Seconds that the receiver may take to answer. \[default: 20]", metavar="SECONDS", max=600),
    ] = None,
    dead_letter_after: Annotated[
        int | None,
        typer.Option(
            help="Move an event to a file after the receiver has refused it this many times; 0 means never. "
            r"\[default: 0]",
            metavar="N",
            min=0,
        ),
    ] = None,
    insecure_http: Annotated[
        bool, typer.Option("--insecure-http", help="Allow http to other machines, where others can read the events.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(help=r"File with these options in the table \[forward].", metavar="FILE"),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(help=rf"URL of the node. \[default: {DEFAULT_NODE}]", metavar="URL", envvar="CAIRN_NODE"),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop once the blocks that exist now are delivered.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Show how far --state has got, and the last error.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print failures only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send new blocks or payments to a URL as signed webhooks: in order, at least once, resuming where it stopped."""
    from cairn.cli.forward.settings import load_settings
    from cairn.cli.forward.start import forward_events, show_status

    with reported_errors(as_json):
        options = {
            "to": to,
            "node": node,
            "state": None if state is None else str(state),
            "secret_file": None if secret_file is None else str(secret_file),
            "addresses": address or None,
            "addresses_file": None if addresses_file is None else str(addresses_file),
            "direction": direction,
            "amounts": amounts,
            "from_height": from_height,
            "timeout_s": timeout,
            "dead_letter_after": dead_letter_after,
            "insecure_http": insecure_http or None,
        }
        settings = load_settings(config, options)
        if status:
            show_status(settings, as_json)
        else:
            forward_events(settings, once, quiet)
