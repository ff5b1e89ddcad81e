"""A node that cannot agree with its network says why: it has another state, or another genesis."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cairn.cli.network.homes import engine_genesis
from cairn.cli.node.home import Home
from cairn.config import EXIT_DIVERGED
from cairn.domain.genesis import Genesis, encode_genesis
from tests.support import altered_node
from tests.support.network import Network, NetworkNode
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.wallet import dev_account, new_account, sign_transfer


@pytest.fixture
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    with Network(scratch / "network") as network:
        yield network


def pay(node: NetworkNode, nonce: int) -> None:
    transfer = sign_transfer(dev_account(0), new_account().address, 1, nonce=nonce)
    node.public.await_confirmed(node.public.submit(transfer))


def begin_anew(node: NetworkNode, genesis: Genesis) -> None:
    """Give a node that does not run another genesis, and no blocks."""
    Home(node.home).begun_file.unlink()
    (node.home / "genesis.json").write_bytes(encode_genesis(genesis))
    (node.cometbft_config / "genesis.json").write_text(json.dumps(engine_genesis(genesis)))
    shutil.rmtree(node.home / "data")
    data = node.home / "cometbft" / "data"
    for path in data.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    (data / "priv_validator_state.json").write_text('{"height": "0", "round": 0, "step": 0}')


def test_another_state_stops_a_node_and_another_genesis_is_named(network: Network, scratch: Path) -> None:
    first, *others, odd = network.nodes
    for node in (first, *others):
        node.launch()
    odd.launch([sys.executable, "-P", altered_node.__file__, "diverged", str(scratch)])
    first.await_ready()
    pay(first, 0)
    assert odd.process is not None
    assert odd.process.wait_exit() == EXIT_DIVERGED
    assert "has computed another state than its network" in odd.process.stderr
    # Three of four go on without it.
    pay(first, 1)
    odd.kill()
    # What is on its disk is wrong from now on, whatever program it runs, and in whichever form CometBFT says so.
    config = odd.cometbft_config / "config.toml"
    config.write_text(config.read_text().replace('log_format = "plain"', 'log_format = "json"'))
    odd.launch()
    assert odd.process.wait_exit() == EXIT_DIVERGED
    odd.kill()

    begin_anew(odd, msgspec.structs.replace(network.genesis, gas_price=network.genesis.gas_price + 1))
    odd.launch()
    process = odd.process
    assert process is not None
    wait_until(
        lambda: "a peer is of another network and is refused" in process.stderr, PATIENCE_S, "the network to be named"
    )
    odd.await_reason("no peer is connected")
