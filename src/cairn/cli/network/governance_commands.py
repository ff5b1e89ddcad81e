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
from cairn.cli.network.validator_file import ValidatorFile, read_validator_file
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
    Path | None,
    typer.Option("--home", help="Home directory of the validator's node, to read its key from.", metavar="DIR"),
]
PublicKey = Annotated[
    str | None, typer.Option("--public-key", help="The validator's Ed25519 key, in base64.", metavar="KEY")
]
FileOf = Annotated[
    Path | None,
    typer.Option("--file", help="The validator's file, as `cairn validator init` made it.", metavar="FILE"),
]
Name = Annotated[str | None, typer.Option("--name", help="The validator's name.", metavar="NAME")]
Power = Annotated[int | None, typer.Option("--power", help="Weight of its vote.", metavar="N", min=1)]
FeeRecipient = Annotated[
    str | None,
    typer.Option(
        "--fee-recipient",
        help="Account that receives the fees of its blocks. By default the one in --file, else that of the validator "
        "with this name; without any, the fees are lost.",
        metavar="ADDRESS",
    ),
]
KeyFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--key-file",
        help="File with an administrator's key in hex, readable by its owner only. May be repeated.",
        metavar="FILE",
    ),
]
StoredKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        help="Name of an administrator's encrypted key, as `cairn keys list` shows it. May be repeated.",
        metavar="NAME",
    ),
]
OutFile = Annotated[
    Path | None,
    typer.Option("--out", help="Write the update here, for others to sign, instead of submitting it.", metavar="FILE"),
]
TimeoutS = Annotated[
    float, typer.Option("--timeout", help="Seconds to wait until the update is in a block.", metavar="SECONDS", min=1)
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


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
    file: FileOf = None,
    name: Name = None,
    power: Power = None,
    fee_recipient: FeeRecipient = None,
    key: StoredKeys = None,
    key_file: KeyFiles = None,
    out: OutFile = None,
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
    yes: Yes = False,
) -> None:
    """Add a validator. Its node must already be running and ready, because the network waits for its vote."""
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        network = RemoteNetwork(node)
        public = choose_key(home, public_key, file)
        if network.governance.find(public) is not None:
            raise InvalidConfig("it is already a validator; `cairn validators update` changes it")
        stated = None if file is None else read_validator_file(file)
        called = name or (stated.name if stated else home.resolve().name if home else "")
        before = network.find_namesake(called)
        recipient = choose_recipient(fee_recipient, stated, before)
        wanted = validator_with(public, power or (before.power if before else FIRST_POWER), recipient, called)
        network.change(wanted, Signing(key_file or [], key or [], out, timeout, yes))
        if home is not None:
            warn_if_open(home)


def choose_recipient(given: str | None, stated: ValidatorFile | None, before: ValidatorRecord | None) -> Address | None:
    """Who gets the fees of a new validator; a new key for an old one keeps the account."""
    if given is not None:
        return read_address(given, "--fee-recipient")
    if stated is not None:
        return stated.fee_recipient
    return None if before is None else before.fee_recipient


@validators.command()
def update(
    home: HomeOf = None,
    public_key: PublicKey = None,
    file: FileOf = None,
    name: Name = None,
    power: Power = None,
    fee_recipient: FeeRecipient = None,
    key: StoredKeys = None,
    key_file: KeyFiles = None,
    out: OutFile = None,
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
    yes: Yes = False,
) -> None:
    """Change a validator's power or fee recipient. Name it with --home, --public-key or --name.

    To name a validator that has no name yet, give its key and --name. A name never changes.
    """
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        network = RemoteNetwork(node)
        old = network.choose(home, public_key, file, name)
        wanted = ValidatorRecord(
            old.public_key,
            old.power if power is None else power,
            old.fee_recipient if fee_recipient is None else read_address(fee_recipient, "--fee-recipient"),
            old.name if name is None else name,
        )
        network.change(wanted, Signing(key_file or [], key or [], out, timeout, yes))


@validators.command()
def remove(
    home: HomeOf = None,
    public_key: PublicKey = None,
    file: FileOf = None,
    name: Name = None,
    key: StoredKeys = None,
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
        old = network.choose(home, public_key, file, name)
        if name is not None and name != old.name:
            raise InvalidConfig(f"the validator with this key is called {old.name}, not {name}")
        gone = ValidatorRecord(old.public_key, 0, old.fee_recipient, old.name)
        network.change(gone, Signing(key_file or [], key or [], out, timeout, yes))


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
        typer.Option(
            help="An administrator to remove, such as one who lost the key. May be repeated.", metavar="ADDRESS"
        ),
    ] = None,
    threshold: Annotated[
        int | None, typer.Option(help="How many must sign afterwards; unchanged by default.", metavar="N", min=1)
    ] = None,
    key: StoredKeys = None,
    key_file: KeyFiles = None,
    out: OutFile = None,
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
    yes: Yes = False,
) -> None:
    """Change the administrators in one update. As many must sign it as the present threshold says."""
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        network = RemoteNetwork(node)
        old = network.governance.admins
        if old is None:
            raise InvalidConfig("genesis names no administrators, and nobody can add some")
        wanted = changed_admins(old, _read(add, "--add"), _read(remove, "--remove"), threshold)
        network.change(wanted, Signing(key_file or [], key or [], out, timeout, yes))


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
    file: Annotated[Path, typer.Argument(help="The update, as --out wrote it.", metavar="FILE", show_default=False)],
    key: StoredKeys = None,
    key_file: KeyFiles = None,
    node: Annotated[
        str | None,
        typer.Option(
            help="Ask this node first whether the network would accept it.", metavar="URL", show_default=False
        ),
    ] = None,
    yes: Yes = False,
) -> None:
    """Show the update in a file, and add signatures to it. Needs no node; the key never leaves this machine."""
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        chain, given = read_update(file)
        if node is not None:
            RemoteNetwork(node).check(chain, given)
        keys = read_keys(key_file or [], key or [])
        show_and_ask(chain, given, yes)
        signed = with_signatures(given, keys, chain)
        write_update(file, chain, signed)


@validators.command()
@admins.command()
def submit(
    file: Annotated[Path, typer.Argument(help="The update, signed.", metavar="FILE", show_default=False)],
    wait: Annotated[bool, typer.Option("--wait", help="Wait on until it is in effect, two blocks later.")] = False,
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
) -> None:
    """Submit an update from a file, and wait until it is in a block."""
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        chain, given = read_update(file)
        network = RemoteNetwork(node)
        network.submit(chain, given, timeout)
        if wait:
            network.wait_until_settled(timeout)
