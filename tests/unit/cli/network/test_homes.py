"""The homes of a network: where its nodes are, and what each is told; made by a stand-in for CometBFT."""

import base64
import json
import re
import tomllib
from pathlib import Path

import pytest

from cairn.cli.network import homes as network
from cairn.cli.network.homes import (
    Site,
    check_engine_genesis,
    engine_genesis,
    make_network,
    plan_sites,
    read_public_key,
)
from cairn.cli.network.peers import HANDSHAKE_SLOTS, MAX_UNLISTED_PEERS, Peers
from cairn.cli.node.home import Home
from cairn.cli.node.run import settle_engine
from cairn.cli.report import DataUnusable
from cairn.cometbft import CometBFT
from cairn.config import Settings, load_settings
from cairn.domain.certificates import engine_chain_id
from cairn.domain.errors import InvalidConfig, StoreUnavailable
from cairn.domain.genesis import DEV_KEYS, Genesis, dev_genesis
from cairn.domain.governance import Admins
from cairn.domain.rules import RULES_VERSION

ADMINS = Admins(1, (DEV_KEYS[0][0],))
RECIPIENTS = [DEV_KEYS[1][0], DEV_KEYS[2][0]]


def genesis() -> Genesis:
    dev = dev_genesis()
    return Genesis(dev.chain_id, dev.timestamp, dev.gas_price, dev.block_gas_limit, dev.alloc, admins=ADMINS)


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    """Writes what `cometbft init` does, as far as we touch it; its keys are made of its home's name."""
    config = {"": ["moniker", "log_level"]}
    for path in [*network.CONFIGURATION, *network.engine_settings(plan_sites(1, [], 9)[0], Peers(()))]:
        section, _, key = path.rpartition(".")
        config.setdefault(section, [])
        if key not in config[section]:
            config[section].append(key)
    text = "".join(
        (f"[{section}]\n" if section else "") + "".join(f'{key} = ""\n' for key in keys)
        for section, keys in config.items()
    )
    (tmp_path / "config.toml").write_text(text)
    script = f"""#!/usr/bin/env python3
import base64, hashlib, json, pathlib, sys
home = pathlib.Path(sys.argv[-1])
name = home.parent.name
if sys.argv[1] == "version":
    print("0.38.25")
elif sys.argv[1] == "show-node-id":
    print("id-of-" + name)
else:
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text(pathlib.Path({str(tmp_path / "config.toml")!r}).read_text())
    key = base64.b64encode(hashlib.sha256(name.encode()).digest()).decode()
    (home / "config" / "priv_validator_key.json").write_text(json.dumps({{"pub_key": {{"value": key}}}}))
"""
    stand_in = tmp_path / "cometbft"
    stand_in.write_text(script)
    stand_in.chmod(0o755)
    return stand_in


def test_nodes_on_one_host_have_ports_apart() -> None:
    sites = plan_sites(3, ["a", "b", "a"], 100)
    assert [
        (site.name, site.api_port, site.p2p_port, site.rpc_port, site.engine_metrics_port, site.is_alone)
        for site in sites
    ] == [
        ("node0", 100, 101, 102, 104, False),
        ("node1", 100, 101, 102, 104, True),
        ("node2", 110, 111, 112, 114, False),
    ]
    assert {site.host for site in plan_sites(2, [], 100)} == {"127.0.0.1"}
    assert Site("n", "::1", 1, is_alone=True).p2p_address == "[::1]:2"


@pytest.mark.parametrize(
    ("count", "hosts", "base_port", "message"),
    [
        (2, ["a"], 100, "--hosts names 1 hosts for 2 nodes"),
        (2, [], 65_530, "--base-port 65530"),
        (1, [], 0, "--base-port 0"),
    ],
)
def test_too_few_hosts_or_ports_are_refused(count: int, hosts: list[str], base_port: int, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        plan_sites(count, hosts, base_port)


def test_blocks_of_a_validator_without_fee_recipient_say_whose_they_are(tmp_path: Path, binary: Path) -> None:
    made = make_network(tmp_path / "net", binary, plan_sites(2, [], 9_000), genesis(), [None, None])
    recipients = [each.fee_recipient for each in made.validators]
    assert recipients == [each.engine_address for each in made.validators]
    assert len(set(recipients)) == 2


def test_homes_name_each_other_and_share_one_genesis(tmp_path: Path, binary: Path) -> None:
    sites = plan_sites(3, [], 9_000)
    made = make_network(tmp_path / "net", binary, sites, genesis(), RECIPIENTS)
    homes = [Home(tmp_path / "net" / f"node{index}") for index in range(3)]
    assert [home.read_genesis() for home in homes] == [made] * 3
    by_name = {validator.name: validator for validator in made.validators}
    assert {name: each.fee_recipient for name, each in by_name.items()} == {
        "node0": RECIPIENTS[0],
        "node1": RECIPIENTS[1],
    }
    assert by_name["node1"].public_key == read_public_key(homes[1].directory / "cometbft")
    config = tomllib.loads((homes[1].directory / "cometbft" / "config" / "config.toml").read_text())
    assert config["p2p"]["persistent_peers"] == "id-of-node0@127.0.0.1:9001,id-of-node2@127.0.0.1:9021"
    assert config["p2p"]["laddr"] == "tcp://127.0.0.1:9011"
    assert config["p2p"]["pex"] is False
    assert config["rpc"]["laddr"] == "tcp://127.0.0.1:9012"
    assert config["consensus"]["create_empty_blocks"] is False
    assert (tmp_path / "net").stat().st_mode & 0o077 == 0


def test_nodes_on_hosts_of_their_own_are_reached_from_outside(tmp_path: Path, binary: Path) -> None:
    sites = plan_sites(2, ["10.0.0.1", "10.0.0.2"], 9_000)
    make_network(tmp_path / "net", binary, sites, genesis(), RECIPIENTS)
    home = tmp_path / "net" / "node1"
    config = tomllib.loads((home / "cometbft" / "config" / "config.toml").read_text())
    assert config["p2p"]["laddr"] == "tcp://0.0.0.0:9001"
    assert config["p2p"]["external_address"] == "10.0.0.2:9001"
    assert config["p2p"]["allow_duplicate_ip"] is False
    assert config["rpc"]["laddr"] == "tcp://127.0.0.1:9002"
    assert config["instrumentation"] == {"prometheus": True, "prometheus_listen_addr": "127.0.0.1:9004"}
    settings = load_settings((home / "cairn.toml").read_text())
    assert (settings.engine, settings.host, settings.port) == ("cometbft", "127.0.0.1", 9_000)


def test_a_node_takes_two_peers_that_share_a_host(tmp_path: Path, binary: Path) -> None:
    sites = plan_sites(3, ["10.0.0.1", "10.0.0.2", "10.0.0.2"], 9_000)
    make_network(tmp_path / "net", binary, sites, genesis(), RECIPIENTS)
    config = tomllib.loads((tmp_path / "net" / "node0" / "cometbft" / "config" / "config.toml").read_text())
    assert config["p2p"]["allow_duplicate_ip"] is True


def test_validators_take_listed_nodes_only_and_full_nodes_take_others_too(tmp_path: Path, binary: Path) -> None:
    make_network(tmp_path / "net", binary, plan_sites(3, [], 9_000), genesis(), RECIPIENTS)
    inbound = {}
    for name, others in {"node0": {"id-of-node1", "id-of-node2"}, "node2": {"id-of-node0", "id-of-node1"}}.items():
        text = (tmp_path / "net" / name / "cometbft" / "config" / "config.toml").read_text()
        config = tomllib.loads(text)["p2p"]
        inbound[name] = config["max_num_inbound_peers"]
        places = config["unconditional_peer_ids"].split(",")
        assert set(places) == others
        # So many silent connections do not keep a listed node out.
        assert len(places) == HANDSHAKE_SLOTS > 150
    assert inbound == {"node0": 0, "node2": MAX_UNLISTED_PEERS}


def test_the_genesis_of_cometbft_is_of_the_same_chain(tmp_path: Path, binary: Path) -> None:
    made = make_network(tmp_path / "net", binary, plan_sites(2, [], 9_000), genesis(), RECIPIENTS)
    stated = engine_genesis(made)
    assert stated["chain_id"] == engine_chain_id(made)
    assert re.fullmatch("cairn-1337-[0-9a-f]{24}", stated["chain_id"])
    assert stated["genesis_time"] == "2025-01-01T00:00:00Z"
    assert stated["consensus_params"]["version"]["app"] == str(RULES_VERSION)
    keys = [base64.b64decode(each["pub_key"]["value"]) for each in stated["validators"]]
    assert keys == [validator.public_key for validator in made.validators]
    engine = CometBFT(binary, tmp_path / "net" / "node0" / "cometbft")
    check_engine_genesis(engine, made)
    with pytest.raises(InvalidConfig, match="is not this node's genesis.json"):
        check_engine_genesis(engine, dev_genesis())
    stated = json.loads(engine.genesis_file.read_text())
    engine.genesis_file.write_text(json.dumps(stated | {"chain_id": "cairn-1337"}))
    with pytest.raises(InvalidConfig, match="chain_id in .* is 'cairn-1337', not 'cairn-1337-"):
        check_engine_genesis(engine, made)
    engine.genesis_file.write_text("{}")
    with pytest.raises(InvalidConfig, match="cannot read our genesis in"):
        check_engine_genesis(engine, made)


def test_a_failure_leaves_no_directory_behind(tmp_path: Path, binary: Path) -> None:
    binary.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(InvalidConfig, match="init"):
        make_network(tmp_path / "here" / "net", binary, plan_sites(1, [], 9_000), genesis(), RECIPIENTS[:1])
    assert list((tmp_path / "here").iterdir()) == []


def test_a_directory_with_files_is_refused(tmp_path: Path, binary: Path) -> None:
    with pytest.raises(InvalidConfig, match="is not empty; nothing was written"):
        make_network(tmp_path, binary, plan_sites(1, [], 9_000), genesis(), RECIPIENTS[:1])
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="cannot look for .*: Not a directory"):
        make_network(tmp_path / "file" / "net", binary, plan_sites(1, [], 9_000), genesis(), RECIPIENTS[:1])


def test_an_unreadable_public_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cannot read the public key in .*priv_validator_key.json"):
        read_public_key(tmp_path)


def write_identity(home: Home) -> None:
    """What the stand-in leaves out, in a home whose chain was begun."""
    home.begun_file.touch()
    (home.directory / "cometbft" / "data").mkdir(exist_ok=True)
    for name in ("config/node_key.json", "data/priv_validator_state.json"):
        (home.directory / "cometbft" / name).touch()


class TestSettleEngine:
    """From a node's settings and home to the CometBFT that it starts."""

    @pytest.fixture
    def home(self, tmp_path: Path, binary: Path) -> Home:
        make_network(tmp_path / "net", binary, plan_sites(1, [], 9_000), genesis(), RECIPIENTS[:1])
        return Home(tmp_path / "net" / "node0")

    def test_everything_is_found_in_the_home(self, home: Home, binary: Path) -> None:
        given = Settings(engine="cometbft", cometbft_binary=str(binary))
        settings, engine = settle_engine(home, home.read_genesis(), given)
        assert engine == CometBFT(binary, home.directory / "cometbft")
        assert settings.cometbft_rpc == "tcp://127.0.0.1:9002"
        assert settings.cometbft_home == str(home.directory / "cometbft")

    def test_settings_name_the_home_and_the_rpc_of_cometbft(self, home: Home, binary: Path) -> None:
        elsewhere = home.directory.parent / "elsewhere"
        (home.directory / "cometbft").rename(elsewhere)
        given = Settings(
            engine="cometbft",
            cometbft_binary=str(binary),
            cometbft_home=str(elsewhere),
            cometbft_rpc="unix:///x",
        )
        settings, engine = settle_engine(home, home.read_genesis(), given)
        assert engine == CometBFT(binary, elsewhere)
        assert settings.cometbft_rpc == "unix:///x"

    def test_an_attached_one_is_not_started_nor_looked_for(self, home: Home) -> None:
        given = Settings(engine="cometbft", cometbft_attach=True, abci_socket="/x", cometbft_binary="/nothing")
        settings, engine = settle_engine(home, home.read_genesis(), given)
        assert engine is None
        assert settings.cometbft_rpc == "tcp://127.0.0.1:9002"

    def test_engine_and_genesis_must_fit(self, home: Home) -> None:
        assert settle_engine(home, dev_genesis(), Settings()) == (Settings(), None)
        with pytest.raises(InvalidConfig, match='names validators: such a chain needs engine = "cometbft"'):
            settle_engine(home, home.read_genesis(), Settings())
        with pytest.raises(InvalidConfig, match='names no validators: such a chain needs engine = "embedded"'):
            settle_engine(home, dev_genesis(), Settings(engine="cometbft"))

    @pytest.mark.parametrize("name", ["config/node_key.json", "data/priv_validator_state.json"])
    def test_a_node_that_has_run_keeps_its_key_and_the_record_of_its_last_vote(
        self, home: Home, binary: Path, name: str
    ) -> None:
        given = Settings(engine="cometbft", cometbft_binary=str(binary))
        write_identity(home)
        settle_engine(home, home.read_genesis(), given)
        (home.directory / "cometbft" / name).unlink()
        with pytest.raises(DataUnusable, match=f"{name} is missing, though this node has run with it"):
            settle_engine(home, home.read_genesis(), given)
        # A home whose chain was never begun is CometBFT's to complete.
        home.begun_file.unlink()
        settle_engine(home, home.read_genesis(), given)

    def test_with_a_remote_signer_no_vote_record_is_needed(self, home: Home, binary: Path) -> None:
        given = Settings(engine="cometbft", cometbft_binary=str(binary))
        write_identity(home)
        _, engine = settle_engine(home, home.read_genesis(), given)
        assert engine is not None
        (engine.home / "data" / "priv_validator_state.json").unlink()
        config = engine.config_file.read_text()
        engine.config_file.write_text(f'priv_validator_laddr = "tcp://127.0.0.1:26659"\n{config}')
        settle_engine(home, home.read_genesis(), given)
