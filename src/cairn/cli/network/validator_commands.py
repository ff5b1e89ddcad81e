"""`cairn validators`: show a network's validators, and change them by updates that administrators sign."""

from pathlib import Path
from typing import Annotated

import typer

from cairn.cli.network.homes import FIRST_POWER, validator_with
from cairn.cli.network.update_files import choose_key, describe, read_update, with_signatures, write_update
from cairn.cli.node.home import read_address
from cairn.cli.node.options import DEFAULT_NODE, AsJson, NodeUrl
from cairn.cli.shared.report import reported_errors
from cairn.domain.errors import InvalidConfig
from cairn.domain.governance import Validator

app = typer.Typer(no_args_is_help=True, help="Show and change a network's validators.")

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


@app.command("list")
def list_validators(node: NodeUrl = DEFAULT_NODE, as_json: AsJson = False) -> None:
    """Show the validators after the latest block, and who may change them."""
    from cairn.cli.network.remote_network import RemoteNetwork, print_validators

    with reported_errors(as_json):
        print_validators(RemoteNetwork(node), as_json)


@app.command()
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
) -> None:
    """Add a validator. Its node must run and be ready first, because the network waits for its vote."""
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        network = RemoteNetwork(node)
        key = choose_key(home, public_key)
        if network.find(key) is not None:
            raise InvalidConfig("it is already a validator; `cairn validators update` changes it")
        recipient = None if fee_recipient is None else read_address(fee_recipient, "--fee-recipient")
        wanted = validator_with(key, power or FIRST_POWER, recipient, name or (home.resolve().name if home else ""))
        network.change(wanted, key_file or [], out, timeout)


@app.command()
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
) -> None:
    """Change a validator's power, fee recipient or name.

    Identify the validator by --home or --public-key; --name is then its new name. Or identify it by --name alone.
    """
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        network = RemoteNetwork(node)
        old = network.choose(home, public_key, name)
        wanted = Validator(
            old.public_key,
            old.power if power is None else power,
            old.fee_recipient if fee_recipient is None else read_address(fee_recipient, "--fee-recipient"),
            old.name if name is None else name,
        )
        network.change(wanted, key_file or [], out, timeout)


@app.command()
def remove(
    home: HomeOf = None,
    public_key: PublicKey = None,
    name: Name = None,
    key_file: KeyFiles = None,
    out: OutFile = None,
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
) -> None:
    """Remove a validator. Its node continues as a full node."""
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        network = RemoteNetwork(node)
        old = network.choose(home, public_key, name)
        gone = Validator(old.public_key, 0, old.fee_recipient, old.name)
        network.change(gone, key_file or [], out, timeout)


@app.command()
def sign(
    file: Annotated[Path, typer.Argument(help="The update, as --out wrote it.", show_default=False)],
    key_file: KeyFiles = None,
) -> None:
    """Add signatures to an update in a file. Needs no node: the key never leaves this machine."""
    with reported_errors():
        chain_id, given = read_update(file)
        print(f"Update {given.sequence} of chain {chain_id}: {describe(given.validator)}")
        signed = with_signatures(given, key_file or [], chain_id)
        write_update(file, chain_id, signed)


@app.command()
def submit(
    file: Annotated[Path, typer.Argument(help="The update, signed.", show_default=False)],
    node: NodeUrl = DEFAULT_NODE,
    timeout: TimeoutS = 60,
) -> None:
    """Submit an update from a file, and wait until it is in a block."""
    from cairn.cli.network.remote_network import RemoteNetwork

    with reported_errors():
        chain_id, given = read_update(file)
        RemoteNetwork(node).submit(chain_id, given, timeout)
