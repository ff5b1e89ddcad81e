"""`cairn dev`: runs a dev chain, in a temporary directory, in one that is kept, or from a file to a file."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cairn.cli.node.dev_chain import DevChainSpec, build_dev_chain, print_dev_banner, print_dev_facts
from cairn.cli.node.home import make_data_directory
from cairn.cli.node.narration import Gate, LineFormat, Narrator, TextFormat, json_lines
from cairn.cli.node.run import print_listening, warn_of_useless_snapshots
from cairn.cli.operate.idle_settings import FOR_NETWORK
from cairn.cli.options import MORE_SETTINGS, GasPrice, flags_given, with_settings
from cairn.cli.report import reported_errors, warn
from cairn.cli.screen import has_colour
from cairn.config import EXIT_FATAL, Settings, load_settings
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import COIN, DEV_BALANCE, DEV_CHAIN_ID, DEV_KEYS, DEV_MNEMONIC, GWEI, Genesis
from cairn.domain.types import MAX_DATA_BYTES
from cairn.early_stop import note_stops
from cairn.loopback import is_loopback
from cairn.store.directory import holds_chain, is_there
from cairn.store.state_file import check_place, hold_state_file, load_state, save_state
from cairn.temporary import keep, temporary_directory


@with_settings("port", "block_time_s", idle=("engine", *FOR_NETWORK))
def dev(
    accounts: Annotated[int, typer.Option(help="Number of funded accounts, 1 to 100.", metavar="N")] = len(DEV_KEYS),
    balance: Annotated[
        str, typer.Option(help="Initial balance of each. A number without a unit is in coins.", metavar="AMOUNT")
    ] = str(DEV_BALANCE // COIN),
    mnemonic: Annotated[
        str,
        typer.Option(
            help="Your own mnemonic (BIP-39) to derive the accounts from.", metavar="WORDS", show_default=False
        ),
    ] = DEV_MNEMONIC,
    chain_id: Annotated[
        int, typer.Option(help="Chain id, which every signature includes.", metavar="N")
    ] = DEV_CHAIN_ID,
    gas_price: GasPrice = GWEI,
    max_data_bytes: Annotated[
        int,
        typer.Option(
            help="Maximum bytes of data in a transfer, 0 to 256; 0 forbids data.",
            metavar="N",
            rich_help_panel=MORE_SETTINGS,
        ),
    ] = MAX_DATA_BYTES,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep the chain in this directory instead of deleting it on stop.", metavar="DIR"),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Load the chain from this file, if it exists, and save it there.", metavar="FILE"),
    ] = None,
    load_from: Annotated[
        Path | None,
        typer.Option(
            "--load-state",
            help="Load the chain from a file that --state saved. The file is not changed.",
            metavar="FILE",
            rich_help_panel=MORE_SETTINGS,
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only where the node listens.")] = False,
    until_stdin_ends: Annotated[
        bool,
        typer.Option(
            "--until-stdin-ends",
            help="Stop when standard input ends. Given a pipe, the node stops with the program that started it.",
            rich_help_panel=MORE_SETTINGS,
        ),
    ] = False,
    **flags: Any,
) -> None:
    """Run a dev chain: funded accounts that the node signs for."""
    note_stops()
    with reported_errors():
        settings = dev_settings(flags)
        chain = build_dev_chain(chain_id, accounts, balance, mnemonic, gas_price, max_data_bytes)
        parent_pipe = standard_input() if until_stdin_ends else None
        with state_to_load(data_dir, state, load_from) as loaded, dev_directory(data_dir) as (path, described):
            if loaded is not None:
                load_state(loaded, chain.genesis, path)
            gate = Gate()
            code = run_dev_chain(chain, path, described, settings, quiet, parent_pipe, gate, data_dir is None)
            if state is not None and code != EXIT_FATAL:
                save_or_keep(path, chain.genesis, state, had_chain=loaded is not None or gate.wait(0))
    raise typer.Exit(code)


def dev_settings(flags: Mapping[str, Any]) -> Settings:
    """The settings from environment and flags, with warnings. Raises `InvalidConfig` for those of a network."""
    settings = load_settings(environ=os.environ, flags=flags_given(flags))
    if settings.engine != "embedded":
        raise InvalidConfig("a dev chain makes its blocks itself; `cairn testnet` runs a network")
    if not is_loopback(settings.host):
        warn(f"{settings.host} is not loopback: whoever reaches this port can spend from all its accounts")
    warn_of_useless_snapshots(settings.snapshot_interval)
    return settings


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
    """The descriptor of standard input. Raises `InvalidConfig` for a terminal: reading it stops a background job."""
    if sys.stdin.isatty():
        raise InvalidConfig("--until-stdin-ends: standard input is a terminal; it must be a pipe")
    return sys.stdin.fileno()


def save_or_keep(directory: Path, genesis: Genesis, state: Path, had_chain: bool) -> None:
    """Save the chain to the file. If that fails, its temporary directory is kept, and the error names it.

    Raises `InvalidConfig`, including when the directory `had_chain` and has lost it.
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
    chain: DevChainSpec,
    path: Path,
    described: str,
    settings: Settings,
    quiet: bool,
    parent_pipe: int | None,
    gate: Gate,
    is_temporary: bool,
) -> int:
    """Run the node in the directory `path`, which the banner shows as `described`. Returns the exit code.

    `gate` is opened when the node is ready. A temporary directory is removed at the end.
    """
    # Loaded here, since it brings in the whole node: --help, --version and a wrong setting should answer at once.
    from cairn.core.gateway import UNOBSERVED, Observing
    from cairn.node import Node

    def announce(url: str) -> None:
        if settings.log_format == "json":
            print_dev_facts(chain, url)
        else:
            if not quiet:
                print_dev_banner(chain, settings, described, url)
            print_listening(url)
        gate.open()

    observing: Observing = UNOBSERVED if quiet else Narrator(format_of(settings, chain), gate)
    node = Node(
        chain.genesis,
        path,
        settings,
        chain.keys,
        observing=observing,
        parent_pipe=parent_pipe,
        home=None if is_temporary else path,
        is_temporary=is_temporary,
    )
    return node.run(announce)


def format_of(settings: Settings, chain: DevChainSpec) -> LineFormat:
    return json_lines if settings.log_format == "json" else TextFormat(has_colour(), chain.keys)


@contextmanager
def dev_directory(given: Path | None) -> Iterator[tuple[Path, str]]:
    """The directory of the dev chain, and its text for the user."""
    if given is not None:
        make_data_directory(given)
        yield given, f"{given} (kept)"
        return
    try:
        parent = Path(tempfile.gettempdir())
    except FileNotFoundError as failure:
        raise InvalidConfig(f"{failure.strerror}: set TMPDIR to one, or keep the chain with --data-dir") from None
    with temporary_directory("cairn-dev-", parent) as path:
        yield path, f"{path} (temporary: removed at the end; --data-dir keeps a chain)"
