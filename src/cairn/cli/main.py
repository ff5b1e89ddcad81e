"""The commands, and those that run a node. What each exit code means is in cairn.cli.shared.report."""

import ipaddress
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from cairn import __version__
from cairn.cli.completion import answer_shells, completion
from cairn.cli.look import look_commands as look
from cairn.cli.network import admin_commands as admins
from cairn.cli.network import validator_commands as validators
from cairn.cli.network.join import join
from cairn.cli.network.peers import peers
from cairn.cli.network.testnet import make_testnet
from cairn.cli.node.banner import print_dev_banner, print_dev_facts, print_listening, print_run_banner
from cairn.cli.node.dev_chain import MOST_ACCOUNTS, DevChain, build_dev_chain
from cairn.cli.node.engine_choice import settle_engine
from cairn.cli.node.home import Home, build_genesis, random_chain_id, read_address
from cairn.cli.node.narration import Gate, Narrator, Text, Wording, json_lines
from cairn.cli.node.options import MORE_SETTINGS, flags_given, with_settings
from cairn.cli.shared.report import EXIT_CODES, DataUnusable, reported_errors, warn
from cairn.cli.shared.screen import has_colour
from cairn.cli.shared.usage import Program
from cairn.cli.wallet import key_commands as keys
from cairn.cli.wallet import spend_commands as wallet
from cairn.config import EXIT_FATAL, Settings, load_settings
from cairn.domain.errors import Fatal, InvalidConfig, StoreUnavailable
from cairn.domain.genesis import COIN, DEV_BALANCE, DEV_CHAIN_ID, DEV_KEYS, DEV_MNEMONIC, GWEI, Genesis
from cairn.domain.types import TRANSFER_GAS, ZERO_ADDRESS, Address
from cairn.early_stop import note_stops
from cairn.observer import UNWATCHED, Watch
from cairn.store.directory import holds_chain, is_there
from cairn.store.journal import discard_journal
from cairn.store.state_file import check_place, hold_state_file, load_state, save_state
from cairn.temporary import keep, temporary_directory

app = typer.Typer(
    cls=Program,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A blockchain node for moving money on a chain of your own.\n\n"
    "`cairn dev` runs a dev chain, `cairn send dev0 dev1 1coin` pays on it, and `cairn watch` shows its blocks.",
    epilog=EXIT_CODES,
)

NODE, NETWORK, SHELL = "Node", "Network", "Shell"
"""Panels of --help; commands in other modules have theirs there."""


def _show_version(asked: bool) -> None:
    if asked:
        print(f"cairn {__version__}")
        raise typer.Exit


@app.callback()
def cairn(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command(rich_help_panel=NODE)
@with_settings("port", "block_time_s")
def dev(
    accounts: Annotated[
        int, typer.Option(help="Number of funded accounts.", min=1, max=MOST_ACCOUNTS, metavar="N")
    ] = len(DEV_KEYS),
    balance: Annotated[
        str, typer.Option(help="First balance of each account, in coins, or with a unit: 5gwei.", metavar="COINS")
    ] = str(DEV_BALANCE // COIN),
    mnemonic: Annotated[
        str, typer.Option(help="Words that the accounts are derived from (BIP-39, m/44'/60'/0'/0/N).", metavar="WORDS")
    ] = DEV_MNEMONIC,
    chain_id: Annotated[
        int, typer.Option(help="Chain id, which every signature includes.", metavar="N")
    ] = DEV_CHAIN_ID,
    gas_price: Annotated[int, typer.Option(help="Minimum price of a unit of gas, in wei.", metavar="WEI")] = GWEI,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep the chain in this directory. Without it, the chain is deleted when the node stops."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Load the chain from this file if it exists, and save it there on stop.", metavar="FILE"),
    ] = None,
    load_from: Annotated[
        Path | None,
        typer.Option(
            "--load-state",
            help="Load the chain from a file that --state has saved, and leave the file as it is.",
            metavar="FILE",
            rich_help_panel=MORE_SETTINGS,
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only where the node listens.")] = False,
    until_stdin_ends: Annotated[
        bool,
        typer.Option(
            "--until-stdin-ends",
            help="Stop when standard input ends: given a pipe, the node ends with the program that started it.",
            rich_help_panel=MORE_SETTINGS,
        ),
    ] = False,
    **flags: Any,
) -> None:
    """Run a dev chain: funded accounts that the node signs for."""
    note_stops()
    with reported_errors():
        settings = load_settings(environ=os.environ, flags=flags_given(flags))
        if settings.engine != "embedded":
            raise InvalidConfig("a dev chain makes its blocks itself; `cairn testnet` runs a network")
        if not is_loopback(settings.host):
            warn(f"{settings.host} is not loopback: whoever reaches this port can spend from all its accounts")
        warn_of_useless_snapshots(settings.snapshot_interval)
        chain = build_dev_chain(chain_id, accounts, balance, mnemonic, gas_price)
        parent_pipe = standard_input() if until_stdin_ends else None
        with state_to_load(data_dir, state, load_from) as loaded, dev_directory(data_dir) as (path, described):
            if loaded is not None:
                load_state(loaded, chain.genesis, path)
            gate = Gate()
            code = run_dev_chain(chain, path, described, settings, quiet, parent_pipe, gate)
            if state is not None and code != EXIT_FATAL:
                save_or_keep(path, chain.genesis, state, had_chain=loaded is not None or gate.wait(0))
    raise typer.Exit(code)


@contextmanager
def state_to_load(data_dir: Path | None, state: Path | None, load_from: Path | None) -> Iterator[Path | None]:
    """The file to load the chain from, if any. While it is entered, no other node can save to `state`.

    Raises `InvalidConfig` for options that contradict each other, or when nothing could be saved to `state`.
    """
    if sum(given is not None for given in (data_dir, state, load_from)) > 1:
        raise InvalidConfig("--data-dir, --state and --load-state each say where the chain comes from: give one")
    if state is None:
        yield load_from
        return
    check_place(state)
    with hold_state_file(state):
        # Only now: the node that had it until a moment ago may have saved it.
        yield state if is_there(state) else None


def standard_input() -> int:
    """Raises `InvalidConfig` for a terminal: to read from it would stop a node in the background."""
    if sys.stdin.isatty():
        raise InvalidConfig("--until-stdin-ends: standard input is a terminal; it must be a pipe")
    return sys.stdin.fileno()


def save_or_keep(directory: Path, genesis: Genesis, state: Path, had_chain: bool) -> None:
    """Save the chain to the file. If that fails, its temporary directory is kept, and the error names it.

    Raises `InvalidConfig`, also when the directory `had_chain` and has lost it.
    """
    if had_chain and not holds_chain(directory):
        raise InvalidConfig(
            f"cannot save the chain to {state}: it was in {directory}, which was removed or emptied while the node "
            "ran. The file is as it was before; --data-dir keeps a chain where no one cleans up"
        )
    try:
        save_state(directory, genesis, state)
    except InvalidConfig as failure:
        raise InvalidConfig(f"{failure.detail}; `cairn dev --data-dir {keep(directory)}` has the chain") from None


def run_dev_chain(
    chain: DevChain, path: Path, described: str, settings: Settings, quiet: bool, parent_pipe: int | None, gate: Gate
) -> int:
    """Run the node in the directory `path`, which the banner shows as `described`. Returns the exit code.

    `gate` is opened when the node is ready.
    """
    # Loaded here, since it brings in the whole node: --help, --version and a wrong setting should answer at once.
    from cairn.node import Node  # noqa: PLC0415

    def announce(url: str) -> None:
        if settings.log_format == "json":
            print_dev_facts(chain, url)
        elif quiet:
            print_listening(url)
        else:
            print_dev_banner(chain, settings, described, url)
        gate.open()

    watch: Watch = UNWATCHED if quiet else Narrator(narration_of(settings, chain), gate)
    return Node(chain.genesis, path, settings, chain.keys, watch=watch, parent_pipe=parent_pipe).run(announce)


def narration_of(settings: Settings, chain: DevChain) -> Wording:
    return json_lines if settings.log_format == "json" else Text(has_colour(), chain.keys)


@app.command(rich_help_panel=NODE)
@with_settings("host", "port", "workers", "block_time_s", "empty_blocks", "proposer", "engine", "log_level")
def run(
    home: Annotated[Path, typer.Option(help="The directory that `cairn init` made.", show_default=False)],
    **flags: Any,
) -> None:
    """Run a node of the chain in a home directory. It never holds a key."""
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
        if not is_there(place.begun_file):
            make_directory(place.data_dir)
        banner = partial(print_run_banner, genesis, place.data_dir)
        # Loaded here, as for a dev chain.
        from cairn.node import Node  # noqa: PLC0415

        node = Node(
            genesis,
            place.data_dir,
            settings,
            {},
            cometbft,
            begun_file=place.begun_file,
            read_settings=read_settings,
        )
        code = node.run(banner)
    raise typer.Exit(code)


@app.command(rich_help_panel=NODE)
def init(
    directory: Annotated[Path, typer.Argument(help="The home directory to make.", show_default=False)],
    chain_id: Annotated[
        int | None, typer.Option(help="A number that no other chain uses; random unless given.", metavar="N")
    ] = None,
    gas_price: Annotated[int, typer.Option(help="Minimum price of a unit of gas, in wei.", metavar="WEI")] = GWEI,
    block_gas_limit: Annotated[
        int, typer.Option(help="Maximum gas in one block; a transfer uses 21,000.", metavar="N")
    ] = 10_000 * TRANSFER_GAS,
    alloc: Annotated[
        list[str] | None,
        typer.Option(help="A first balance, in wei or as 1000coins. May be repeated.", metavar="ADDRESS=AMOUNT"),
    ] = None,
    proposer: Annotated[
        str | None, typer.Option(help="Account that receives this node's fees.", metavar="ADDRESS")
    ] = None,
) -> None:
    """Make a home directory: genesis.json with the chain's rules, cairn.toml with every setting explained."""
    with reported_errors():
        chosen_id = random_chain_id() if chain_id is None else chain_id
        genesis = build_genesis(chosen_id, gas_price, block_gas_limit, alloc or [])
        home = Home(directory)
        chosen_proposer = None if proposer is None else read_address(proposer, "--proposer")
        home.create(genesis, {} if chosen_proposer is None else {"proposer": chosen_proposer})
    print(f"Wrote {home.genesis_file} (chain id {genesis.chain_id}) and {home.config_file}")
    if not genesis.alloc:
        warn("no --alloc was given, so no account holds anything: add balances to genesis.json before the first run")
    warn_of_lost_fees(chosen_proposer or ZERO_ADDRESS)
    print(f"Start the node with: cairn run --home {directory}")


@app.command(rich_help_panel=NODE)
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


app.command("testnet", rich_help_panel=NETWORK)(make_testnet)
app.command(rich_help_panel=NETWORK)(join)
app.command(rich_help_panel=NETWORK)(peers)
app.add_typer(validators.app, name="validators", rich_help_panel=NETWORK)
app.add_typer(admins.app, name="admins", rich_help_panel=NETWORK)
app.add_typer(keys.app, name="keys", rich_help_panel=wallet.PANEL)
app.add_typer(wallet.app)
app.add_typer(look.app)
app.command(rich_help_panel=SHELL)(completion)
answer_shells()


def warn_of_lost_fees(proposer: Address) -> None:
    if proposer == ZERO_ADDRESS:
        warn("no proposer is set, so all fees go to the zero address, whose key nobody has: set proposer to an account")


def warn_of_useless_snapshots(interval: int) -> None:
    """State snapshots are for nodes that join."""
    if interval:
        warn("snapshot_interval has no effect on a node that makes its blocks alone: no other node can join its chain")


@contextmanager
def dev_directory(given: Path | None) -> Iterator[tuple[Path, str]]:
    """The directory of the dev chain, and its text for the user."""
    if given is not None:
        make_directory(given)
        yield given, f"{given} (kept)"
        return
    with temporary_directory("cairn-dev-") as path:
        yield path, f"{path} (temporary: removed at the end; --data-dir keeps a chain)"


def make_directory(path: Path) -> None:
    """Make it readable by its owner only, whatever the umask. An existing one keeps its permissions."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidConfig(f"cannot use {path} as data directory: {error.strerror}") from None


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
