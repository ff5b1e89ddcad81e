"""`cairn init`, `cairn run` and `cairn discard-pending`: a node in its home directory."""

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from cairn.build import described
from cairn.cli.network.homes import check_engine_genesis
from cairn.cli.node.home import Home, build_genesis, make_data_directory, random_chain_id
from cairn.cli.node.public_keys import warn_of_public_keys
from cairn.cli.options import (
    DEFAULT_BLOCK_GAS_LIMIT,
    BlockGasLimit,
    GasPrice,
    KeysDirectory,
    MaxDataBytes,
    NewChainId,
    flags_given,
    keystore_in,
    with_settings,
)
from cairn.cli.report import DataUnusable, Told, reported_errors, warn
from cairn.cli.screen import print_line, print_lines
from cairn.cli.wallet.parties import find_party, read_balances
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT, find_binary
from cairn.config import Settings, load_settings
from cairn.config import read_settings as read_given
from cairn.domain.crypto import keccak256
from cairn.domain.errors import Fatal, InvalidConfig, StoreUnavailable
from cairn.domain.genesis import DEV_SIGNER, GWEI, Genesis, genesis_digest
from cairn.domain.types import MAX_DATA_BYTES, ZERO_ADDRESS, Address
from cairn.early_stop import note_stops
from cairn.log import configure_logging, is_journal
from cairn.store.directory import is_there
from cairn.store.journal_discard import discard_journal
from cairn.store.signing_key import SigningKey

METRICS_PORT = 8646
"""What `cairn init` sets: the port behind that of the API."""


@with_settings("host", "port", "workers", "block_time_s", "proposer", "log_level")
def run(
    home: Annotated[
        Path, typer.Option(help="The directory that `cairn init` made.", metavar="DIR", show_default=False)
    ],
    **flags: Any,
) -> None:
    """Run a node from its home directory. The node holds no account's key."""
    note_stops()
    with reported_errors():
        place = Home(home)

        def read_settings() -> Settings:
            return load_settings(place.read_config(), os.environ, flags_given(flags))

        # First by the environment alone: the file may be unreadable.
        tell_by_log(read_given(None, os.environ, flags_given(flags)).settled())
        tell_by_log(read_given(place.read_config(), os.environ, flags_given(flags)).settled())
        chosen = read_settings()
        genesis = place.read_genesis()
        settings, cometbft = settle_engine(place, genesis, chosen)
        if cometbft is None:
            # Elsewhere the fees go where the chain's validators say.
            warn_of_lost_fees(settings.proposer)
            warn_of_useless_snapshots(settings.snapshot_interval)
        warn_of_vain_signatures(place, genesis)
        warn_of_public_keys(genesis, settings.proposer)
        if not is_there(place.begun_file):
            make_data_directory(place.data_dir)
        # Whoever reads JSON finds it in the log.
        is_json = settings.log_format == "json"
        banner = (lambda url: None) if is_json else partial(print_run_banner, genesis, place.data_dir)
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
            home=place.directory,
        )
        code = node.run(banner)
    raise typer.Exit(code)


def init(
    directory: Annotated[Path, typer.Argument(help="The home directory to create.", metavar="DIR", show_default=False)],
    chain_id: NewChainId = None,
    gas_price: GasPrice = GWEI,
    block_gas_limit: BlockGasLimit = DEFAULT_BLOCK_GAS_LIMIT,
    max_data_bytes: MaxDataBytes = MAX_DATA_BYTES,
    alloc: Annotated[
        list[str] | None,
        typer.Option(
            help="Initial balance of an address or a stored key, in wei or as 1000coins. May be repeated.",
            metavar="ACCOUNT=AMOUNT",
        ),
    ] = None,
    proposer: Annotated[
        str | None,
        typer.Option(help="Account that receives this node's fees: an address or a stored key.", metavar="ACCOUNT"),
    ] = None,
    keys: KeysDirectory = None,
) -> None:
    """Create a home directory: genesis.json with the chain's rules, cairn.toml with the settings, and a signing key."""
    with reported_errors():
        chosen_id = random_chain_id() if chain_id is None else chain_id
        keystore, key = keystore_in(keys), SigningKey.new()
        balances = read_balances(alloc or [], keystore)
        genesis = build_genesis(chosen_id, gas_price, block_gas_limit, balances, key.public_key, max_data_bytes)
        home = Home(directory)
        chosen_proposer = None if proposer is None else find_party(proposer, keystore, "--proposer").address
        chosen: dict[str, object] = {"metrics_port": METRICS_PORT}
        home.create(genesis, chosen if chosen_proposer is None else chosen | {"proposer": chosen_proposer}, key)
    print_line(
        f"Wrote {home.genesis_file} (chain id {genesis.chain_id}), {home.config_file} and {home.key_files.current}"
    )
    print_line("The node signs its blocks with the key in the last one: back it up where nobody else can read it")
    if not genesis.alloc:
        warn("no --alloc was given, so no account holds anything: add balances to genesis.json before the first run")
    warn_of_lost_fees(chosen_proposer or ZERO_ADDRESS)
    warn_of_public_keys(genesis, chosen_proposer or ZERO_ADDRESS)
    print_line(f"Start the node with: cairn run --home {directory}")


def tell_by_log(settings: Settings) -> None:
    """Write nothing but lines of the log where something else than a person reads them: also what is wrong with the
    other settings, so these need not all be good."""
    if settings.log_format == "json" or is_journal(sys.stderr):
        configure_logging(settings.log_level, settings.log_format)
        Told.by_log = True


def discard_pending(
    data_dir: Annotated[
        Path, typer.Argument(help="The data directory of a node that is stopped.", metavar="DIR", show_default=False)
    ],
) -> None:
    """Discard a damaged journal. The chain is kept; accepted but unconfirmed transactions are lost."""
    with reported_errors():
        try:
            aside = discard_journal(data_dir)
        except Fatal as failure:
            raise DataUnusable(failure.detail) from None
        except StoreUnavailable as failure:
            raise InvalidConfig(failure.detail) from None
    print_line(f"The node in {data_dir} starts with an empty mempool. The old journal: {aside or 'there was none'}")


def warn_of_lost_fees(proposer: Address) -> None:
    if proposer == ZERO_ADDRESS:
        warn("no proposer is set, so all fees go to the zero address and are lost: set proposer to an account")


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
    print_lines([Text(f"Cairn {described()}, chain {genesis.chain_id}", "bold"), f"Data        {data_dir}"])
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
    CometBFT does not start, and a record made again could let it sign a second block at the same height.
    """
    needed = ["config/node_key.json"]
    if not engine.signer_address():
        needed.append("data/priv_validator_state.json")
    for name in needed:
        if not is_there(path := engine.home / name):
            raise DataUnusable(
                f"{path} is missing, though this node has run with it: mount its disk. Never put an old copy of it "
                "back; to replace the node, make a new home with `cairn restore` or `cairn join`"
            )
