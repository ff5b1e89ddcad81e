"""Finds the chain that a command is given: in a home, in a data directory, or in a backup."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from cairn.cli.node.home import GENESIS_FILE
from cairn.domain.errors import InvalidConfig, InvalidField, MalformedJson
from cairn.domain.genesis import Genesis, dev_genesis, parse_genesis
from cairn.store.directory import format_path, is_file

ChainHome = Annotated[
    Path,
    typer.Option("--home", help="A node's home, its data directory, or a backup.", metavar="DIR", show_default=False),
]
GenesisFile = Annotated[
    Path | None,
    typer.Option(
        "--genesis",
        help="The chain's genesis.json, if it is not beside the data. The standard dev chain needs none.",
        metavar="FILE",
        show_default=False,
    ),
]


class ChainDirectory(NamedTuple):
    data: Path
    genesis: Genesis


def find_chain_directory(given: Path, genesis_file: Path | None) -> ChainDirectory:
    """The data directory and its genesis. Raises `InvalidConfig` or `StoreUnavailable`."""
    for data in (given / "data", given):
        if is_file(format_path(data)):
            return ChainDirectory(data, _read_genesis(data, genesis_file))
    raise InvalidConfig(f"{given} holds no chain: neither it nor {given / 'data'} has a file FORMAT")


def _read_genesis(data: Path, given: Path | None) -> Genesis:
    places = (data / GENESIS_FILE, data.parent / GENESIS_FILE) if given is None else (given,)
    path = next((place for place in places if is_file(place)), None)
    if path is None:
        if given is not None:
            raise InvalidConfig(f"{given} is missing")
        return dev_genesis()
    try:
        return parse_genesis(path.read_bytes())
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    except (InvalidField, MalformedJson) as error:
        raise InvalidConfig(f"{path}: {error.detail}") from None
