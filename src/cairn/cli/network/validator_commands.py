"""`cairn validator`: the keys of one validator, made by its operator on its own machine."""

import json
from pathlib import Path
from typing import Annotated

import typer

from cairn.cli.network.homes import BASE_PORT, Site, read_public_key, whole_directory
from cairn.cli.network.validator_file import VALIDATOR_FILE, describe_home, find_own_file, save_validator_file
from cairn.cli.options import CometbftBinary, KeysDirectory, keystore_in
from cairn.cli.report import reported_errors
from cairn.cli.screen import print_line
from cairn.cli.wallet.parties import find_party
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT, find_binary
from cairn.domain.certificates import engine_address
from cairn.domain.errors import InvalidConfig
from cairn.domain.update_json import encode_public_key
from cairn.loopback import is_loopback
from cairn.running_node import find_running
from cairn.store.directory import write_file

validator = typer.Typer(no_args_is_help=True, help="Make the keys of a validator on its own machine.")


@validator.command()
def init(
    directory: Annotated[Path, typer.Argument(help="The home directory to create.", metavar="DIR", show_default=False)],
    name: Annotated[
        str, typer.Option(help="The validator's name, as the network shows it. It never changes.", metavar="NAME")
    ],
    host: Annotated[str, typer.Option(help="Address at which the other nodes reach this one.", metavar="HOST")],
    fee_recipient: Annotated[
        str,
        typer.Option(
            help="Account that receives the fees of this validator's blocks: an address or the name of a stored key.",
            metavar="ACCOUNT",
        ),
    ],
    admin: Annotated[
        str | None,
        typer.Option(
            help="Your account, if you are to be an administrator of the network: an address or the name of a stored "
            "key.",
            metavar="ACCOUNT",
            show_default=False,
        ),
    ] = None,
    base_port: Annotated[
        int,
        typer.Option(
            help="First of the node's ports. In order: API, p2p, CometBFT's RPC, metrics, CometBFT's metrics.",
            metavar="N",
            min=1,
            max=65_000,
        ),
    ] = BASE_PORT,
    keys: KeysDirectory = None,
    cometbft_binary: CometbftBinary = "",
) -> None:
    """Create a validator's keys, and a file with their public halves to send to the other operators.

    The private keys stay in this home directory. `cairn genesis collect` creates a network from several such files, and
    `cairn validators add` adds one to a running network.
    """
    with reported_errors():
        keystore = keystore_in(keys)
        recipient = find_party(fee_recipient, keystore, "--fee-recipient").address
        administrator = None if admin is None else find_party(admin, keystore, "--admin").address
        binary = find_binary(cometbft_binary)
        CometBFT(binary, directory).check_version()
        site = Site(name, host, base_port, is_alone=not is_loopback(host))
        with whole_directory(directory) as building:
            engine = CometBFT(binary, building / COMETBFT_DIRECTORY)
            engine.run("init")
            # It names this node as the only validator of a chain of its own: the network's comes with `cairn join`.
            engine.genesis_file.unlink()
            save_validator_file(
                building / VALIDATOR_FILE, engine, describe_home(engine, site, recipient, administrator)
            )
    where = directory / COMETBFT_DIRECTORY / "config"
    print_line(f"Made the keys of {name} in {where}. Whoever has them votes in your name: show them to nobody.")
    print_line(
        f"Send {directory / VALIDATOR_FILE} to whoever collects the files of all operators: nothing in it is secret."
    )
    print_line(f"When you have the network's genesis.json: cairn join {directory} --genesis genesis.json")


@validator.command("new-key")
def new_key(
    directory: Annotated[
        Path, typer.Argument(help="Home directory of a node that is stopped.", metavar="DIR", show_default=False)
    ],
    cometbft_binary: CometbftBinary = "",
) -> None:
    """Give a validator a new key. It votes again once the administrators have replaced the old key.

    The old key is kept beside the new one, in a file named after its address. The node keeps its name and its peers.
    """
    with reported_errors():
        running = find_running(directory)
        if running is not None:
            raise InvalidConfig(f"the node in {directory} runs (process {running.pid}): stop it first")
        engine = CometBFT(find_binary(cometbft_binary), directory / COMETBFT_DIRECTORY)
        if engine.signer_address():
            raise InvalidConfig(f"a remote signer signs the votes of {directory}: make the new key there")
        told = find_own_file(directory)
        old = read_public_key(engine.home)
        aside = exchange_key(engine, old)
        print_line(f"Old key     {encode_public_key(old)}, now in {aside}")
        print_line(f"New key     {encode_public_key(read_public_key(engine.home))}")
        if told is not None:
            made = describe_home(engine, told.site, told.fee_recipient, told.admin)
            save_validator_file(directory / VALIDATOR_FILE, engine, made)
            print_line(f"Start the node, then send {directory / VALIDATOR_FILE} to the administrators:")
            print_line("  cairn validators add --file FILE --yes       # with the new file")
            print_line(f"  cairn validators remove --public-key {encode_public_key(old)}")
            return
    print_line("Start the node, then ask the administrators for:")
    print_line("  cairn validators add --name NAME --public-key NEW --yes       # keeps power and fee recipient")
    print_line("  cairn validators remove --public-key OLD")


def exchange_key(engine: CometBFT, old: bytes) -> Path:
    """Make a new key, and keep the old one in a file of its own. What was signed so far stays on record."""
    path = engine.home / "config" / "priv_validator_key.json"
    aside = path.with_name(f"priv_validator_key-{engine_address(old).hex()[:8]}.json")
    try:
        write_file(aside, path.read_bytes())
        write_file(path, json.dumps(json.loads(engine.run("gen-validator"))["Key"], indent=2).encode() + b"\n")
    except OSError as error:
        raise InvalidConfig(f"cannot write {error.filename}: {error.strerror}") from None
    return aside
