"""`cairn validators`: show a network's validators, and change them by updates that administrators sign."""

from pathlib import Path
from typing import Annotated

import typer

from cairn.cli.network.homes import FIRST_POWER, validator_with
from cairn.cli.network.peers import warn_if_open
from cairn.cli.network.update_commands import KeyFiles, OutFile, TimeoutS, Yes, sign, submit
from cairn.cli.network.update_files import choose_key
from cairn.cli.node.home import read_address
from cairn.cli.node.options import DEFAULT_NODE, AsJson, NodeUrl
from cairn.cli.shared.report import reported_errors
from cairn.domain.errors import InvalidConfig
from cairn.domain.governance import ValidatorRecord

app = typer.Typer(no_args_is_help=True, help="Show and change a network's validators.")

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
    yes: Yes = False,
) -> None:
    """Add a validator. Its node must run and be ready first, because the network waits for its vote."""
    from cairn.cli.network.remote_network import RemoteNetwork, Signing

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
    yes: Yes = False,
) -> None:
    """Change a validator's power or fee recipient. It is named by --home, --public-key or --name.

    A validator that has no name yet is given the --name that comes with its key. A name never changes.
    """
    from cairn.cli.network.remote_network import RemoteNetwork, Signing

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


@app.command()
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
    from cairn.cli.network.remote_network import RemoteNetwork, Signing

    with reported_errors():
        network = RemoteNetwork(node)
        old = network.choose(home, public_key, name)
        if name is not None and name != old.name:
            raise InvalidConfig(f"the validator with this key is called {old.name}, not {name}")
        gone = ValidatorRecord(old.public_key, 0, old.fee_recipient, old.name)
        network.change(gone, Signing(key_file or [], out, timeout, yes))


app.command()(sign)
app.command()(submit)
