"""`cairn join`: the home of one more node of a network that runs already."""

import base64
import json
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from cairn.cli.network.homes import BASE_PORT, LOOPBACK, Site, read_genesis, read_public_key, write_home
from cairn.cli.network.peers import (
    Peers,
    id_of,
    own_address,
    print_what_peers_must_do,
    read_node_id,
    split_peers,
)
from cairn.cli.network.peers_file import PEERS_FILE, read_peers_file
from cairn.cli.network.running import NoAnswer, ask
from cairn.cli.network.validator_file import VALIDATOR_FILE, ValidatorFile, find_own_file
from cairn.cli.node.home import Home
from cairn.cli.options import CometbftBinary
from cairn.cli.report import reported_errors
from cairn.cli.screen import print_line
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT, TomlValue, find_binary
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import Genesis
from cairn.domain.governance import ValidatorRecord
from cairn.engine.abci.requests import BLOCKS_AFTER
from cairn.loopback import is_loopback
from cairn.store.directory import has_files, names_in

ASK_TIMEOUT_S = 10.0
HOUR_S = 3_600
TRUST_HOURS = 168
"""How long after `cairn join` the node may be started: CometBFT's own default."""
_KEYS_ONLY = {VALIDATOR_FILE, COMETBFT_DIRECTORY, "priv_validator_state.json"}


def join(
    directory: Annotated[Path, typer.Argument(help="The home directory to create.", metavar="DIR", show_default=False)],
    genesis: Annotated[Path, typer.Option(help="The network's genesis.json.", metavar="FILE", show_default=False)],
    peers: Annotated[
        str | None,
        typer.Option(
            help="Nodes to connect to, as `cairn peers` prints them. By default, those in peers.json beside the "
            "genesis.",
            metavar="ID@HOST:PORT,...",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            help="Address at which other nodes reach this one; this machine only unless given.",
            metavar="HOST",
            show_default=False,
        ),
    ] = None,
    base_port: Annotated[
        int | None,
        typer.Option(
            help=f"First of the node's ports, by default {BASE_PORT}. In order: API, p2p, CometBFT's RPC, metrics, "
            "CometBFT's metrics.",
            metavar="N",
            show_default=False,
        ),
    ] = None,
    state_sync: Annotated[
        str | None,
        typer.Option(
            help="Start from a state snapshot. The first address is the RPC of a CometBFT that you trust: it names "
            "the block. Any others must agree.",
            metavar="HOST:PORT,...",
        ),
    ] = None,
    closed: Annotated[
        bool,
        typer.Option("--closed", help="Accept connections from the --peers only, as a validator should."),
    ] = False,
    cometbft_binary: CometbftBinary = "",
) -> None:
    """Create the home directory of a node that joins a network. Needs the network's genesis and a peer.

    If `cairn validator init` made keys in this directory, the node keeps them and its address. It is a validator if the
    genesis names its key; otherwise it is a full node.
    """
    with reported_errors():
        chain = read_genesis(genesis)
        made = find_own_file(directory)
        check_fresh(directory, has_keys=made is not None)
        site = site_of(directory, host, base_port) if made is None else check_site(made, host, base_port)
        given = read_peers_file(genesis.with_name(PEERS_FILE), chain) if peers is None else split_peers(peers)
        trusted = {} if state_sync is None else state_sync_settings(state_sync.split(","), time.time())
        engine = CometBFT(find_binary(cometbft_binary), directory / COMETBFT_DIRECTORY)
        engine.check_version()
        if made is None:
            engine.run("init")
        own_id = read_node_id(engine)
        others = tuple(peer for peer in given if id_of(peer) != own_id)
        validator = find_validator(chain, read_public_key(engine.home))
        write_home(Home(directory), engine, site, chain, Peers(others, is_closed=closed or validator is not None))
        engine.configure(trusted)
        if validator is not None:
            print_line(
                f"This node is the validator {validator.name}, with power {validator.power} of {total_power(chain)}."
            )
        else:
            print_what_peers_must_do(own_address(engine), others)
    print_line(f"Start the node with: cairn run --home {directory}")


def site_of(directory: Path, host: str | None, base_port: int | None) -> Site:
    host = LOOPBACK if host is None else host
    # Neighbours on one machine are told apart by their ports only.
    return Site(
        directory.resolve().name, host, BASE_PORT if base_port is None else base_port, is_alone=not is_loopback(host)
    )


def check_site(made: ValidatorFile, host: str | None, base_port: int | None) -> Site:
    """Where the others expect the node. Raises `InvalidConfig` for another place."""
    site = made.site
    if host not in (None, site.host) or base_port not in (None, site.api_port):
        raise InvalidConfig(
            f"{VALIDATOR_FILE} says that this node is at {site.host} with the base port {site.api_port}, and so the "
            "others look for it there: leave out --host and --base-port"
        )
    return site


def check_fresh(directory: Path, has_keys: bool) -> None:
    """Check that the home is empty, or holds keys and nothing else. Raises `InvalidConfig`."""
    if not has_keys and has_files(directory):
        raise InvalidConfig(f"{directory} is not empty; nothing was written")
    others = {*names_in(directory), *names_in(directory / COMETBFT_DIRECTORY / "data")} - _KEYS_ONLY
    if has_keys and others:
        raise InvalidConfig(f"{directory} has been used already ({min(others)} is there); nothing was written")


def find_validator(chain: Genesis, public_key: bytes) -> ValidatorRecord | None:
    return next((each for each in chain.validators if each.public_key == public_key), None)


def total_power(chain: Genesis) -> int:
    return sum(each.power for each in chain.validators)


def state_sync_settings(servers: Sequence[str], now: float) -> dict[str, TomlValue]:
    """The settings with which CometBFT starts from the newest snapshot. All `servers` must agree on its block.

    From a block further on, CometBFT would go back header by header, and it gives up after 30 s; for a
    server that lags it waits just as long. Raises `InvalidConfig`.
    """
    servers = [server.strip() for server in servers]
    height = newest_snapshot(servers[0])
    trusted = signed_header(servers[0], height)
    block_hash = trusted["commit"]["block_id"]["hash"]
    for server in servers:
        if signed_header(server, height)["commit"]["block_id"]["hash"] != block_hash:
            raise InvalidConfig(f"--state-sync: {server} and {servers[0]} have different blocks at height {height}")
        signed_header(server, height + BLOCKS_AFTER)
    age_s = now - datetime.fromisoformat(trusted["header"]["time"][:19] + "+00:00").timestamp()
    return {
        "statesync.enable": True,
        # It wants a second opinion; with one to ask, it is the same one.
        "statesync.rpc_servers": ",".join(servers if len(servers) > 1 else servers * 2),
        "statesync.trust_height": height,
        "statesync.trust_hash": block_hash,
        # The hash is as good as it is new: that the chain has been idle since its block takes nothing from it.
        "statesync.trust_period": f"{TRUST_HOURS + max(0, int(age_s)) // HOUR_S}h0m0s",
        "statesync.discovery_time": "5s",
    }


def newest_snapshot(server: str) -> int:
    """The height of the newest snapshot that the node there offers. Raises `InvalidConfig`."""
    answer = ask_server(server, "/abci_query?path=%22snapshots%22")
    try:
        heights = json.loads(base64.b64decode(answer["result"]["response"]["value"] or b""))
    except (ValueError, KeyError, TypeError):
        raise InvalidConfig(f"--state-sync {server}: the node there does not say which snapshots it has") from None
    if not heights:
        raise InvalidConfig(
            f"--state-sync {server}: no snapshot is offered there yet; ask another node, wait for the next one "
            "(snapshot_interval), or join without --state-sync"
        )
    return max(int(height) for height in heights)


def signed_header(server: str, height: int) -> Any:
    """The header of block `height`, with its commit. Raises `InvalidConfig`."""
    answer = ask_server(server, f"/commit?height={height}")
    try:
        header = answer["result"]["signed_header"]
        if int(header["header"]["height"]) == height and header["commit"]["block_id"]["hash"]:
            return header
    except (ValueError, KeyError, TypeError):
        pass
    raise InvalidConfig(f"--state-sync {server}: block {height} is not there, or not yet")


def ask_server(server: str, path: str) -> Any:
    """The answer of the CometBFT there. Raises `InvalidConfig` when there is none."""
    try:
        return ask(server, path, ASK_TIMEOUT_S)[1]
    except NoAnswer as error:
        raise InvalidConfig(f"--state-sync {server}: CometBFT does not answer there: {error}") from None
