"""Commands and options that `cairn validators` and `cairn admins` share: updates in files, signed and submitted."""

from pathlib import Path
from typing import Annotated

import typer

from cairn.cli.network.update_files import read_keys, read_update, show_and_ask, with_signatures, write_update
from cairn.cli.node.options import DEFAULT_NODE, NodeUrl
from cairn.cli.shared.report import reported_errors

KeyFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--key-file", help="File with an administrator's key in hex, readable by its owner only. May be repeated."
    ),
]
OutFile = Annotated[
    Path | None, typer.Option("--out", help="Write the update here, for others to sign, instead of submitting it.")
]
TimeoutS = Annotated[float, typer.Option("--timeout", help="Seconds to wait until the update is in a block.", min=1)]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def sign(
    file: Annotated[Path, typer.Argument(help="The update, as --out wrote it.", show_default=False)],
    key_file: KeyFiles = None,
    node: Annotated[
        str | None,
        typer.Option(help="Ask this node first whether the network would take it.", metavar="URL", show_default=False),
    ] = None,
    yes: Yes = False,
) -> None:
    """Show an update in a file, and add signatures to it. Needs no node: the key never leaves this machine."""
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        chain, given = read_update(file)
        if node is not None:
            RemoteNetwork(node).check(chain, given)
        keys = read_keys(key_file or [])
        show_and_ask(chain, given, yes)
        signed = with_signatures(given, keys, chain)
        write_update(file, chain, signed)


def submit(
    file: Annotated[Path, typer.Argument(help="The update, signed.", show_default=False)],
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
) -> None:
    """Submit an update from a file, and wait until it is in a block."""
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        chain, given = read_update(file)
        RemoteNetwork(node).submit(chain, given, timeout)
