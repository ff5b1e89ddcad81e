"""`cairn peers`: the nodes that a node lists, and whether it takes others; in its CometBFT's config.toml."""

import base64
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated

import typer

from cairn.cli.report import reported_errors, warn
from cairn.cli.screen import print_line
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT, TomlValue
from cairn.domain.errors import InvalidConfig, reason_of

MAX_UNLISTED_PEERS = 40
"""How many unlisted nodes an open node is connected to at most: CometBFT's own default."""
HANDSHAKE_SLOTS = 500
"""How many connections may wait for their handshake, which may take 3 s, before the next one is not even accepted."""

_ID = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Peers:
    """The nodes that a node connects to, and whether it accepts connections of others."""

    listed: tuple[str, ...]
    """Nodes that it dials, and always accepts: ID@HOST:PORT."""
    ids: tuple[str, ...] = ()
    """Further nodes that it always accepts."""
    is_closed: bool = False
    """Accepts no others."""

    def settings(self) -> dict[str, TomlValue]:
        """For CometBFT's config.toml.

        CometBFT accepts as many connections as `max_num_inbound_peers` and the entries of `unconditional_peer_ids`
        together, before it knows whose they are. So a short list would let a few silent connections keep everybody
        out. An id that is listed again is the same node, but one place more.
        """
        ids = list(dict.fromkeys([*map(id_of, self.listed), *self.ids]))
        places = list(islice(cycle(ids), max(HANDSHAKE_SLOTS, len(ids)))) if ids else []
        return {
            "p2p.persistent_peers": ",".join(self.listed),
            "p2p.unconditional_peer_ids": ",".join(places),
            "p2p.max_num_inbound_peers": 0 if self.is_closed else MAX_UNLISTED_PEERS,
        }

    def with_peers(self, added: Iterable[str]) -> "Peers":
        """With these peers too; those of the same id or address are replaced."""
        new = {id_of(peer): peer for peer in added}
        addresses = set(map(address_of, new.values()))
        kept = (peer for peer in self.listed if id_of(peer) not in new and address_of(peer) not in addresses)
        listed = (*kept, *new.values())
        return Peers(listed, tuple(each for each in self.ids if each not in new), self.is_closed)

    def without(self, removed: Iterable[str]) -> "Peers":
        """Without the peers of these ids. Raises `InvalidConfig` for an id that is not listed."""
        gone = set(removed)
        for each in gone - {*map(id_of, self.listed), *self.ids}:
            raise InvalidConfig(f"--remove {each}: it is not among the listed peers")
        listed = tuple(peer for peer in self.listed if id_of(peer) not in gone)
        return Peers(listed, tuple(each for each in self.ids if each not in gone), self.is_closed)


def id_of(peer: str) -> str:
    return peer.partition("@")[0]


def address_of(peer: str) -> str:
    return peer.partition("@")[2]


def host_of(peer: str) -> str:
    return address_of(peer).rpartition(":")[0]


def split_peers(text: str, option: str = "--peers") -> list[str]:
    peers = [peer.strip() for peer in text.split(",")]
    for peer in peers:
        name, _, address = peer.partition("@")
        if not _ID.fullmatch(name) or not address.rpartition(":")[0] or not address.rpartition(":")[2].isdigit():
            raise InvalidConfig(f"{option} {peer}: expected ID@HOST:PORT, with an id of 40 hexadecimal digits")
    return peers


def read_peers(engine: CometBFT) -> Peers:
    """The peers in CometBFT's config.toml. Raises `InvalidConfig`."""
    section = _read_p2p(engine)
    listed = tuple(_split(section.get("persistent_peers")))
    known = set(map(id_of, listed))
    ids = dict.fromkeys(each for each in _split(section.get("unconditional_peer_ids")) if each not in known)
    return Peers(listed, tuple(ids), is_closed=section.get("max_num_inbound_peers") == 0)


def own_address(engine: CometBFT) -> str:
    """ID@HOST:PORT, as other nodes list this one. Raises `InvalidConfig`."""
    section = _read_p2p(engine)
    address = str(section.get("external_address") or section.get("laddr", ""))
    return f"{read_node_id(engine)}@{address.removeprefix('tcp://')}"


def read_node_id(engine: CometBFT) -> str:
    """The id that a node's key gives it. Raises `InvalidConfig`."""
    path = engine.home / "config" / "node_key.json"
    try:
        key = base64.b64decode(json.loads(path.read_bytes())["priv_key"]["value"], validate=True)
    except OSError as error:
        raise InvalidConfig(f"cannot read the key of the node in {path}: {reason_of(error)}; restore it") from None
    except (ValueError, KeyError, TypeError):
        # Without the reason, which may show a part of the key.
        raise InvalidConfig(f"{path} holds no key of a node: restore it from your backup") from None
    # An Ed25519 key in Go is the private half, then the public one.
    return hashlib.sha256(key[32:]).digest()[:20].hex()


def _read_p2p(engine: CometBFT) -> dict[str, object]:
    try:
        section = tomllib.loads(engine.config_file.read_text()).get("p2p", {})
    except FileNotFoundError:
        raise InvalidConfig(
            f"{engine.home.parent} is not the home of a node of a network: there is no {engine.config_file}. Name the "
            "directory that `cairn join` or `cairn testnet` made"
        ) from None
    except OSError as error:
        raise InvalidConfig(f"cannot read {engine.config_file}: {reason_of(error)}") from None
    except ValueError as error:
        raise InvalidConfig(f"{engine.config_file} is not TOML: {error}. Correct that line") from None
    return section if isinstance(section, dict) else {}


def _split(text: object) -> list[str]:
    return [each.strip() for each in str(text or "").split(",") if each.strip()]


def peers(
    home: Annotated[Path, typer.Option(help="The node's home directory.", metavar="DIR", show_default=False)],
    add: Annotated[
        list[str] | None, typer.Option(help="Add this node to the list. May be repeated.", metavar="ID@HOST:PORT")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(help="Remove this node from the list. May be repeated.", metavar="ID")
    ] = None,
    closed: Annotated[
        bool | None,
        typer.Option("--closed/--open", help="Accept listed nodes only, as a validator should; or accept others too."),
    ] = None,
) -> None:
    """Show or change the nodes that a node connects to. Changes take effect when it next starts."""
    with reported_errors():
        engine = CometBFT(Path(), home / COMETBFT_DIRECTORY)
        old = read_peers(engine)
        new = old.without(remove or []).with_peers(peer for text in add or [] for peer in split_peers(text, "--add"))
        if closed is not None:
            new = Peers(new.listed, new.ids, closed)
        if new != old:
            engine.configure(new.settings())
        print_line(f"This node: {own_address(engine)}")
        print_peers(new)
        if new != old:
            print_line("Restart the node: CometBFT reads its configuration when it starts.")


def print_peers(current: Peers) -> None:
    for peer in current.listed:
        print_line(f"  {peer}")
    for each in current.ids:
        print_line(f"  {each}   (may connect; it is not dialled)")
    print_line(
        f"Other nodes: {'none may connect' if current.is_closed else f'up to {MAX_UNLISTED_PEERS} may connect'}."
    )


def warn_if_open(home: Path) -> None:
    """Warn if unlisted nodes may connect to the validator in `home`."""
    engine = CometBFT(Path(), home / COMETBFT_DIRECTORY)
    if engine.config_file.exists() and not read_peers(engine).is_closed:
        warn(f"unknown nodes may connect to this validator: `cairn peers --home {home} --closed`, then restart it")


def print_what_peers_must_do(own: str, listed: Sequence[str]) -> None:
    """What the operators of the listed nodes have to do before they accept this node."""
    print_line(f"This node is {own}. Validators take listed nodes only: for those among")
    print_line(f"  {', '.join(listed)}")
    print_line(f"ask their operators for: cairn peers --home HOME --add {own}   (and a restart)")
