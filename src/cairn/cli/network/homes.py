"""The homes of a network's nodes: each as a node's own, and in it the home of its CometBFT.

DIR/node0/genesis.json    the chain's rules, first balances, validators and administrators; the same in all
DIR/node0/cairn.toml      the node's settings
DIR/node0/data/           the node's chain, once it has run
DIR/node0/cometbft/       config/ with its keys, data/ with its own chain
"""

import base64
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from cairn.cli.network.peers import Peers, host_of
from cairn.cli.node.home import Home
from cairn.cometbft import COMETBFT_DIRECTORY, CometBFT, TomlValue
from cairn.domain.certificates import engine_chain_id
from cairn.domain.errors import InvalidConfig, NodeError, reason_of
from cairn.domain.genesis import Genesis, encode_genesis, genesis_digest, parse_genesis
from cairn.domain.governance import ValidatorRecord
from cairn.domain.rules import RULES_VERSION
from cairn.domain.types import ZERO_ADDRESS, Address
from cairn.store.directory import has_files, is_directory

LOOPBACK = "127.0.0.1"
BASE_PORT = 8650
"""First of the ports of a network's first node."""
PORTS_BETWEEN_NODES = 10
FIRST_POWER = 10
SNAPSHOT_INTERVAL = 1_000
MAX_BLOCK_BYTES = 4 * 1024 * 1024

CONFIGURATION: dict[str, TomlValue] = {
    # Blocks are in our own log.
    "log_level": "main:info,statesync:info,blocksync:info,*:error",
    "consensus.create_empty_blocks": False,
    # A block every few seconds shows that an idle network works, and advances its clock.
    "consensus.create_empty_blocks_interval": "5s",
    "consensus.timeout_propose": "2s",
    "consensus.timeout_commit": "400ms",
    # Votes wait for that at each step of a round. With the default, 100ms, that is most of what a block takes.
    "consensus.peer_gossip_sleep_duration": "25ms",
    "mempool.size": 10_000,
    "mempool.cache_size": 20_000,
    "mempool.max_txs_bytes": 64 * 1024 * 1024,
    "mempool.max_tx_bytes": 128 * 1024,
    "mempool.recheck_timeout": "5s",
    "p2p.flush_throttle_timeout": "10ms",
    "p2p.pex": False,
    # Private networks live on private addresses.
    "p2p.addr_book_strict": False,
    "tx_index.indexer": "null",
}
"""Settings that differ from those that CometBFT writes."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where one node of the network runs."""

    name: str
    host: str
    api_port: int
    is_alone: bool
    """No other node shares its host."""

    @property
    def p2p_port(self) -> int:
        return self.api_port + 1

    @property
    def rpc_port(self) -> int:
        return self.api_port + 2

    @property
    def metrics_port(self) -> int:
        return self.api_port + 3

    @property
    def engine_metrics_port(self) -> int:
        """Where CometBFT's own metrics are."""
        return self.api_port + 4

    @property
    def p2p_address(self) -> str:
        return f"[{self.host}]:{self.p2p_port}" if ":" in self.host else f"{self.host}:{self.p2p_port}"

    @property
    def is_local(self) -> bool:
        """Whether its peers look for it at that address, and so it listens there only.

        On another one of this machine, such as ::1 or a name, it listens on all: a name does not say at which.
        """
        return self.host == LOOPBACK


def plan_sites(count: int, hosts: Sequence[str], base_port: int) -> list[Site]:
    """One site for each node; those that share a host have ports apart. Raises `InvalidConfig`."""
    if hosts and len(hosts) != count:
        raise InvalidConfig(f"--hosts names {len(hosts)} hosts for {count} nodes")
    hosts = hosts or [LOOPBACK] * count
    shared = Counter(hosts)
    if not 1 <= base_port <= 65_535 - max(shared.values()) * PORTS_BETWEEN_NODES:
        raise InvalidConfig(f"--base-port {base_port}: there are too few ports above it, or none")
    taken: Counter[str] = Counter()
    sites = []
    for index, host in enumerate(hosts):
        port = base_port + taken[host] * PORTS_BETWEEN_NODES
        sites.append(Site(f"node{index}", host, port, is_alone=shared[host] == 1))
        taken[host] += 1
    return sites


def make_network(
    directory: Path, binary: Path, sites: Sequence[Site], genesis: Genesis, fee_recipients: Sequence[Address | None]
) -> Genesis:
    """Make a home for each site, all or none; the first sites, one for each fee recipient, are validators.

    Returns the genesis with its validators. Raises `InvalidConfig`, say rather than touch a directory in use, or
    `StoreUnavailable`.
    """
    with whole_directory(directory) as building:
        return _write_homes(building, binary, sites, genesis, fee_recipients)


@contextmanager
def whole_directory(directory: Path) -> Iterator[Path]:
    """Where to write what shall be in `directory`, all or nothing. Raises `InvalidConfig` if anything is there."""
    if has_files(directory):
        raise InvalidConfig(f"{directory} is not empty; nothing was written")
    # One that somebody has made may be all that this user may write to, or have a disk of its own.
    is_made = is_directory(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        place = directory if is_made else directory.parent
        building = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=place))
    except OSError as error:
        raise InvalidConfig(f"cannot write {error.filename}: {error.strerror}") from None
    try:
        yield building
        if is_made:
            for path in sorted(building.iterdir()):
                path.rename(directory / path.name)
            building.rmdir()
        else:
            building.replace(directory)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def _write_homes(
    directory: Path, binary: Path, sites: Sequence[Site], genesis: Genesis, fee_recipients: Sequence[Address | None]
) -> Genesis:
    engines = [CometBFT(binary, directory / site.name / COMETBFT_DIRECTORY) for site in sites]
    for engine in engines:
        engine.run("init")
    peers = {
        site.name: f"{engine.run('show-node-id')}@{site.p2p_address}"
        for site, engine in zip(sites, engines, strict=True)
    }
    validators = [
        validator_with(read_public_key(engine.home), FIRST_POWER, recipient, site.name)
        for site, engine, recipient in zip(sites, engines, fee_recipients, strict=False)
    ]
    whole = parse_genesis(encode_genesis(msgspec.structs.replace(genesis, validators=tuple(validators), signer=None)))
    for site, engine in zip(sites, engines, strict=True):
        others = tuple(peer for name, peer in peers.items() if name != site.name)
        # Full nodes are there for others to connect to.
        known = Peers(others, is_closed=site in sites[: len(fee_recipients)])
        write_home(Home(directory / site.name), engine, site, whole, known)
    return whole


def validator_with(public_key: bytes, power: int, recipient: Address | None, name: str) -> ValidatorRecord:
    """A validator; without a recipient its fees go to its own address, and are lost."""
    validator = ValidatorRecord(public_key, power, recipient or ZERO_ADDRESS, name)
    if recipient is not None:
        return validator
    return msgspec.structs.replace(validator, fee_recipient=Address(validator.engine_address))


def write_home(home: Home, engine: CometBFT, site: Site, genesis: Genesis, peers: Peers) -> None:
    """Write the files of one node, beside the keys that its CometBFT has made already."""
    home.create(genesis, settings_of(site))
    engine.genesis_file.write_text(json.dumps(engine_genesis(genesis), indent=2) + "\n")
    engine.configure(CONFIGURATION | engine_settings(site, peers))


def settings_of(site: Site) -> dict[str, object]:
    chosen: dict[str, object] = {
        "engine": "cometbft",
        "port": site.api_port,
        "metrics_port": site.metrics_port,
        "snapshot_interval": SNAPSHOT_INTERVAL,
    }
    # Several nodes share the processors.
    return chosen if site.is_alone else chosen | {"workers": 1}


def engine_settings(site: Site, peers: Peers) -> dict[str, TomlValue]:
    hosts = [host_of(peer) for peer in peers.listed]
    return peers.settings() | {
        "moniker": site.name,
        "rpc.laddr": f"tcp://{LOOPBACK}:{site.rpc_port}",
        "p2p.laddr": f"tcp://{LOOPBACK if site.is_local else '0.0.0.0'}:{site.p2p_port}",
        "p2p.external_address": "" if site.is_local else site.p2p_address,
        # Otherwise one address has one connection, even before its handshake: too few for peers that share one.
        "p2p.allow_duplicate_ip": not site.is_alone or len(set(hosts)) < len(hosts),
        "instrumentation.prometheus": True,
        "instrumentation.prometheus_listen_addr": f"{LOOPBACK}:{site.engine_metrics_port}",
    }


def engine_genesis(genesis: Genesis) -> dict[str, Any]:
    """What CometBFT starts the same chain from; our genesis is in it, and so reaches every node."""
    return {
        "genesis_time": datetime.fromtimestamp(genesis.timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "chain_id": engine_chain_id(genesis),
        "initial_height": "1",
        "consensus_params": {
            "block": {"max_bytes": str(MAX_BLOCK_BYTES), "max_gas": "-1"},
            "evidence": {
                "max_age_num_blocks": "100000",
                "max_age_duration": str(48 * 3_600 * 10**9),
                "max_bytes": "1048576",
            },
            "validator": {"pub_key_types": ["ed25519"]},
            "version": {"app": str(RULES_VERSION)},
            "abci": {"vote_extensions_enable_height": "0"},
        },
        "validators": [_engine_validator(validator) for validator in genesis.validators],
        "app_hash": "",
        "app_state": json.loads(encode_genesis(genesis)),
    }


def _engine_validator(validator: ValidatorRecord) -> Mapping[str, object]:
    return {
        "address": validator.engine_address.hex().upper(),
        "pub_key": {
            "type": "tendermint/PubKeyEd25519",
            "value": base64.b64encode(validator.public_key).decode(),
        },
        "power": str(validator.power),
        "name": validator.name,
    }


def read_public_key(engine_home: Path) -> bytes:
    """The key that this node's CometBFT signs votes with. Raises `InvalidConfig`."""
    path = engine_home / "config" / "priv_validator_key.json"
    try:
        return base64.b64decode(json.loads(path.read_bytes())["pub_key"]["value"], validate=True)
    except OSError as error:
        raise InvalidConfig(f"cannot read the public key in {path}: {reason_of(error)}") from None
    except (ValueError, KeyError, TypeError):
        raise InvalidConfig(f"{path} holds no public key of CometBFT: restore it from your backup") from None


def read_genesis(path: Path) -> Genesis:
    """The genesis of a network. Raises `InvalidConfig`."""
    try:
        genesis = parse_genesis(path.read_bytes())
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
    except NodeError as error:
        raise InvalidConfig(f"{path}: {error.detail}") from None
    if not genesis.validators:
        raise InvalidConfig(f"{path} names no validators, so it is not the genesis of a network")
    return genesis


def check_engine_genesis(engine: CometBFT, genesis: Genesis) -> None:
    """Raise `InvalidConfig` when CometBFT would start another chain than ours."""
    try:
        stated = json.loads(engine.genesis_file.read_bytes())
        found, chain_id = parse_genesis(json.dumps(stated["app_state"]).encode()), stated["chain_id"]
    except (OSError, ValueError, KeyError, TypeError, NodeError) as error:
        raise InvalidConfig(f"cannot read our genesis in {engine.genesis_file}: {reason_of(error)}") from None
    if genesis_digest(found) != genesis_digest(genesis):
        raise InvalidConfig(f"the app_state in {engine.genesis_file} is not this node's genesis.json")
    if chain_id != engine_chain_id(genesis):
        raise InvalidConfig(f"the chain_id in {engine.genesis_file} is {chain_id!r}, not {engine_chain_id(genesis)!r}")
