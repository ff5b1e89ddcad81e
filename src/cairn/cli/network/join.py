"""`cairn join`: the home of one more node of a network that runs already."""

import base64
import json
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from cairn.cli.network.homes import BASE_PORT, LOOPBACK, Site, write_home
from cairn.cli.network.peers import Peers, own_address, print_what_peers_must_do, split_peers
from cairn.cli.network.running import NoAnswer, ask
from cairn.cli.node.home import Home
from cairn.cli.options import CometbftBinary
from cairn.cli.report import reported_errors
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT, TomlValue, find_binary
from cairn.domain.errors import InvalidConfig, NodeError
from cairn.domain.genesis import Genesis, parse_genesis
from cairn.engine.abci.requests import BLOCKS_AFTER
from cairn.store.directory import has_files

ASK_TIMEOUT_S = 10.0
HOUR_S = 3_600
TRUST_HOURS = 168
"""How long after `cairn join` the node may be started: CometBFT's own default."""


def join(
    directory: Annotated[Path, typer.Argument(help="The home directory to make.", show_default=False)],
    genesis: Annotated[Path, typer.Option(help="The network's genesis.json.", show_default=False)],
    peers: Annotated[
        str,
        typer.Option(
            help="Nodes to connect to: `cometbft show-node-id --home HOME/cometbft`, host and p2p port of each.",
            metavar="ID@HOST:PORT,...",
            show_default=False,
        ),
    ],
    host: Annotated[
        str,
        typer.Option(
            help="Address at which other nodes reach this one; this machine only unless given.", metavar="HOST"
        ),
    ] = LOOPBACK,
    base_port: Annotated[
        int, typer.Option(help="First of the node's ports: API, then p2p, then CometBFT's RPC.", metavar="N")
    ] = BASE_PORT,
    state_sync: Annotated[
        str | None,
        typer.Option(
            help="Start from a state snapshot. The CometBFT at this RPC address, which you trust, names the block; "
            "further ones must agree.",
            metavar="HOST:PORT,...",
        ),
    ] = None,
    closed: Annotated[
        bool,
        typer.Option("--closed", help="Take connections of the --peers only, as a validator should."),
    ] = False,
    cometbft_binary: CometbftBinary = "",
) -> None:
    """Make the home directory of a full node that joins a network. Needs the network's genesis and a peer."""
    with reported_errors():
        chain = read_genesis(genesis)
        others = split_peers(peers)
        home = Home(directory)
        if has_files(directory):
            raise InvalidConfig(f"{directory} is not empty; nothing was written")
        trusted = {} if state_sync is None else state_sync_settings(state_sync.split(","), time.time())
        engine = CometBFT(find_binary(cometbft_binary), directory / COMETBFT_DIRECTORY)
        engine.check_version()
        engine.run("init")
        # Neighbours on one machine are told apart by their ports only.
        site = Site(directory.resolve().name, host, base_port, is_alone=host != LOOPBACK)
        write_home(home, engine, site, chain, Peers(tuple(others), is_closed=closed))
        engine.configure(trusted)
        print_what_peers_must_do(own_address(engine), others)
    print(f"Start the node with: cairn run --home {directory}")


def read_genesis(path: Path) -> Genesis:
    try:
        genesis = parse_genesis(path.read_bytes())
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    except NodeError as error:
        raise InvalidConfig(f"{path}: {error.detail}") from None
    if not genesis.validators:
        raise InvalidConfig(f"{path} names no validators, so it is not the genesis of a network")
    return genesis


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
