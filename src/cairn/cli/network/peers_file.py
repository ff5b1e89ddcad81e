"""peers.json: where the first nodes of a network are, beside the genesis.json that they start from.

It is not part of the genesis, because addresses change and the chain's identity does not. A wrong one does no harm:
nodes know each other by their keys.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cairn.cli.network.peers import split_peers
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import Genesis, genesis_digest

PEERS_FILE = "peers.json"


class _PeersFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    genesis: str
    """The digest of the genesis that it belongs to."""
    peers: dict[str, str]
    """By the name of the validator: ID@HOST:PORT."""


def encode_peers(genesis: Genesis, peers: Mapping[str, str]) -> bytes:
    content = {"genesis": "0x" + genesis_digest(genesis).hex(), "peers": dict(peers)}
    return json.dumps(content, indent=2).encode() + b"\n"


def read_peers_file(path: Path, genesis: Genesis) -> list[str]:
    """The addresses in the file. Raises `InvalidConfig`, including for the file of another network."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_PeersFile)
    except FileNotFoundError:
        raise InvalidConfig(f"name nodes to connect to with --peers: there is no {path}") from None
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path} is not a file that `cairn genesis collect` makes: {error}") from None
    if found.genesis != "0x" + genesis_digest(genesis).hex():
        raise InvalidConfig(f"{path} belongs to another genesis")
    return split_peers(",".join(found.peers.values()), str(path))
