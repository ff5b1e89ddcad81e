"""Transactions submitted to several nodes: one chain, the same everywhere, with each transaction once."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from cairn.domain.types import Address
from tests.support.network import QUICK, Network, NetworkNode
from tests.support.node_process import clean_environment, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.promises import assert_agreement, assert_each_once
from tests.support.replay import replay_chain
from tests.support.steady_load import sign_dev_transfer

ROOT = Path(__file__).parents[3]
SENDERS = 10
NONCES = 20
INTERFACE_NODES = [int(index) for index in os.environ.get("INTERFACE_NODES", "3").split(",")]
"""All four pass; one of them at each run keeps the whole suite within its time."""


@pytest.fixture(scope="module")
def network(cometbft_tools: Path, scratch: Path) -> Iterator[Network]:
    """Four validators that make the next block at once: nearly every test waits for one, and then for another."""
    with Network(scratch / "network", config=QUICK | {"consensus.timeout_commit": "10ms"}, traced=True) as network:
        network.start()
        yield network


def test_one_chain_whichever_node_a_transaction_goes_through(network: Network) -> None:
    random = Random(3)
    recipients = [Address(random.randbytes(20)) for _ in range(5)]
    accepted = []
    for nonce in range(NONCES):
        for sender in range(SENDERS):
            to = random.choice(recipients)
            tx_hash, body = sign_dev_transfer(sender, to, random.randrange(10**15), nonce)
            # Through one node, or through two at once; the nonce before it went through another one.
            for node in random.sample(network.nodes, random.choice([1, 2])):
                answer = node.public.post(body)
                assert answer.status_code == 200, answer.text
                assert answer.json()["txHash"] == tx_hash
            accepted.append(tx_hash)
    for node in network.nodes:
        for tx_hash in accepted:
            # A busy node gathers before it sends: those it was not submitted to hear of it a moment later.
            wait_until(partial(knows, node, tx_hash), PATIENCE_S, f"node {node.index} to hear of {tx_hash}")
            node.public.await_confirmed(tx_hash)
    chain = assert_agreement(network.nodes)
    assert_each_once(chain, accepted)
    assert sum(len(block["transactions"]) for block in chain) == len(accepted)
    replay = replay_chain(network.nodes[0].public, network.genesis)
    assert sum(account.balance for account in replay.accounts.values()) == sum(network.genesis.alloc.values())
    for node in network.nodes:
        for address, account in replay.accounts.items():
            shown = node.public.read(f"/account/0x{address.hex()}")
            assert (shown["balance"], shown["nonce"]) == (account.balance, account.nonce)
        assert node.public.read("/mempool") == []


def knows(node: NetworkNode, tx_hash: str) -> bool:
    return node.public.get(f"/tx/{tx_hash}").status_code == 200


@pytest.mark.parametrize("index", INTERFACE_NODES)
def test_each_node_of_the_network_has_the_interface_of_a_single_one(network: Network, index: int) -> None:
    """The suite that a single node passes, as it is."""
    node = network.nodes[index]
    assert node.public.engine == "cometbft"
    suite = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/e2e/interface"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=clean_environment({"NODE_URL": node.url}) | {"CI": os.environ.get("CI", "true")},
    )
    assert suite.returncode == 0, suite.stdout + suite.stderr
