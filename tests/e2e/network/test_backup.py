"""Backups of a network's nodes while they run: what is restored goes on from there, and can sign nothing twice."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.network import Network, NetworkNode
from tests.support.node_process import clean_environment, command, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.steady_load import SteadyLoad

KEY, STATE = "cometbft/config/priv_validator_key.json", "cometbft/data/priv_validator_state.json"


@pytest.fixture(scope="module")
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    with Network(scratch / "network", validators=1, args=["--full-nodes=1"], linked=False) as network:
        network.start()
        yield network


def cairn(*args: object) -> str:
    done = subprocess.run(
        command([str(arg) for arg in args]), env=clean_environment(), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_full_node_that_is_restored_has_all_that_was_accepted_and_goes_on(network: Network, scratch: Path) -> None:
    validator, full = network.nodes
    with SteadyLoad([validator.url, full.url], per_second=100) as load:
        wait_until(lambda: len(load.accepted) > 100, PATIENCE_S, "some")
        accepted = set(load.accepted)
        made = json.loads(
            cairn("backup", "--home", full.home, scratch / "full", "--with-keys", "--json").splitlines()[-1]
        )
        height = validator.height()
        validator.await_height(height + 2)
    assert made["nodeRan"]
    full.stop()
    told = cairn("restore", scratch / "full", scratch / "restored")
    assert "this is a full node with a new validator key" in told
    assert json.loads((scratch / "restored" / STATE).read_bytes())["height"] == "0"
    restored = NetworkNode(1, scratch / "restored", int(full.url.rpartition(":")[2]), full.p2p_port)
    restored.start()
    try:
        restored.await_height(height + 2)
        assert made["blockHeight"] <= restored.height()
        for tx_hash in accepted:
            assert restored.public.await_confirmed(tx_hash)
        assert restored.block(height) == validator.block(height)
    finally:
        restored.kill()
        restored.public.close()


def test_what_is_restored_of_a_validator_has_neither_its_key_nor_its_record_of_votes(
    network: Network, scratch: Path
) -> None:
    validator = network.nodes[0]
    cairn("backup", "--home", validator.home, scratch / "validator", "--with-keys")
    (backup,) = (path for path in (scratch / "validator").iterdir())
    assert not (backup / STATE).exists()
    assert (backup / KEY).read_bytes() == (validator.home / KEY).read_bytes()
    cairn("restore", backup, scratch / "former-validator")
    assert (scratch / "former-validator" / KEY).read_bytes() != (validator.home / KEY).read_bytes()
    assert json.loads((scratch / "former-validator" / STATE).read_bytes())["height"] == "0"
    config = (scratch / "former-validator" / "cometbft" / "config" / "config.toml").read_text()
    assert 'moniker = "node0-restored"' in config
    # It was not disturbed.
    height = validator.height()
    validator.await_height(height + 1)


def test_a_network_of_which_only_backups_are_left_goes_on_with_its_old_keys(network: Network, scratch: Path) -> None:
    validator = network.nodes[0]
    validator.stop()
    made = json.loads(cairn("backup", "--home", validator.home, scratch / "stopped", "--json").splitlines()[-1])
    assert not made["nodeRan"]
    told = cairn("restore", scratch / "stopped", scratch / "last")
    assert "those that are closed must list it: cairn peers --add" in told
    (scratch / "last" / KEY).write_bytes((validator.home / KEY).read_bytes())
    last = NetworkNode(0, scratch / "last", int(validator.url.rpartition(":")[2]), validator.p2p_port)
    last.start()
    try:
        last.await_height(made["blockHeight"] + 2)
    finally:
        last.kill()
        last.public.close()
