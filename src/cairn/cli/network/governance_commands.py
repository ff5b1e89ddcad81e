"""`cairn validators` and `cairn admins`: show them, and change them by updates that administrators sign."""

from pathlib import Path
from typing import Annotated

import typer

from cairn.cli.network.homes import FIRST_POWER, validator_with
from cairn.cli.network.peers import warn_if_open
from cairn.cli.network.update_signing import (
    Signing,
    choose_key,
    read_keys,
    read_update,
    show_and_ask,
    with_signatures,
    write_update,
)
from cairn.cli.node.home import read_address
from cairn.cli.options import DEFAULT_NODE, AsJson, NodeUrl
from cairn.cli.report import reported_errors
from cairn.domain.crypto import checksum_address
from cairn.domain.errors import InvalidConfig
from cairn.domain.governance import Admins, ValidatorRecord
from cairn.domain.types import Address

validators = typer.Typer(no_args_is_help=True, help="Show and change a network's validators.")
admins = typer.Typer(no_args_is_help=True, help="Show and change a network's administrators.")

HomeOf = Annotated[
    Path | None, typer.Option("--home", help="Home directory of the validator's node, to read its key from.")
]
PublicKey = Annotated[
    str | None, typer.Option("--public-key", help="The validator's Ed25519 key, in base64.", metavar="KEY")
]
Name = Annotated[str | None, typer.Option("--name", help="The validator's name.", metavar="NAME")]
Power = Annotated[int | None, typer.Option("--power", help="Weight of its vote.", metavar="N", min=1)]
FeeRecipient = Annotated[
    str | None,
    typer.Option(
        "--fee-recipient",
        help="Account for the fees of its blocks. A new validator's are lost without it.",
        metavar="ADDRESS",
    ),
]
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


@validators.command("list")
def list_validators(node: NodeUrl = DEFAULT_NODE, as_json: AsJson = False) -> None:
    """Show the validators after the latest block, and who may change them."""
    from cairn.cli.network.remote_network import RemoteNetwork, print_validators

    with reported_errors(as_json):
        print_validators(RemoteNetwork(node), as_json)


@validators.command()
def add(
    home: HomeOf = None,
    public_key: PublicKey = None,
    name: Name = None,
    power: Power = None,
    fee_recipient: FeeRecipient = None,
    key_file: KeyFiles = None,
    out: OutFile = None,
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
    yes: Yes = False,
) -> None:
    """Add a validator. Its node must run and be ready first, because the network waits for its vote."""
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        network = RemoteNetwork(node)
        key = choose_key(home, public_key)
        if network.governance.find(key) is not None:
            raise InvalidConfig("it is already a validator; `cairn validators update` changes it")
        recipient = None if fee_recipient is None else read_address(fee_recipient, "--fee-recipient")
        wanted = validator_with(key, power or FIRST_POWER, recipient, name or (home.resolve().name if home else ""))
        network.change(wanted, Signing(key_file or [], out, timeout, yes))
        if home is not None:
            warn_if_open(home)


@validators.command()
def update(
    home: HomeOf = None,
    public_key: PublicKey = None,
    name: Name = None,
    power: Power = None,
    fee_recipient: FeeRecipient = None,
    key_file: KeyFiles = None,
    out: OutFile = None,
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
    yes: Yes = False,
) -> None:
    """Change a validator's power or fee recipient. It is named by --home, --public-key or --name.

    A validator that has no name yet is given the --name that comes with its key. A name never changes.
    """
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        network = RemoteNetwork(node)
        old = network.choose(home, public_key, name)
        wanted = ValidatorRecord(
            old.public_key,
            old.power if power is None else power,
            old.fee_recipient if fee_recipient is None else read_address(fee_recipient, "--fee-recipient"),
            old.name if name is None else name,
        )
        network.change(wanted, Signing(key_file or [], out, timeout, yes))


@validators.command()
def remove(
    home: HomeOf = None,
    public_key: PublicKey = None,
    name: Name = None,
    key_file: KeyFiles = None,
    out: OutFile = None,
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
    yes: Yes = False,
) -> None:
    """Remove a validator. Its node continues as a full node."""
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        network = RemoteNetwork(node)
        old = network.choose(home, public_key, name)
        if name is not None and name != old.name:
            raise InvalidConfig(f"the validator with this key is called {old.name}, not {name}")
        gone = ValidatorRecord(old.public_key, 0, old.fee_recipient, old.name)
        network.change(gone, Signing(key_file or [], out, timeout, yes))


@admins.command("list")
def list_admins(node: NodeUrl = DEFAULT_NODE) -> None:
    """Show who may change the validators and the administrators, and how many must sign."""
    from cairn.cli.network.remote_network import RemoteNetwork, print_admins

    with reported_errors():
        print_admins(RemoteNetwork(node).governance.admins)


@admins.command()
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
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        network = RemoteNetwork(node)
        old = network.governance.admins
        if old is None:
            raise InvalidConfig("genesis names no administrators, and nobody can add some")
        wanted = changed_admins(old, _read(add, "--add"), _read(remove, "--remove"), threshold)
        network.change(wanted, Signing(key_file or [], out, timeout, yes))


def changed_admins(old: Admins, added: list[Address], removed: list[Address], threshold: int | None) -> Admins:
    """The administrators after the change. Raises `InvalidConfig` for one that is there already, or is not there."""
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


@validators.command()
@admins.command()
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


@validators.command()
@admins.command()
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
