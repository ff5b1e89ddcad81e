"""`cairn admins`: show and change a network's administrators, by updates that the present ones sign."""

from typing import Annotated

import typer

from cairn.cli.network.update_commands import KeyFiles, OutFile, TimeoutS, Yes, sign, submit
from cairn.cli.node.home import read_address
from cairn.cli.node.options import DEFAULT_NODE, NodeUrl
from cairn.cli.shared.report import reported_errors
from cairn.domain.crypto import checksum_address
from cairn.domain.errors import InvalidConfig
from cairn.domain.governance import Admins
from cairn.domain.types import Address

app = typer.Typer(no_args_is_help=True, help="Show and change a network's administrators.")


@app.command("list")
def list_admins(node: NodeUrl = DEFAULT_NODE) -> None:
    """Show who may change the validators and the administrators, and how many must sign."""
    from cairn.cli.network.remote_network import RemoteNetwork, print_admins

    with reported_errors():
        print_admins(RemoteNetwork(node).governance.admins)


@app.command()
def change(
    add: Annotated[
        list[str] | None, typer.Option(help="A new administrator. May be repeated.", metavar="ADDRESS")
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(help="One that is none any more, as after a lost key. May be repeated.", metavar="ADDRESS"),
    ] = None,
    threshold: Annotated[
        int | None, typer.Option(help="How many must sign; as many as now unless given.", metavar="N", min=1)
    ] = None,
    key_file: KeyFiles = None,
    out: OutFile = None,
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
    yes: Yes = False,
) -> None:
    """Change the administrators, all at once. As many as must sign now have to sign it."""
    from cairn.cli.network.remote_network import RemoteNetwork, Signing

    with reported_errors():
        network = RemoteNetwork(node)
        old = network.governance.admins
        if old is None:
            raise InvalidConfig("genesis names no administrators, and nobody can add some")
        wanted = changed(old, _read(add, "--add"), _read(remove, "--remove"), threshold)
        network.change(wanted, Signing(key_file or [], out, timeout, yes))


def changed(old: Admins, added: list[Address], removed: list[Address], threshold: int | None) -> Admins:
    """Raises `InvalidConfig` for one that is there already, or not there."""
    for address in added:
        if address in old.addresses:
            raise InvalidConfig(f"--add {checksum_address(address)}: it is an administrator already")
    for address in removed:
        if address not in old.addresses:
            raise InvalidConfig(f"--remove {checksum_address(address)}: it is no administrator")
    kept = tuple(address for address in old.addresses if address not in removed)
    return Admins(old.threshold if threshold is None else threshold, (*kept, *added))


def _read(given: list[str] | None, option: str) -> list[Address]:
    return [read_address(text, option) for text in given or []]


app.command()(sign)
app.command()(submit)
