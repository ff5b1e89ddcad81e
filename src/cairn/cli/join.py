"""`cairn join`: the home of one more node of a network that runs already."""

import http.client
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cairn.cli.home import Home
from cairn.cli.network import COMETBFT_DIRECTORY, LOOPBACK, Site, write_home
from cairn.cli.report import reported_errors
from cairn.cometbft import CometBFT, TomlValue, find_binary
from cairn.config import Settings
from cairn.domain.errors import InvalidConfig, NodeError
from cairn.domain.genesis import Genesis, parse_genesis

ASK_TIMEOUT_S = 10.0


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
        str, typer.Option(help="Where the others reach this node; this machine only unless given.", metavar="HOST")
    ] = LOOPBACK,
    base_port: Annotated[
        int, typer.Option(help="First of the node's ports: API, then p2p, then CometBFT's RPC.", metavar="N")
    ] = 8650,
    state_sync: Annotated[
        str | None,
        typer.Option(
            help="Start from a snapshot, verified by what the CometBFT at this RPC address says now: trust it.",
            metavar="HOST:PORT",
        ),
    ] = None,
    cometbft_binary: Annotated[
        str, typer.Option(help="The cometbft program; found unless given.", metavar="TEXT", show_default=False)
    ] = "",
) -> None:
    """Make the home of a full node that joins a network: all it needs is the network's genesis and a peer."""
    with reported_errors():
        chain = read_genesis(genesis)
        others = split_peers(peers)
        home = Home(directory)
        if directory.exists() and any(directory.iterdir()):
            raise InvalidConfig(f"{directory} is not empty; nothing was written")
        trusted = {} if state_sync is None else trust(state_sync)
        engine = CometBFT(find_binary(Settings(cometbft_binary=cometbft_binary)), directory / COMETBFT_DIRECTORY)
        engine.check_version()
        engine.run("init")
        # Neighbours on one machine are told apart by their ports only.
        site = Site(directory.resolve().name, host, base_port, is_alone=host != LOOPBACK)
        write_home(home, engine, site, chain, others)
        engine.configure(trusted)
    print(f"Start the node with: cairn run --home {directory}")


def read_genesis(path: Path) -> Genesis:
    try:
        genesis = parse_genesis(path.read_bytes())
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    except NodeError as error:
        raise InvalidConfig(f"{path}: {error.detail}") from None
    if not genesis.validators:
        raise InvalidConfig(f"{path} names no validators: it is no network's")
    return genesis


def split_peers(text: str) -> list[str]:
    peers = [peer.strip() for peer in text.split(",")]
    for peer in peers:
        name, _, address = peer.partition("@")
        if not name or not address.rpartition(":")[2].isdigit():
            raise InvalidConfig(f"--peers {peer}: expected ID@HOST:PORT")
    return peers


def trust(rpc: str) -> dict[str, TomlValue]:
    """What makes CometBFT start from a snapshot, verified from the newest block that `rpc` shows."""
    try:
        newest = ask(rpc, "/commit")["result"]["signed_header"]
        height, block_hash = int(newest["header"]["height"]), str(newest["commit"]["block_id"]["hash"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        raise InvalidConfig(f"--state-sync {rpc}: CometBFT does not answer there: {error}") from None
    return {
        "statesync.enable": True,
        # It wants a second opinion; with one to ask, it is the same one.
        "statesync.rpc_servers": f"{rpc},{rpc}",
        "statesync.trust_height": height,
        "statesync.trust_hash": block_hash,
        "statesync.discovery_time": "5s",
    }


def ask(rpc: str, path: str) -> Any:
    connection = http.client.HTTPConnection(rpc, timeout=ASK_TIMEOUT_S)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()
