"""`cairn init`, `cairn run` and `cairn discard-pending`: a node in its home directory."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from cairn import __version__
from cairn.cli.network.homes import check_engine_genesis
from cairn.cli.node.home import Home, build_genesis, make_data_directory, random_chain_id, read_address
from cairn.cli.options import flags_given, with_settings
from cairn.cli.report import DataUnusable, reported_errors, warn
from cairn.cli.screen import print_lines
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT, find_binary
from cairn.config import Settings, load_settings
from cairn.domain.crypto import keccak256
from cairn.domain.errors import Fatal, InvalidConfig, StoreUnavailable
from cairn.domain.genesis import DEV_SIGNER, GWEI, Genesis, genesis_digest
from cairn.domain.types import MAX_DATA_BYTES, TRANSFER_GAS, ZERO_ADDRESS, Address
from cairn.early_stop import note_stops
from cairn.store.directory import is_there
from cairn.store.journal_discard import discard_journal
from cairn.store.signing_key import SigningKey


@with_settings("host", "port", "workers", "block_time_s", "empty_blocks", "proposer", "engine", "log_level")
def run(
    home: Annotated[Path, typer.Option(help="The directory that `cairn init` made.", show_default=False)],
    **flags: Any,
) -> None:
    """Run a node of the chain in a home directory. It holds the key of no account."""
    note_stops()
    with reported_errors():
        place = Home(home)
        genesis = place.read_genesis()

        def read_settings() -> Settings:
            return load_settings(place.read_config(), os.environ, flags_given(flags))

        settings, cometbft = settle_engine(place, genesis, read_settings())
        if cometbft is None:
            # Elsewhere the fees go where the chain's validators say.
            warn_of_lost_fees(settings.proposer)
            warn_of_useless_snapshots(settings.snapshot_interval)
        warn_of_vain_signatures(place, genesis)
        if not is_there(place.begun_file):
            make_data_directory(place.data_dir)
        banner = partial(print_run_banner, genesis, place.data_dir)
        # Loaded here, since it brings in the whole node: --help and a wrong setting should answer at once.
        from cairn.node import Node

        node = Node(
            genesis,
            place.data_dir,
            settings,
            {},
            cometbft,
            begun_file=place.begun_file,
            read_settings=read_settings,
            key_files=place.key_files,
        )
        code = node.run(banner)
    raise typer.Exit(code)


def init(
    directory: Annotated[Path, typer.Argument(help="The home directory to make.", show_default=False)],
    chain_id: Annotated[
        int | None, typer.Option(help="A number that no other chain uses; random unless given.", metavar="N")
    ] = None,
    gas_price: Annotated[int, typer.Option(help="Minimum price of a unit of gas, in wei.", metavar="WEI")] = GWEI,
    block_gas_limit: Annotated[
        int, typer.Option(help="Maximum gas in one block; a transfer uses 21,000.", metavar="N")
    ] = 10_000 * TRANSFER_GAS,
    max_data_bytes: Annotated[
        int, typer.Option(help="Most bytes of data in a transfer, 0 to 256; 0 forbids it.", metavar="N")
    ] = MAX_DATA_BYTES,
    alloc: Annotated[
        list[str] | None,
        typer.Option(help="A first balance, in wei or as 1000coins. May be repeated.", metavar="ADDRESS=AMOUNT"),
    ] = None,
    proposer: Annotated[
        str | None, typer.Option(help="Account that receives this node's fees.", metavar="ADDRESS")
    ] = None,
) -> None:
    """Make a home directory: genesis.json with the chain's rules, cairn.toml with its settings, and a signing key."""
    with reported_errors():
        chosen_id = random_chain_id() if chain_id is None else chain_id
        key = SigningKey.new()
        genesis = build_genesis(chosen_id, gas_price, block_gas_limit, alloc or [], key.public_key, max_data_bytes)
        home = Home(directory)
        chosen_proposer = None if proposer is None else read_address(proposer, "--proposer")
        home.create(genesis, {} if chosen_proposer is None else {"proposer": chosen_proposer}, key)
    print(f"Wrote {home.genesis_file} (chain id {genesis.chain_id}), {home.config_file} and {home.key_files.current}")
    print("The node signs its blocks with the key in the last one: back it up where nobody else can read it")
    if not genesis.alloc:
        warn("no --alloc was given, so no account holds anything: add balances to genesis.json before the first run")
    warn_of_lost_fees(chosen_proposer or ZERO_ADDRESS)
    print(f"Start the node with: cairn run --home {directory}")


def discard_pending(
    data_dir: Annotated[Path, typer.Argument(help="The data directory of a node that is stopped.", show_default=False)],
) -> None:
    """Discard a damaged journal: the chain is kept, and accepted but unconfirmed transactions are lost."""
    with reported_errors():
        try:
            aside = discard_journal(data_dir)
        except Fatal as failure:
            raise DataUnusable(failure.detail) from None
        except StoreUnavailable as failure:
            raise InvalidConfig(failure.detail) from None
    print(f"The node in {data_dir} starts with an empty mempool. The old journal: {aside or 'there was none'}")


def warn_of_lost_fees(proposer: Address) -> None:
    if proposer == ZERO_ADDRESS:
        warn("no proposer is set, so all fees go to the zero address, whose key nobody has: set proposer to an account")


def warn_of_useless_snapshots(interval: int) -> None:
    """State snapshots are for nodes that join."""
    if interval:
        warn("snapshot_interval has no effect on a node that makes its blocks alone: no other node can join its chain")


def warn_of_vain_signatures(home: Home, genesis: Genesis) -> None:
    """Signatures are to convince others, who have nothing but a key that is secret and the file of genesis."""
    if genesis.signer == DEV_SIGNER:
        warn("the signer in genesis.json is a dev chain's, and everybody has its key: what it signs proves nothing")
    if keccak256(home.genesis_file.read_bytes()) != genesis_digest(genesis):
        warn(
            f"{home.genesis_file} is not written as `cairn init` writes it: give GET /genesis of this node to whoever "
            "checks its receipts, not this file"
        )


def print_run_banner(genesis: Genesis, data_dir: Path, url: str) -> None:
    print_lines([Text(f"Cairn {__version__}, chain {genesis.chain_id}", "bold"), f"Data        {data_dir}"])
    print_listening(url)


def print_listening(url: str) -> None:
    print_lines([Text(f"Listening on {url}", "bold green")])


def settle_engine(home: Home, genesis: Genesis, settings: Settings) -> tuple[Settings, CometBFT | None]:
    """The settings completed from CometBFT's home, and the CometBFT to start, if any. Raises `InvalidConfig`."""
    if settings.engine == "embedded":
        if genesis.validators:
            raise InvalidConfig(f'{home.genesis_file} names validators: such a chain needs engine = "cometbft"')
        return settings, None
    if not genesis.validators:
        raise InvalidConfig(f'{home.genesis_file} names no validators: such a chain needs engine = "embedded"')
    directory = Path(settings.cometbft_home or home.directory / COMETBFT_DIRECTORY).absolute()
    if settings.cometbft_attach:
        rpc = settings.cometbft_rpc or CometBFT(Path(), directory).configured_rpc()
        return replace(settings, cometbft_home=str(directory), cometbft_rpc=rpc), None
    engine = CometBFT(find_binary(settings.cometbft_binary), directory)
    engine.check_version()
    rpc = settings.cometbft_rpc or engine.configured_rpc()
    engine.check_key()
    check_engine_genesis(engine, genesis)
    if is_there(home.begun_file):
        check_identity(engine)
    return replace(settings, cometbft_home=str(directory), cometbft_rpc=rpc), engine


def check_identity(engine: CometBFT) -> None:
    """Raise `DataUnusable` if a file is missing that says who this node is, or what it has signed.

    CometBFT would make a new key for the node, and its peers would not know it. Without the record of its last vote
    CometBFT does not start, and a record made anew could let it sign a second block at the same height.
    """
    needed = ["config/node_key.json"]
    if not engine.signer_address():
        needed.append("data/priv_validator_state.json")
    for name in needed:
        if not is_there(path := engine.home / name):
            raise DataUnusable(
                f"{path} is missing, though this node has run with it: mount its disk or restore a backup; "
                "to replace the node, make a new home with `cairn join`"
            )
